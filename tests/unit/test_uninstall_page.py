"""The lines of the page on taking the portal away with which root lists the jobs that are its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "uninstall.md"
QUEUE = "11 dsportal-ab12cd\n12 dsportal-ab12ce\n13 dsportal-\n14 train dsportal-ab12cd\n"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder for PATH: a queue of jobs, what becomes the portal's account, and an awk that notes its arguments."""
    folder = tmp_path / "bin"
    folder.mkdir()
    scripts = {
        "squeue": f"cat <<'END'\n{QUEUE}END",
        "runuser": f'[ "$1 $2 $3 $4" = "--pty -u portal --" ] || exit 1\nshift 4\ntouch {tmp_path}/became\nexec "$@"',
        "awk": f'echo "$*" >>{tmp_path}/shown\nexec {shutil.which("awk")} "$@"',
    }
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return folder


def listed(programs: Path) -> list[str]:
    """What the lines print, for a state folder beside the programs."""
    text = PAGE.read_text().partition("```console\n")[2].partition("```")[0]
    lines = [line.removeprefix("# ") for line in text.splitlines() if "systemctl" not in line]
    script = "\n".join(lines).replace("/var/lib/dsportal", str(programs.parent))
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, env=environment)
    return done.stdout.split()


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_the_jobs_of_this_portal_are_listed_and_no_others(programs: Path, end: str) -> None:
    (programs.parent / "hub_id").write_text(f"ab12cd{end}")

    assert listed(programs) == ["11"]
    assert (programs.parent / "became").exists(), "the portal's account reads what it may have made a link"


@pytest.mark.parametrize("content", ["root:$6$wxyz", "", None], ids=["something else", "empty", "missing"])
def test_without_a_number_no_job_is_listed_and_no_process_shows_what_was_read(
    programs: Path, content: str | None
) -> None:
    if content is not None:
        (programs.parent / "hub_id").write_text(content)

    assert listed(programs) == []
    assert "$6" not in (programs.parent / "shown").read_text()
