"""What a session knows of its own job: when it ends, and what it uses."""
