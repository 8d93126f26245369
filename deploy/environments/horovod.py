#!/usr/bin/python3
"""The command ``deploy/environments/horovod.py``: see :mod:`deploy.environments.horovod_environments`."""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.argv.insert(1, "deploy.environments.horovod_environments")
    runpy.run_path(str(Path(__file__).resolve().parents[1] / "run_module.py"), run_name="__main__")
