"""A real Lmod in a cluster of its own: where it is, it is the module command of everything."""
