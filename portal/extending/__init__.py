"""More time for a session that runs: what may be given, the one program that gives it, and the hub's way to it."""
