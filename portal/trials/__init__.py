"""What the last test of each kernel and web tool found: values, the site's record, what a session shows."""
