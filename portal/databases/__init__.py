"""The database of a portal where it is no file: a PostgreSQL or MariaDB server; and the schemas of all kinds."""
