"""What a session would find on the cluster now, and when it would start: for the form, out of the shared snapshots."""
