"""Batch jobs of a person's own: a notebook or a script that runs on without the session."""
