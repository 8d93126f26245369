"""portal-launch itself, but its constant batch script starts a stub: the same sudo, sbatch, file and log."""

from __future__ import annotations

import sys
from pathlib import Path

from portal import launcher

HERE = Path(__file__).resolve().parent


def script() -> Path:
    """The stub's batch script."""
    return HERE / "session.sh"


if __name__ == "__main__":
    launcher._script = script
    sys.executable = str(HERE / "announce")  # the batch script's first argument: what is started in the job
    sys.exit(launcher.main())
