"""A kernel that ends before it is there says why at once, and what it says later goes where it always went."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager

from portal.kernels import provisioner as module
from portal.kernels.manager import PortalRestarter
from portal.kernels.provisioner import KernelNotStarted, ModuleProvisioner
from portal.kernels.watched.words import LONGEST, reason

OF_PYTHON = """Traceback (most recent call last):
  File "/run/startup/ipykernel_launcher.py", line 3, in <module>
    from ipykernel import kernelapp
ModuleNotFoundError: No module named 'ipykernel'
"""
OF_R = """Error in loadNamespace(x) : there is no package called ‘IRkernel’
Calls: loadNamespace -> withRestarts -> withOneRestart -> doWithOneRestart
Execution halted
"""
OF_R_IN_TWO = "Error in library(notThere, lib.loc = c('/a', '/b')) :\n  there is no package\nExecution halted\n"
OF_APPTAINER = (
    "INFO:    Converting OCI blobs to SIF format\n"
    "\x1b[31mFATAL:  \x1b[0m Unable to handle docker://nobody/none uri: manifest unknown\n"
)


@pytest.mark.parametrize(
    ("said", "status", "line"),
    [
        (OF_PYTHON, 1, "ModuleNotFoundError: No module named 'ipykernel'"),
        (OF_R, 1, "Error in loadNamespace(x) : there is no package called ‘IRkernel’"),
        (OF_R_IN_TWO, 1, "Error in library(notThere, lib.loc = c('/a', '/b')) : there is no package"),
        (OF_APPTAINER, 255, "FATAL:   Unable to handle docker://nobody/none uri: manifest unknown"),
        ("starting\nno licence left\n", 3, "no licence left"),
        ("bad \x1b]0;title\x07 error\n", 1, "bad  ]0;title  error"),
        ("\n \n", 3, "its program ended at once, with exit status 3, and said nothing"),
        ("", -9, "its program ended at once, by SIGKILL, and said nothing"),
        ("", -64, "its program ended at once, by SIGRTMAX, and said nothing"),
        (f"Error: {'x' * 999}", 1, f"Error: {'x' * (LONGEST - 8)}…"),
    ],
)
def test_the_line_that_names_the_fault_is_chosen(said: str, status: int, line: str) -> None:
    assert reason(said, status) == line


Managed = Callable[..., AsyncKernelManager]


@pytest.fixture
def managed(tmp_path: Path) -> Iterator[Managed]:
    """A kernel whose command is this; nothing of it has been started, and its sockets are closed in this thread."""
    made: list[AsyncKernelManager] = []

    def manage(*argv: str) -> AsyncKernelManager:
        spec = KernelSpec(argv=list(argv), language="other", resource_dir="/usr/share/jupyter/kernels/odd")
        (tmp_path / "run").mkdir(mode=0o700)
        file = str(tmp_path / "run/kernel.json")
        manager = AsyncKernelManager(kernel_name="odd", transport="ipc", connection_file=file)
        manager._kernel_spec = spec
        manager.provisioner = ModuleProvisioner(parent=manager, kernel_spec=spec, kernel_id="1")
        made.append(manager)
        return manager

    yield manage
    for manager in made:
        manager.context.destroy(linger=0)


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["/bin/sh", "-c", "sleep 0.2; echo 'odd: error: no licence' >&2; exit 3"], "odd: error: no licence"),
        (["/bin/sh", "-c", "kill -9 $$"], "its program ended at once, by SIGKILL, and said nothing"),
        (["/bin/true"], "its program ended at once, with exit status 0, and said nothing"),
        (["/not/there"], "No such file or directory: /not/there"),
    ],
)
async def test_a_kernel_that_ends_at_its_start_has_not_been_started(
    managed: Managed, capfd: pytest.CaptureFixture[str], argv: list[str], why: str
) -> None:
    began_s = time.monotonic()
    manager = managed(*argv)
    with pytest.raises(KernelNotStarted) as caught:
        await manager.start_kernel()
    assert str(caught.value) == f"The kernel odd cannot start: {why}. More: portal kernels explain odd"
    assert time.monotonic() - began_s < module.WATCHED_S / 2
    assert not manager.has_kernel
    if "licence" in why:
        assert "odd: error: no licence\n" in capfd.readouterr().err, "the session's log has it all"


LOGS_MUCH = """
import sys
sys.path[:] = {path!r}
import json, socket, time
info = json.load(open(sys.argv[1]))
held = []
for port in (info["shell_port"], info["iopub_port"]):
    held.append(socket.socket(socket.AF_UNIX))
    held[-1].bind(f"{{info['ip']}}-{{port}}")
for number in range(20000):
    print("line", number, "x" * 100, file=sys.stderr)
print("the last line", file=sys.stderr, flush=True)
open(sys.argv[1] + ".done", "w").close()
time.sleep(60)
"""


async def test_a_kernel_that_logs_much_is_held_by_nothing_and_all_of_it_is_in_the_sessions_log(
    tmp_path: Path, managed: Managed, capfd: pytest.CaptureFixture[str]
) -> None:
    """Two megabytes, while nobody of the server's looks at it."""
    manager = managed(sys.executable, "-c", LOGS_MUCH.format(path=sys.path), "{connection_file}")
    await manager.start_kernel()
    provisioner = manager.provisioner
    assert isinstance(provisioner, ModuleProvisioner)
    assert provisioner.was_there
    done = tmp_path / "run/kernel.json.done"
    until_s = time.monotonic() + 30
    while not done.exists() and time.monotonic() < until_s:
        time.sleep(0.05)  # noqa: ASYNC251  the server's loop stands still
    assert done.exists()
    await manager.shutdown_kernel(now=True)
    said = ""
    while "the last line" not in said and time.monotonic() < until_s:
        said += capfd.readouterr().err
        await asyncio.sleep(0.05)
    assert said.count("line ") >= 20000


async def test_a_start_that_takes_longer_goes_on(managed: Managed, monkeypatch: pytest.MonkeyPatch) -> None:
    """An image that is fetched at a first start, for minutes."""
    monkeypatch.setattr(module, "WATCHED_S", 0.1)
    manager = managed("/bin/sleep", "60")
    await manager.start_kernel()
    assert await manager.is_alive()
    assert isinstance(manager.provisioner, ModuleProvisioner)
    assert not manager.provisioner.was_there
    await manager.shutdown_kernel(now=True)


async def ended(manager: AsyncKernelManager) -> None:
    """Wait for the end of its process."""
    assert manager.provisioner is not None
    await asyncio.wait_for(manager.provisioner.wait(), 30)


async def given_up(manager: AsyncKernelManager) -> list[str]:
    """What the server is told of a kernel at the next look at it."""
    heard: list[str] = []
    restarter = PortalRestarter(kernel_manager=manager)
    restarter.add_callback(lambda: heard.append("dead"), "dead")
    restarter.add_callback(lambda: heard.append("restart"), "restart")
    await restarter.poll()
    return heard


async def test_a_kernel_that_ended_before_it_was_there_is_not_started_again(
    managed: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WATCHED_S", 0.1)
    manager = managed("/bin/sleep", "0.3")
    await manager.start_kernel()
    assert await given_up(manager) == []
    await ended(manager)
    assert await given_up(manager) == ["dead"]
    await manager.cleanup_resources()


async def test_a_kernel_that_was_used_is_started_again_and_a_start_that_fails_then_is_its_end(
    tmp_path: Path, managed: Managed
) -> None:
    """A module that was taken away in the meantime: the person is not left with "restarting" for ever."""
    code = tmp_path / "code.py"
    code.write_text(LOGS_MUCH.format(path=sys.path))
    program = tmp_path / "odd"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {code} "$1"\n')
    program.chmod(0o755)
    manager = managed(str(program), "{connection_file}")
    await manager.start_kernel()
    os.kill(manager.provisioner.pid, 9)  # type: ignore[union-attr]
    await ended(manager)
    program.unlink()
    assert await given_up(manager) == ["restart", "dead"]
    await manager.cleanup_resources()
