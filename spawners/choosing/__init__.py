"""What one person may choose of a session, and what is known of each choice."""
