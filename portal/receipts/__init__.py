"""What sessions used: asked of Slurm's accounting for many of them at a time, and kept with those that have ended."""
