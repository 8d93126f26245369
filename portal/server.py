"""A session that was submitted by a version before 0.1.0 starts here: Slurm keeps the batch script of its job.

The module is :mod:`portal.singleuser.server` since then.
"""

from __future__ import annotations

from portal.singleuser.server import main

if __name__ == "__main__":
    main()
