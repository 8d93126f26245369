"""Several sessions of one person: their names, how many there may be, and the pages and calls that name them."""
