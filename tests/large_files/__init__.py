"""Five gigabytes into a session and out of it: a named run, not a part of CI."""
