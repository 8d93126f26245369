"""Starts ipykernel, from a place of the session's own: ``python -m`` would look into the notebook's folder first.

Whoever writes beside a notebook would otherwise decide what runs when it is opened. And the program is called as with
``-m``: what looks for a repository above it, as GitPython does, would meet what others put into /tmp. Written in what
Python 3.6 knows.
"""

import os
import sys

if __name__ == "__main__":
    if sys.path and sys.path[0] == os.path.dirname(os.path.abspath(__file__)):  # noqa: PTH100, PTH120  as light as can be
        del sys.path[0]

    from importlib import util

    found = util.find_spec("ipykernel")
    if found is not None and found.origin:
        packages = os.path.dirname(os.path.dirname(found.origin))  # noqa: PTH120  as above
        __file__ = sys.argv[0] = os.path.join(packages, "ipykernel_launcher.py")  # noqa: PTH118  as above

    from ipykernel import kernelapp

    kernelapp.launch_new_instance()
