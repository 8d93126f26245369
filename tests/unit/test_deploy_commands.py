"""The commands of deploy/: files that run before anything is installed, from any folder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMANDS = {
    "deploy/demo/demo": "demo",
    "deploy/setup.py": "setup.py",
    "deploy/environments/build.py": "build.py",
    "deploy/environments/horovod.py": "horovod.py",
}


@pytest.mark.parametrize(("file", "name"), COMMANDS.items())
@pytest.mark.parametrize("start", [["/usr/bin/python3"], []], ids=["python3", "file"])
def test_a_command_finds_its_modules_from_a_folder_with_others_of_that_name(
    start: list[str], file: str, name: str, tmp_path: Path
) -> None:
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "__init__.py").write_text("raise SystemExit('the wrong checkout')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    argv = [*start, str(ROOT / file), "--help"]

    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert done.stdout.startswith(f"usage: {name} "), done.stderr


def test_one_file_sets_the_import_path() -> None:
    folders = [ROOT / "deploy", ROOT / "tests" / "bench", ROOT / "tests" / "demo"]
    files = [file for folder in folders for file in folder.rglob("*.py")]

    assert [file.name for file in files if "sys.path" in file.read_text()] == ["run_module.py"]


def test_no_variable_carries_the_import_path_to_what_a_command_starts() -> None:
    files = [*(ROOT / "deploy").rglob("*.py"), ROOT / "deploy" / "demo" / "demo"]

    named = [file.name for file in files if "PYTHONPATH" in file.read_text()]

    assert named == ["run_module.py"], "which says why not"
