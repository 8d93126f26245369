"""Templates as things one uses: the catalogue, copies with a stamp, and what becomes of a copy."""
