"""Web tools out of modules in a session: each a process on a Unix socket, behind the server's own proxy."""
