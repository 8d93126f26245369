"""An earlier release, made out of this repository's history by its own `make dist`."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAKER = "deploy/release/make_dist.py"


def commit() -> str:
    """The newest tagged version; while there is none that could make a release, the first commit that could.

    Raises:
        AssertionError: this checkout has not that much of the history.
    """
    versions = git("tag", "--list", "v*", "--sort=-version:refname", "--merged", "HEAD").split()
    for tag in versions:
        if git("ls-tree", tag, MAKER):
            return tag
    first = git("log", "--diff-filter=A", "--format=%H", "--", MAKER).split()
    shallow = git("rev-parse", "--is-shallow-repository").strip() == "true"
    assert first and not shallow, "an earlier release is made out of the history: git fetch --unshallow"
    return first[-1]


def git(*arguments: str) -> str:
    """What git says of this checkout."""
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True).stdout


def release(folder: Path, version: str, python: str) -> Path:
    """Its tarball for one Python, under a version of its own: between two releases the number stays the same."""
    made = folder / f"dsportal-{version}-x86_64.tar.gz"
    asked = f"{commit()} {version} {python}\n"
    stamp = folder / "made-of"
    if made.is_file() and stamp.is_file() and stamp.read_text() == asked:
        return made
    shutil.rmtree(folder, ignore_errors=True)
    source = folder / "source"
    source.mkdir(parents=True)
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", commit()], capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(source)], input=packed, check=True)
    (source / ".demo").symlink_to(ROOT / ".demo")  # what was fetched for this checkout
    about = source / "portal" / "__init__.py"
    about.write_text(re.sub('^__version__ = ".*"', f'__version__ = "{version}"', about.read_text(), flags=re.MULTILINE))
    for argv in (["setup.py"], ["run_module.py", "deploy.release.make_dist", "--pythons", python]):
        command = [sys.executable, str(source / "deploy" / argv[0]), *argv[1:]]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    shutil.move(source / "dist" / made.name, made)
    shutil.rmtree(source)
    stamp.write_text(asked)
    return made
