"""A small package of a test's own, built by a real build tool: what pip installs where there is no index."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.inside import VENV_BIN

ANSWER = "import oneofmine; print(oneofmine.ANSWER)"  # prints 42


def wheel(folder: Path) -> Path:
    """A folder with the wheel of ``oneofmine`` 1.2.3."""
    source, wheels = folder / "source", folder / "wheels"
    (source / "oneofmine").mkdir(parents=True)
    (source / "oneofmine/__init__.py").write_text("ANSWER = 6 * 7\n")
    (source / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "oneofmine"\nversion = "1.2.3"\n'
    )
    build = [str(VENV_BIN / "python"), "-m", "hatchling", "build", "--target", "wheel", "--directory", str(wheels)]
    subprocess.run(build, cwd=source, check=True, capture_output=True)
    return wheels
