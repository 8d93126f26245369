"""Programs of a session on Unix sockets, and the way of a person's browser to them: TensorBoards and web tools."""
