"""Starting processes: no shell, a time-out that leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import grp
import os
import pwd
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from portal.slurm import runner
from portal.slurm.runner import RunError, groups_of, run


async def test_a_command_gets_its_stdin_and_answers_status_and_both_outputs() -> None:
    code = "import sys; print(sys.stdin.read().upper()); print('oops', file=sys.stderr); sys.exit(3)"

    done = await run([sys.executable, "-c", code], stdin="hello")

    assert (done.returncode, done.stdout, done.stderr) == (3, "HELLO\n", "oops\n")


async def test_what_a_shell_has_chosen_for_slurms_commands_is_not_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {"SLURM_CLUSTERS": "other", "SQUEUE_USERS": "alice", "SACCT_FEDERATION": "1", "SBATCH_CLUSTERS": "all"}
    kept = {"SLURM_CONF": "/etc/slurm/b.conf", "SLURM_TIME_FORMAT": "%s", "SLURM_JWT": "token"}
    for name, value in {**chosen, **kept}.items():
        monkeypatch.setenv(name, value)

    for environment in (None, dict(os.environ)):
        done = await run(["env"], env=environment)

        seen = dict(line.split("=", 1) for line in done.stdout.splitlines())
        assert seen.keys() & chosen.keys() == set()
        assert {name: seen[name] for name in kept} == kept


async def test_arguments_reach_the_command_as_they_are() -> None:
    hostile = "$(id) `id` ; rm -rf ~ \n'\""

    done = await run([sys.executable, "-c", "import sys; sys.stdout.write(sys.argv[1])", hostile])

    assert done.stdout == hostile


async def test_a_command_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    note = tmp_path / "pid"

    with pytest.raises(RunError, match="did not answer within 1 s"):
        await run(["sh", "-c", f"sleep 600 & echo $! > {note}; wait"], timeout_s=1)

    await is_over(int(note.read_text()))


async def is_over(number: int) -> None:
    """Wait until a process that was killed has ended: the kernel takes a moment."""
    state = Path(f"/proc/{number}/stat")
    async with asyncio.timeout(20):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            while " Z " not in state.read_text():  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("program", "bound"),
    [("squeue", "MOST_BYTES"), ("sudo", "MOST_BYTES_OF_A_PERSON"), ("sacct", "MOST_BYTES_OF_SACCT")],
)
@pytest.mark.parametrize("output", ["", ">&2"])
async def test_of_a_command_that_prints_without_an_end_so_much_is_kept_and_it_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, bound: str, output: str
) -> None:
    monkeypatch.setattr(runner, bound, 70_000)
    command = tmp_path / program
    command.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec yes {output}\n")
    command.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}

    with pytest.raises(RunError, match=f"{program} printed more than 70000 bytes"):
        await run([program], env=environment, timeout_s=5)

    await is_over(int((tmp_path / "pid").read_text()))


async def test_what_a_command_prints_below_the_bound_is_whole() -> None:
    done = await run([sys.executable, "-c", "import sys; sys.stdout.write('x' * 3_000_000 + 'end')"])

    assert (len(done.stdout), done.stdout[-3:]) == (3_000_003, "end")


async def test_pipes_that_somebody_else_holds_open_do_not_stay_with_us(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    before = len(list(Path("/proc/self/fd").iterdir()))

    with pytest.raises(RunError, match="did not answer within 1 s"):
        await run(["sh", "-c", f"setsid sleep 600 & echo $! > {note}"], timeout_s=1)

    await asyncio.sleep(0)  # where the event loop closes them
    open_now = len(list(Path("/proc/self/fd").iterdir()))
    os.kill(int(note.read_text()), signal.SIGKILL)
    assert open_now == before


async def test_who_does_not_read_its_input_is_fed_no_longer_than_it_runs() -> None:
    done = await run(["sh", "-c", "exec <&-; echo done"], stdin="x" * 1_000_000)

    assert done.stdout == "done\n"


async def test_a_command_that_is_missing_is_an_error_that_names_it() -> None:
    with pytest.raises(RunError, match=r"no-such-command cannot be started: No such file"):
        await run(["no-such-command"])


async def test_bytes_that_are_not_utf8_are_replaced() -> None:
    done = await run([sys.executable, "-c", "import sys; sys.stdout.buffer.write(b'a\\xe9\\xffb')"])

    assert done.stdout == "a��b"


@pytest.fixture
def program_that_hangs(tmp_path: Path) -> Iterator[str]:
    """A program that cannot be read for a while, as one on a file server that is away: somebody has a lease of it."""
    program = tmp_path / "squeue"
    shutil.copy("/bin/true", program)
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)  # how the kernel asks for the lease back
    held = os.open(program, os.O_RDONLY)
    fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    yield str(program)
    os.close(held)
    signal.signal(signal.SIGIO, before)


async def test_a_program_that_cannot_be_read_for_a_while_holds_nobody_else_up(program_that_hangs: str) -> None:
    longest_s = 0.0

    async def others() -> None:
        nonlocal longest_s
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.01)
            longest_s = max(longest_s, time.monotonic() - began)

    beside = asyncio.ensure_future(others())
    with pytest.raises(RunError, match="squeue did not answer within 2 s"):
        await run([program_that_hangs], timeout_s=2)
    beside.cancel()

    assert 0.01 < longest_s < 1


async def test_a_program_that_may_not_be_run_is_an_error_that_names_it(tmp_path: Path) -> None:
    program = tmp_path / "squeue"
    program.write_text("")

    with pytest.raises(RunError, match=r"squeue cannot be started: Permission denied"):
        await run([str(program)])


async def test_the_environment_that_is_given_is_the_whole_one() -> None:
    done = await run(["env"], env={"PATH": os.environ["PATH"], "LC_ALL": "C"})

    assert sorted(done.stdout.split()) == sorted([f"PATH={os.environ['PATH']}", "LC_ALL=C"])


@pytest.mark.parametrize("status", [126, 127])
async def test_a_program_may_end_with_the_status_of_one_that_is_missing(status: int) -> None:
    done = await run([sys.executable, "-c", f"import sys; sys.stderr.write('env: no'); sys.exit({status})"])

    assert (done.returncode, done.stderr) == (status, "env: no")


async def test_the_unix_groups_of_an_account_come_by_name_and_an_unknown_one_has_none_that_are_known() -> None:
    mine = pwd.getpwuid(os.getuid())

    found = await groups_of(mine.pw_name)

    assert found is not None
    assert grp.getgrgid(mine.pw_gid).gr_name in found
    assert await groups_of("no-such-account-here") is None


async def test_a_silent_name_service_is_waited_for_but_shortly(monkeypatch: pytest.MonkeyPatch) -> None:
    speaks = threading.Event()
    monkeypatch.setattr("portal.slurm.runner.pwd.getpwnam", lambda name: speaks.wait(30))

    async with asyncio.timeout(5):
        assert await groups_of("alice", within_s=0.05) is None
    speaks.set()
