"""JupyterLab's own files, for browsers: they are the same for everybody, so the hub's host serves them once for all."""
