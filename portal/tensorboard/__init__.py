"""TensorBoard in a session: one instance for each real folder, behind the server's own proxy."""
