"""Commands of `portal` for a portal that does not run: its state folder and its database."""
