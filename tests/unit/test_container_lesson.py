"""The kernel that the lesson on containers leaves: nothing of a notebook's folder becomes a part of it."""

from __future__ import annotations

import getpass
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.unit.test_python_start import started_by_a_session

NOTEBOOK = Path(__file__).parents[2] / "notebooks/kernels/container.ipynb"
PATIENCE_S = 60
# In the place of ch-run: what it starts has the environment, the files and the folder that it says.
RUNTIME = """#!/bin/sh
for word; do shift; case $word in --cd=*) cd "${word#--cd=}" ;; --) break ;; esac; done
exec "$@"
"""


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The words that start the kernel, as the lesson's own cell writes them."""
    return written(tmp_path, monkeypatch, tmp_path / "image")


def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image: Path) -> list[str]:
    """Those for an image."""
    runtime = tmp_path / "bin" / "ch-run"
    runtime.parent.mkdir()
    runtime.write_text(RUNTIME)
    runtime.chmod(0o755)
    monkeypatch.setenv("PATH", f"{runtime.parent}:{os.environ['PATH']}")
    cells = {cell["id"]: "".join(cell["source"]) for cell in json.loads(NOTEBOOK.read_text())["cells"]}
    folder = tmp_path / "kernels" / "my-container"
    names = {
        "Path": Path, "getpass": getpass, "json": json, "shlex": shlex, "shutil": shutil,
        "home": tmp_path, "image": "image", "inside": sys.executable, "kernel_folder": folder, "program": "ch-run",
        "seen": [], "title": "My container", "used": image,
    }  # fmt: skip
    exec(cells["install-kernel"], names)  # noqa: S102  the lesson's own code
    argv = json.loads((folder / "kernel.json").read_text())["argv"]
    return [word.replace("{resource_dir}", str(folder)) for word in argv]


def test_its_kernel_takes_nothing_out_of_the_folder_of_a_notebook(tmp_path: Path, command: list[str]) -> None:
    (folder := tmp_path / "shared").mkdir()
    for name in ("ipykernel_launcher", "traitlets"):
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').write({name!r})\nraise SystemExit\n")
    folder.chmod(0o777)
    file = tmp_path / "run/kernel.json"
    made = started_by_a_session([*command[:-1], str(file)], "python", folder, tmp_path)

    with subprocess.Popen(made["cmd"], env=os.environ | made["env"], cwd=folder) as kernel:
        until = time.monotonic() + PATIENCE_S
        while kernel.poll() is None and not file.exists() and time.monotonic() < until:
            time.sleep(0.1)
        kernel.kill()

    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()
    assert json.loads(file.read_text())["kernel_name"] == ""  # the kernel itself has written it


def test_an_image_that_is_a_file_is_mounted_beside_the_sockets_in_a_folder_of_the_persons_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (image := tmp_path / "image.sqfs").touch()
    start = written(tmp_path, monkeypatch, image)
    looks = 'for word; do case $word in --mount=*) stat -c "%a %n" "${word#*=}" ;; esac; done'
    (tmp_path / "bin/ch-run").write_text(f"#!/bin/sh\n{looks}\n")
    (sockets := tmp_path / "run").mkdir(0o700)
    words = [*start[:-1], str(sockets / "kernel.json")]
    for _ in range(2):
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        assert done.stdout == f"700 {sockets}/mnt\n"


def test_an_image_that_is_a_folder_is_mounted_nowhere(command: list[str]) -> None:
    assert "--mount" not in Path(command[1]).read_text()
