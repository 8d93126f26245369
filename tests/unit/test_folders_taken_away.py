"""What cleans /tmp has taken the private folder of a program that runs away, and somebody has made one of its name."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock, patch

import pytest
from jupyter_client.kernelspec import KernelSpec
from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection

from portal.homes import temporary
from portal.kernels.connection import PortalKernelConnection
from portal.kernels.manager import PortalKernel
from portal.kernels.provisioner import KernelNotStarted, ModuleProvisioner
from portal.session_settings import OfferedTool, SessionSettings
from portal.singleuser import extension, runtime
from portal.tensorboard.boards import Board, BoardFailed
from portal.webtools.routes import socket_folder
from portal.webtools.sockets import OwnSocketProxy
from portal.webtools.tools import ToolPlace, WebTool

LONG = "x" * 120


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """That of a session."""
    tmp_path.chmod(0o1777)  # as /tmp is
    private = tmp_path / "dsp-abc"
    private.mkdir(mode=0o700)
    temporary.hold(private)
    return private


def nobody(folder: Path) -> None:
    """Take it away."""
    folder.rename(folder.with_name("taken"))


def somebody_else(folder: Path) -> None:
    """Take it away, and make one that everybody may write in."""
    nobody(folder)
    folder.mkdir()
    folder.chmod(0o1777)


def kernel(folder: Path) -> PortalKernel:
    made = PortalKernel(connection_file=str(folder / "kernel.json"), transport="ipc", kernel_name="python3")
    made.shell_port = 1
    return made


@pytest.mark.parametrize(
    "make",
    [
        runtime.runtime_folder,
        lambda: extension.runtime_folder(f"/{LONG}"),
        lambda: socket_folder(Path(f"/{LONG}"), ["tool"]),
    ],
)
def test_a_sessions_folders_are_locked_as_what_cleans_tmp_asks_for(
    make: Callable[[], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", "")
    cleaner = os.open(make(), os.O_RDONLY | os.O_DIRECTORY)  # tmpfiles.d(5): what is locked stays, whatever its age
    with pytest.raises(BlockingIOError):
        fcntl.flock(cleaner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(cleaner)


@pytest.mark.parametrize("take", [nobody, somebody_else])
def test_what_lies_in_another_folder_of_its_name_is_told_from_what_was_there(
    folder: Path, take: Callable[[Path], None]
) -> None:
    temporary.check(folder / "tools" / "page.sock")
    (folder / "key").write_text("of the session")
    take(folder)
    with pytest.raises(OSError, match="taken away") as refused:
        temporary.check(folder / "tools" / "page.sock")
    assert refused.value.errno == errno.ESTALE
    assert (temporary.held(folder) / "key").read_text() == "of the session"
    temporary.check(folder.with_name("dsp-other") / "page.sock")


def test_one_that_a_file_server_has_no_more_is_not_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert temporary.is_held(folder / "file")
    monkeypatch.setattr(Path, "lstat", Mock(side_effect=OSError(errno.ESTALE, "Stale file handle")))
    assert not temporary.is_held(folder / "file")


def test_one_in_a_jobs_own_folder_of_tmp_is_looked_at(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    (tmp_path / "job").mkdir(mode=0o700)
    with temporary.folder("dsp-", str(tmp_path / "job")) as private:
        (tmp_path / "job").rename(tmp_path / "taken")
        private.mkdir(parents=True)
        assert not temporary.is_held(private / "kernel.json")


def test_one_in_the_home_is_not_looked_at_with_each_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = [one for one in tmp_path.parents if one.stat().st_mode & 0o022]
    usual = Path.stat
    monkeypatch.setattr(Path, "stat", lambda one, **more: usual(Path("/") if one in closed else one, **more))
    with temporary.folder("dsp-", str(tmp_path)) as private:
        with monkeypatch.context() as away:
            away.setattr(Path, "lstat", Mock(side_effect=TimeoutError))  # as a file server that does not answer
            assert temporary.is_held(private / "kernel.json")
        nobody(private)
        with pytest.raises(OSError, match="taken away"):
            temporary.check(private / "kernel.json")


def test_where_no_file_can_be_opened_no_folder_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporary, "hold", Mock(side_effect=OSError(errno.EMFILE, "Too many open files")))
    with pytest.raises(OSError, match="Too many open files"), temporary.folder("dsp-", str(tmp_path)):
        pytest.fail("it is not held")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("take", [nobody, somebody_else])
async def test_no_kernel_starts_in_it(folder: Path, take: Callable[[Path], None]) -> None:
    spec = KernelSpec(argv=["python3", "-m", "ipykernel_launcher", "-f", "{connection_file}"], language="python")
    starts = ModuleProvisioner(parent=kernel(folder), kernel_spec=spec)
    take(folder)
    with pytest.raises(KernelNotStarted, match="taken away"):
        await starts.pre_launch()
    assert not folder.exists() or not list(folder.iterdir())


def test_no_window_is_led_to_a_kernel_in_it(folder: Path) -> None:
    asked = kernel(folder)
    asked.connect_shell().close()
    somebody_else(folder)
    for connect in (asked.connect_shell, asked.connect_iopub, asked.connect_stdin, asked.connect_control):
        with pytest.raises(KernelNotStarted, match="cannot be asked: the private folder of this session"):
            connect()
    asked.context.destroy()


def test_an_open_window_sends_nothing_to_where_its_kernel_was(folder: Path) -> None:
    asked = kernel(folder)
    asked.context.destroy()
    page = Mock()
    window = PortalKernelConnection.__new__(PortalKernelConnection)
    with (
        patch.multiple(PortalKernelConnection, kernel_manager=asked, websocket_handler=page, debugger=True),
        patch.object(ZMQChannelsWebsocketConnection, "handle_incoming_message") as hands_on,
    ):
        window.handle_incoming_message("{}")
        assert hands_on.call_count == 1
        somebody_else(folder)
        window.handle_incoming_message("{}")
        assert hands_on.call_count == 1
    page.close.assert_called_once_with(1001, temporary.GONE)


@pytest.mark.parametrize("take", [nobody, somebody_else])
def test_at_the_end_nothing_is_removed_from_another_folder(tmp_path: Path, take: Callable[[Path], None]) -> None:
    with temporary.folder("dsp-", str(tmp_path)) as private:
        (private / "file").touch()
    assert not private.exists()
    with temporary.folder("dsp-", str(tmp_path)) as private:
        take(private)
        if private.exists():
            (private / "theirs").touch()
    assert private.exists() == (private / "theirs").exists()
    temporary.remove(tmp_path / "none")


async def test_no_web_tool_starts_or_is_reached_in_it(folder: Path, tmp_path: Path) -> None:
    offered = OfferedTool("page", "Page", ("sleep", "60"))
    tool = WebTool(offered, SessionSettings(), ToolPlace(folder / "tools", "/user/alice/", tmp_path))
    await tool.start()
    assert tool._start
    tool._start.cancel()
    await asyncio.wait([tool._start])
    assert tool._process and tool._process.poll() is None
    somebody_else(folder)
    assert (tool.state, "taken away" in tool.why) == ("failed", True)

    await tool.start()

    assert tool.state == "failed"
    assert tool.why == f"It cannot be started: {temporary.GONE}."
    assert not list(folder.iterdir())


async def test_no_board_starts_or_is_reached_in_it(folder: Path, tmp_path: Path) -> None:
    class Sleeping(Board):
        running = True

    board = Sleeping(tmp_path, folder)
    assert board.is_ready
    somebody_else(folder)
    assert not board.is_ready
    with pytest.raises(BoardFailed, match="cannot be started: the private folder of this session"):
        await board.ready()


def test_no_program_on_a_socket_in_it_is_reached(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portal.webtools.sockets.is_own_socket", lambda _: True)
    pages = OwnSocketProxy.__new__(OwnSocketProxy)
    pages.initialize([folder / "sockets"])
    assert pages.points_at("dask")
    somebody_else(folder)
    assert not pages.points_at("dask")
