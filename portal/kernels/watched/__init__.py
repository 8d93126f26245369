"""The first seconds of a kernel: what it says on its stderr, and why it ended before it was there."""
