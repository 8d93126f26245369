"""What a hostile colleague, an outsider and somebody who has left may try, and do not get."""
