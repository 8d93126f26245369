"""The acceptance benches, ``portal bench``: the portal beside the stock parts, in a private cluster of the checkout."""
