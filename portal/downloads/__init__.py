"""A folder as one file to download, made while it is sent."""
