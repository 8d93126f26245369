"""Starts a kernel that is a module of any name: as ``python -m NAME``, but not out of the notebook's folder.

Written in what Python 3.6 knows.
"""

import os
import runpy
import sys

if __name__ == "__main__":
    if sys.path and sys.path[0] == os.path.dirname(os.path.abspath(__file__)):  # noqa: PTH100, PTH120  as light as can be
        del sys.path[0]
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
