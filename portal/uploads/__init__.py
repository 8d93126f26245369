"""Large files into a session, in parts, each of which is kept: an upload goes on where it was."""
