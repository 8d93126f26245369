"""FakeSlurm, the public double of Slurm for tests, and what belongs to it."""
