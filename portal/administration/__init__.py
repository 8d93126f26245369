"""What administrators of a portal may do, and how it is asked for and told."""
