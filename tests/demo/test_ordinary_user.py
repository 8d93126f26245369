"""The whole story as an ordinary user, from a checkout that nobody else can read."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.demo import ordinary_user
from tests.demo.harness import DEMO, IS_ROOT, Demo, etc_sum, mounts

STORY = """
set -e
demo up --no-hub
demo exec -- sinfo -h -o %T | grep -q idle
demo exec --user alice -- srun --gres=gpu:2 -t 1 bash -c 'echo "job of $(id -un): GPUs $CUDA_VISIBLE_DEVICES"'
job=$(demo exec --user portal -- sudo -n -u bob "$LAUNCHER" -t 1 --wrap true)
demo exec -- scontrol show job $job | grep -o 'UserId=bob'
demo status
demo down
demo clean
"""


@pytest.fixture
def closed_checkout(folder: Path, stand_in: Path) -> Iterator[Path]:
    """A checkout with a space in its name, cloned with umask 077 below a folder that is closed; its .venv is open."""
    home = Path(tempfile.mkdtemp(prefix="home-", dir=folder))
    checkout = home / "my checkout"
    shutil.copytree(DEMO, checkout / "deploy" / "demo", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("__init__.py", "interpreter.py", "run_module.py"):
        shutil.copy(DEMO.parent / name, checkout / "deploy" / name)
    for path in [checkout, *checkout.rglob("*")]:
        path.chmod(0o700 if path.is_dir() or path.name == "demo" else 0o600)
    shutil.copytree(stand_in, checkout / ".venv")
    (checkout / ".venv").chmod(0o755)
    yield checkout
    shutil.rmtree(home)


def script(checkout: Path) -> str:
    """The story with the checkout's own demo."""
    return f"""
demo() {{ "{checkout}/deploy/demo/demo" "$@"; }}
LAUNCHER="{checkout}/.venv/bin/portal-launch"
{STORY}"""


@pytest.mark.long
def test_a_closed_checkout_with_a_space_in_its_name_runs_a_demo(closed_checkout: Path, cluster: Demo) -> None:
    (closed_checkout / ".demo").mkdir()
    (closed_checkout / ".demo" / "root").symlink_to(cluster.folder / "root")
    demo = Demo(closed_checkout / ".demo", program=closed_checkout / "deploy" / "demo" / "demo")
    done = demo.call("up", "--no-hub")
    try:
        launcher = str(closed_checkout / ".venv" / "bin" / "portal-launch")
        job = demo.inside("sudo", "-n", "-u", "bob", launcher, "-t", "1", "--wrap", "true", user="portal")
        assert job.stdout.strip().isdigit(), done.stdout + job.stdout
    finally:
        demo.down()


def test_an_ordinary_user_runs_the_whole_cluster_without_root(
    closed_checkout: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["bash", "-c", script(closed_checkout)]
    before = etc_sum(), mounts()
    home = closed_checkout.parent
    monkeypatch.delenv("DSPORTAL_DEMO", raising=False)  # the checkout's own state folder
    if IS_ROOT:
        monkeypatch.setenv("DSPORTAL_DEB_CACHE", str(shutil.copytree(os.environ["DSPORTAL_DEB_CACHE"], home / "debs")))
        status = ordinary_user.run(home, command)
    else:
        status = subprocess.run(command, check=False).returncode
    said = capfd.readouterr().out
    assert status == 0, said
    assert "Variant      rootless: GPUs are /dev/null, open to all jobs" in said
    assert "job of alice: GPUs 0,1" in said
    assert "UserId=bob" in said
    assert not (closed_checkout / ".demo").exists(), "clean takes files of subordinate ids away too"
    assert (etc_sum(), mounts()) == before
