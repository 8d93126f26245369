#!/usr/bin/python3
"""The command ``deploy/setup.py``: see :mod:`deploy.environments.portal_venv`."""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.argv.insert(1, "deploy.environments.portal_venv")
    runpy.run_path(str(Path(__file__).resolve().with_name("run_module.py")), run_name="__main__")
