"""What Slurm lets one person have: the partitions, and the accounts and QOS of sacctmgr."""
