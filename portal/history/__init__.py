"""The sessions that have ended: what is kept of each, what helps, and where a person reads it."""
