"""Slurm: commands beside their parsers, one snapshot for all sessions, what is submitted, and where processes start."""
