"""The JupyterHub application: its configuration, login, pages and database."""
