"""The modules of the cluster, for a person in a session: which there are, what each does, and kernels out of them."""
