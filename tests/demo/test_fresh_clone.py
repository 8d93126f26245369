"""What a newcomer does: a fresh clone, as an ordinary user, nothing installed, and the whole browser ring."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.demo import ordinary_user
from tests.demo.harness import IS_ROOT, etc_sum, mounts
from tests.forms import LONG

CHECKOUT = Path(__file__).resolve().parents[2]
OURS = ("DSPORTAL_DEMO", "DSPORTAL_ARTEFACTS", "DSPORTAL_VENV", "DSPORTAL_DEB_CACHE", "PORT", "MAKEFLAGS", "MAKELEVEL")


@pytest.fixture
def clone(folder: Path) -> Iterator[Path]:
    """The files of this checkout as a clone has them, closed to everybody else; downloads are taken from here."""
    home = Path(tempfile.mkdtemp(prefix="newcomer-", dir=folder))
    checkout = home / "portal"
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=CHECKOUT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (CHECKOUT / name).is_file():
            (checkout / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.copy(CHECKOUT / name, checkout / name)
            (checkout / name).chmod(0o700 if os.access(CHECKOUT / name, os.X_OK) else 0o600)
    shutil.copytree(CHECKOUT / ".demo/cache/wheels", checkout / ".demo/cache/wheels")
    yield checkout
    shutil.rmtree(home)


if LONG:  # five minutes and more; CI's own run is a fresh clone, and test_ordinary_user.py is without root

    def test_a_newcomer_runs_the_whole_story_as_an_ordinary_user(
        clone: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = etc_sum(), mounts()
        debs = shutil.copytree(os.environ["DSPORTAL_DEB_CACHE"], clone.parent / "debs")
        for name in OURS:
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("DSPORTAL_DEB_CACHE", str(debs))
        command = ["bash", "-c", "umask 077; make test TESTS=browser && deploy/demo/demo --state .demo-test clean"]

        if IS_ROOT:
            status = ordinary_user.run(clone.parent, command, cwd=clone)
        else:
            status = subprocess.run(command, cwd=clone, check=False).returncode

        said = capfd.readouterr().out
        assert status == 0, said[-8000:]
        assert "Variant      rootless" in said
        assert "Not run, because this is not root" in said
        assert (etc_sum(), mounts()) == before, "the machine is as it was"
