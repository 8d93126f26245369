"""What the addresses of a session's server have in common: their refusals, and that they are brought in late."""
