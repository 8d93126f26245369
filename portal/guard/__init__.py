"""What stands before every request of the hub: where it comes from, how much is read, which headers an answer has."""
