"""How sessions end, as the hub keeps it."""
