"""`portal doctor`: checks of a site and of its host, each with what was found and how to repair it."""
