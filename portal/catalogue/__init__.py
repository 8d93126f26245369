"""The kernels that a site offers: what its settings list, as kernelspecs that every Jupyter client reads."""
