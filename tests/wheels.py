"""A small package of a test's own, built by a real build tool: what pip installs where there is no index."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.inside import VENV_BIN

ANSWER = "import oneofmine; print(oneofmine.ANSWER)"  # prints 42


def wheel(folder: Path, name: str = "oneofmine") -> Path:
    """A folder with the wheel of ``oneofmine`` 1.2.3, or of another name beside it."""
    source, wheels = folder / f"source-{name}", folder / "wheels"
    (source / name).mkdir(parents=True)
    (source / name / "__init__.py").write_text("ANSWER = 6 * 7\n")
    (source / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        f'[project]\nname = "{name}"\nversion = "1.2.3"\n'
    )
    build = [str(VENV_BIN / "python"), "-m", "hatchling", "build", "--target", "wheel", "--directory", str(wheels)]
    subprocess.run(build, cwd=source, check=True, capture_output=True)
    return wheels
