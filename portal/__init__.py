"""The Data Scientist Portal: notebooks on GPU clusters that run Slurm."""

__version__ = "0.1.0"
