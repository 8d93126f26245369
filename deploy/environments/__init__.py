"""The environments: the portal's own, and those of the kernels with their tree of modulefiles."""
