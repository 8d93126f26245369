"""Is ``portal/labextension`` the build of these sources? Builds them in a folder of its own and compares.

Run it with the Python of ``.venv``; npm takes the packages from its cache where it has them. Exit status 1 names the
files that differ.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

LAB = Path(__file__).resolve().parent
BUILT = LAB.parents[1] / "portal" / "labextension"
BIN = Path(sys.executable).parent


def main() -> int:
    """Build, compare, say it in one line."""
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder, "templates", "lab")
        shutil.copytree(LAB, sources, ignore=shutil.ignore_patterns("node_modules", "lib"))
        npm(sources, "ci", "--prefer-offline", "--no-audit", "--no-fund")
        npm(sources, "run", "build")
        differing = differences(Path(folder, "portal", "labextension"), BUILT)
    if differing:
        print(f"portal/labextension is not the build of templates/lab/ ({', '.join(differing)}).")
        print(
            "Run: cd templates/lab && export NODE_DISABLE_COMPILE_CACHE=1 && "
            "../../.venv/bin/npm ci && ../../.venv/bin/npm run build"
        )
        return 1
    print("portal/labextension is the build of templates/lab/.")
    return 0


def npm(folder: Path, *words: str) -> None:
    """Run npm, and show what it said when it fails."""
    environ = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}", "npm_config_update_notifier": "false"}
    environ["NODE_DISABLE_COMPILE_CACHE"] = "1"  # npm (10.9) takes code from a known name in /tmp
    done = subprocess.run(
        [str(BIN / "npm"), *words], cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"npm {' '.join(words)} failed:\n{done.stdout}{done.stderr}")


def differences(left: Path, right: Path) -> list[str]:
    """The names of the files that are not the same in both folders."""
    one, other = files_of(left), files_of(right)
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file below ``folder``, by its name there."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


if __name__ == "__main__":
    sys.exit(main())
