"""Starts ipykernel, from a place of the session's own: ``python -m`` would look into the notebook's folder first.

Whoever writes beside a notebook would otherwise decide what runs when it is opened. Written in what Python 3.6 knows.
"""

import os
import sys

if __name__ == "__main__":
    if sys.path and sys.path[0] == os.path.dirname(os.path.abspath(__file__)):  # noqa: PTH100, PTH120  as light as can be
        del sys.path[0]

    from ipykernel import kernelapp

    kernelapp.launch_new_instance()
