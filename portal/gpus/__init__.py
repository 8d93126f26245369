"""What Slurm gives and what the frameworks of kernels see of it: ``portal kernels test``, here or in a job."""
