"""The demo: a whole Slurm site with the portal on it, in namespaces of its own. Nothing is installed."""
