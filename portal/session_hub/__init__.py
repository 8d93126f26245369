"""What a running session asks the hub about itself, for the pages of its person."""
