"""What a site may set: each table of its settings file, and its faults as sentences."""
