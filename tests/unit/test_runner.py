"""Starting processes: no shell, a time-out that leaves nothing behind."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from portal.slurm.runner import RunError, run


async def test_a_command_gets_its_stdin_and_answers_status_and_both_outputs() -> None:
    code = "import sys; print(sys.stdin.read().upper()); print('oops', file=sys.stderr); sys.exit(3)"

    done = await run([sys.executable, "-c", code], stdin="hello")

    assert (done.returncode, done.stdout, done.stderr) == (3, "HELLO\n", "oops\n")


async def test_arguments_reach_the_command_as_they_are() -> None:
    hostile = "$(id) `id` ; rm -rf ~ \n'\""

    done = await run([sys.executable, "-c", "import sys; sys.stdout.write(sys.argv[1])", hostile])

    assert done.stdout == hostile


async def test_a_command_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = (
        "import subprocess; p = subprocess.Popen(['sleep', '600']);"
        f" open({str(note)!r}, 'w').write(str(p.pid)); p.wait()"
    )

    with pytest.raises(RunError, match="did not answer within 1 s"):
        await run([sys.executable, "-c", code], timeout_s=1)

    state = Path(f"/proc/{note.read_text()}/stat")
    async with asyncio.timeout(5):  # the kernel takes a moment to end what was killed
        while state.exists() and " Z " not in state.read_text():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_command_that_is_missing_is_an_error_that_names_it() -> None:
    with pytest.raises(RunError, match=r"no-such-command cannot be started: No such file"):
        await run(["no-such-command"])


async def test_bytes_that_are_not_utf8_are_replaced() -> None:
    done = await run([sys.executable, "-c", "import sys; sys.stdout.buffer.write(b'a\\xe9\\xffb')"])

    assert done.stdout == "a��b"
