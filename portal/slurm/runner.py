"""The only place where the hub starts a process: argv lists, a time-out, a bound, and the whole process group ended.

And where it asks the name service, which may be silent for a minute: in threads, with a time-out as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import grp
import os
import pwd
import re
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

# A start is done in the event loop, and waits until the program is read: a program of this host is read at once, and
# then waits itself for the one that is meant, which may lie on a file server that is away.
STARTER = "/usr/bin/env"
STARTER_NAME = "dsportal-start"  # how its own words begin
MOST_BYTES = 128 * 1024**2  # of each of its two outputs; the queue of 100,000 jobs is a quarter of it
# What runs as a person prints what that person wants, as its output is the person's to write: proc(5), /proc/pid/fd.
# The launcher's longest answer is a log's last 6,000 bytes, as JSON.
MOST_BYTES_OF_A_PERSON = 256 * 1024
# One job may have 40,000 steps (MaxStepCount, slurm.conf(5)), of a third of a KiB each; a hundred sessions have 400.
MOST_BYTES_OF_SACCT = 4 * 1024**2
READ_AHEAD_BYTES = 64 * 1024  # asyncio's own
NOT_STARTED = (126, 127)  # its exit status for a program that may not be run, or is not there: env(1)
# What whoever starts the portal has chosen for Slurm's commands: another cluster, some people, another form. See
# ENVIRONMENT VARIABLES in squeue(1), sacct(1) and the others of Slurm 25.05.
_CHOICE = re.compile(r"(SQUEUE|SINFO|SACCT|SACCTMGR|SCANCEL|SCONTROL|SBATCH)_.*|SLURM_(CLUSTERS|BITSTR_LEN|JSON|YAML)")
NAME_WITHIN_S = 2.0  # the name service of the hub's host may be silent for a minute
# Threads of its own: those of the event loop look up the nodes' addresses, and must not wait for this.
_NAMES = ThreadPoolExecutor(2, thread_name_prefix="accounts")


@dataclass(frozen=True)
class Result:
    """How a command ended: exit status and what it printed (bytes that are not UTF-8 are replaced)."""

    returncode: int
    stdout: str
    stderr: str


class RunError(Exception):
    """The command could not be started, or did not end in time; the text names the command."""


class Runner(Protocol):
    """The signature of :func:`run`, for those who are given another one."""

    def __call__(
        self,
        argv: Sequence[str],
        stdin: str = "",
        env: Mapping[str, str] | None = None,
        timeout_s: float = 10,
    ) -> Awaitable[Result]:
        """Run ``argv``, as :func:`run` does."""
        ...


class BoundedRunner(Protocol):
    """The signature of :func:`run_bounded`."""

    def __call__(
        self, argv: Sequence[str], env: Mapping[str, str], timeout_s: float, most_bytes: int
    ) -> Awaitable[Result]:
        """Run ``argv``, as :func:`run_bounded` does."""
        ...


async def run(
    argv: Sequence[str],
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    timeout_s: float = 10,
) -> Result:
    """Run ``argv`` without a shell and wait for its end, without the choices that the environment makes for Slurm.

    Raises:
        RunError: it cannot be started, it did not end within ``timeout_s``, or it printed more than what is kept,
            :data:`MOST_BYTES` (its process group is killed).
    """
    return await _run(argv, stdin.encode(), os.environ if env is None else env, timeout_s, _most_bytes(argv[0]))


def _most_bytes(program: str) -> int:
    """How much of what a program prints is kept, of each of its outputs."""
    if program in ("sudo", "runuser"):
        return MOST_BYTES_OF_A_PERSON
    return MOST_BYTES_OF_SACCT if program == "sacct" else MOST_BYTES


async def run_bounded(argv: Sequence[str], env: Mapping[str, str], timeout_s: float, most_bytes: int) -> Result:
    """As :func:`run`, with a bound of its own, for a program that may print without an end.

    Raises:
        RunError: as there.
    """
    return await _run(argv, b"", env, timeout_s, most_bytes)


async def _run(argv: Sequence[str], stdin: bytes, env: Mapping[str, str], timeout_s: float, most_bytes: int) -> Result:
    process, transport = await _started(argv, env)
    fed = asyncio.ensure_future(_feed(process.stdin, stdin))
    said, complained = (asyncio.ensure_future(_read(one, most_bytes)) for one in (process.stdout, process.stderr))
    try:
        async with asyncio.timeout(timeout_s):
            _, stdout, stderr = await asyncio.gather(fed, said, complained)
            await process.wait()
    except TimeoutError as error:
        raise RunError(f"{argv[0]} did not answer within {timeout_s:g} s") from error
    except OverflowError as error:
        raise RunError(f"{argv[0]} printed more than {most_bytes} bytes, and was not read further") from error
    finally:
        for part in (fed, said, complained):
            part.cancel()
        await asyncio.gather(fed, said, complained, return_exceptions=True)
        _close_pipes(transport)
        await _kill_group(process)
    return _result(argv, process, stdout, stderr)


async def _feed(stream: asyncio.StreamWriter | None, text: bytes) -> None:
    """Write what it reads; one that ends, or closes its input, before has read enough."""
    if stream:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            stream.write(text)
            await stream.drain()
        stream.close()


async def _read(stream: asyncio.StreamReader | None, most_bytes: int) -> bytes:
    """What comes until the end.

    Raises:
        OverflowError: it is more than what is allowed.
    """
    found = bytearray()
    while stream and (more := await stream.read(most_bytes + 1)):
        found += more
        if len(found) > most_bytes:
            raise OverflowError
    return bytes(found)


def _close_pipes(transport: asyncio.SubprocessTransport) -> None:
    """Keep no end of its pipes: they may be in others' hands still, such as those of a process that it has left."""
    for number in (0, 1, 2):
        if pipe := transport.get_pipe_transport(number):
            pipe.close()


async def _started(
    argv: Sequence[str], env: Mapping[str, str]
) -> tuple[asyncio.subprocess.Process, asyncio.SubprocessTransport]:
    """The process, as ``asyncio.create_subprocess_exec`` makes it, and what its pipes can be closed by."""
    loop = asyncio.get_running_loop()
    try:
        transport, protocol = await loop.subprocess_exec(
            lambda: asyncio.subprocess.SubprocessStreamProtocol(limit=READ_AHEAD_BYTES, loop=loop),
            STARTER_NAME,
            *argv,
            executable=STARTER,
            env=without_choices(env),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise RunError(f"{STARTER} cannot be started: {error.strerror}") from error
    return asyncio.subprocess.Process(transport, protocol, loop), transport


def _result(argv: Sequence[str], process: asyncio.subprocess.Process, stdout: bytes, stderr: bytes) -> Result:
    """How it ended.

    Raises:
        RunError: there was nothing that could be started.
    """
    done = Result(process.returncode or 0, stdout.decode(errors="replace"), stderr.decode(errors="replace"))
    if done.returncode in NOT_STARTED and done.stderr.startswith(f"{STARTER_NAME}: "):
        raise RunError(f"{argv[0]} cannot be started: {done.stderr.rpartition(': ')[2].strip()}")
    return done


def without_choices(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment in which Slurm's commands answer what they are asked: all jobs of this cluster, in our columns."""
    return {name: value for name, value in environment.items() if not _CHOICE.fullmatch(name)}


async def _kill_group(process: asyncio.subprocess.Process) -> None:
    """Leave nothing of a process group that has not ended by itself."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2):
                await process.wait()


async def name_of(number: int) -> str:
    """The name of an account, from the name service; ``""`` when that does not know it, or is silent."""
    asked = asyncio.get_running_loop().run_in_executor(_NAMES, pwd.getpwuid, number)
    with contextlib.suppress(KeyError, TimeoutError):
        async with asyncio.timeout(NAME_WITHIN_S):
            return (await asked).pw_name
    return ""


async def uid_of(name: str) -> int | None:
    """The number of an account; ``None`` when the name service does not know it, or is silent."""
    asked = asyncio.get_running_loop().run_in_executor(_NAMES, pwd.getpwnam, name)
    with contextlib.suppress(KeyError, TimeoutError):
        async with asyncio.timeout(NAME_WITHIN_S):
            return (await asked).pw_uid
    return None


async def is_account(name: str) -> bool:
    """False only for a name that the name service does not know; one that is silent says nothing."""
    return await _is_known(pwd.getpwnam, name)


async def is_group(name: str) -> bool:
    """False only for a UNIX group that the name service does not know; one that is silent says nothing."""
    return await _is_known(grp.getgrnam, name)


async def _is_known(ask: Callable[[str], object], name: str) -> bool:
    asked = asyncio.get_running_loop().run_in_executor(_NAMES, ask, name)
    with contextlib.suppress(TimeoutError):
        try:
            async with asyncio.timeout(NAME_WITHIN_S):
                await asked
        except KeyError:
            return False
    return True


async def groups_of(name: str, within_s: float = NAME_WITHIN_S) -> frozenset[str] | None:
    """The names of an account's UNIX groups; ``None`` when the name service does not know it, or is silent."""
    asked = asyncio.get_running_loop().run_in_executor(_NAMES, _groups, name)
    with contextlib.suppress(KeyError, OSError, TimeoutError):
        async with asyncio.timeout(within_s):
            return await asked
    return None


def _groups(name: str) -> frozenset[str]:
    found = set()
    for number in os.getgrouplist(name, pwd.getpwnam(name).pw_gid):
        with contextlib.suppress(KeyError):  # a group without a name is none that anybody could write down
            found.add(grp.getgrgid(number).gr_name)
    return frozenset(found)
