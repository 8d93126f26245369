"""Kernels: kernelspecs from the site's settings, module environments and their cache, the provisioner."""
