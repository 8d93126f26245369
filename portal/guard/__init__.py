"""What stands before every request of the hub: where it comes from, how much is read, which headers an answer has.

And what its pages say when something fails, or when Slurm or the directory does not answer.
"""
