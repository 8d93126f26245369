"""The single-user server in a session's job: quick start, home, extension, shutdown."""
