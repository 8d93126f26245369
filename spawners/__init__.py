"""JupyterHub spawners of the Data Scientist Portal."""
