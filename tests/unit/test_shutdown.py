"""The end of a session: it always comes, once, in good order where that is possible, and the hub hears of it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

DEADLINE_S = 30
BEFORE = """
import os, pathlib, signal, sys, threading, time
from portal.singleuser import shutdown
shutdown.SERVES_WITHIN_S, shutdown.ENDS_WITHIN_S, shutdown.FAREWELL_WITHIN_S = {serves_s}, {ends_s}, 1.0
folder = pathlib.Path(sys.argv[1])
runtime = folder / "runtime"
runtime.mkdir()
done = threading.Event()
def farewell():
    with (folder / "farewells").open("a") as file:
        file.write("x")
end = shutdown.Ending(str(runtime), farewell)
def ready():
    (folder / "ready").touch()
"""
GOOD_SERVER = "end.watch(); end.serving(done.set); ready(); done.wait(); end.over(); sys.exit(0)"
DEAF_SERVER = "end.watch(); end.serving(lambda: None); ready(); time.sleep(60)"
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a process with an ending of its own, and waits until it is ready for what the test does to it."""
    started = []

    def begin(
        script: str,
        serves_s: float = 60,
        ends_s: float = 60,
        stderr: int = subprocess.DEVNULL,
        until: str = "ready",
    ) -> subprocess.Popen[bytes]:
        code = BEFORE.format(serves_s=serves_s, ends_s=ends_s) + script
        argv = [sys.executable, "-c", code, str(tmp_path)]
        environment = {name: text for name, text in os.environ.items() if name != "PYTHONUNBUFFERED"}
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(argv, env=environment, stdout=log, stderr=stderr)
        started.append(process)
        wait_for(lambda: (tmp_path / until).exists() or process.poll() is not None)
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()
        if process.stderr:
            process.stderr.close()


def wait_for(condition: Callable[[], object]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def ended(process: subprocess.Popen[bytes], folder: Path) -> tuple[int, str, list[str]]:
    """Exit status, farewells, and lines of the log; the runtime folder is gone."""
    status = process.wait(DEADLINE_S)
    farewells = folder / "farewells"
    return status, farewells.read_text() if farewells.exists() else "", (folder / "log").read_text().splitlines()


def test_a_server_that_is_told_to_stop_ends_in_good_order(start: Start, tmp_path: Path) -> None:
    process = start(GOOD_SERVER)
    process.send_signal(signal.SIGTERM)
    assert ended(process, tmp_path) == (0, "x", ["[portal] This session ends: SIGTERM"])


def test_a_second_signal_ends_a_server_that_does_not_follow_the_first(start: Start, tmp_path: Path) -> None:
    process = start(DEAF_SERVER)
    process.send_signal(signal.SIGTERM)
    wait_for((tmp_path / "farewells").exists)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert ended(process, tmp_path)[:2] == (143, "x")
    assert not (tmp_path / "runtime").exists()


def test_a_server_that_does_not_follow_at_all_is_ended_after_a_while(start: Start, tmp_path: Path) -> None:
    process = start(DEAF_SERVER, ends_s=0.3)
    process.send_signal(signal.SIGTERM)
    status, farewells, log = ended(process, tmp_path)
    assert (status, farewells) == (143, "x")
    assert "did not end within" in log[-1]
    assert not (tmp_path / "runtime").exists()


def test_a_signal_before_the_server_answers_ends_the_session_at_once(start: Start, tmp_path: Path) -> None:
    process = start("end.watch(); ready(); time.sleep(60)")
    process.send_signal(signal.SIGTERM)
    assert ended(process, tmp_path) == (143, "x", ["[portal] This session ends: SIGTERM"])
    assert not (tmp_path / "runtime").exists()


BUSY_START = """
end.watch()
ready()
for number in range(1_000_000):
    try:
        (runtime / str(number)).touch()
    except FileNotFoundError:  # the folder is gone
        time.sleep(60)
"""


def test_a_signal_while_the_start_writes_its_files_leaves_none_behind(start: Start, tmp_path: Path) -> None:
    process = start(BUSY_START)
    process.send_signal(signal.SIGTERM)

    assert process.wait(DEADLINE_S) == 128 + signal.SIGTERM
    assert not (tmp_path / "runtime").exists()


EAGER_START = """
end.watch()
ready()
while True:
    try:
        runtime.mkdir()
    except FileExistsError:
        pass
"""


def test_a_start_that_makes_its_folder_again_leaves_none_behind(start: Start, tmp_path: Path) -> None:
    """Jupyter makes its runtime folder where it is missing: also just after the end of the session removed it."""
    process = start(EAGER_START)
    process.send_signal(signal.SIGTERM)

    assert ended(process, tmp_path) == (128 + signal.SIGTERM, "x", ["[portal] This session ends: SIGTERM"])
    assert not list(tmp_path.glob("runtime*"))


def test_a_server_that_never_answers_ends_with_a_clear_last_line(start: Start, tmp_path: Path) -> None:
    process = start("end.watch(); time.sleep(60)", serves_s=0.3, until="farewells")
    status, farewells, log = ended(process, tmp_path)
    assert (status, farewells) == (1, "x")
    assert log[-1] == "[portal] JupyterLab did not answer within 0 s on this node: this session ends."


def test_a_session_that_the_hub_refuses_ends_and_says_why(start: Start, tmp_path: Path) -> None:
    process = start("end.watch(); end.serving(done.set); end.ask('no'); done.wait(); end.over()", until="farewells")
    assert ended(process, tmp_path) == (0, "x", ["[portal] This session ends: no"])


def test_an_end_of_its_own_is_told_once_and_cannot_hang(start: Start, tmp_path: Path) -> None:
    process = start("end.watch(); end.serving(done.set); end.over(); time.sleep(60)", ends_s=0.3, until="farewells")
    status, farewells, _ = ended(process, tmp_path)
    assert (status, farewells) == (1, "x")


def test_a_farewell_that_hangs_keeps_nobody(start: Start, tmp_path: Path) -> None:
    process = start("end._farewell = lambda: time.sleep(60); " + GOOD_SERVER)
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE_S) == 0


FULL_NODE = """
def full(thread):  # as CPython, where no process may be made any more
    raise RuntimeError("can't start new thread")
end.watch()
threading.Thread.start = full
"""


def test_on_a_node_where_no_thread_starts_a_session_hears_its_end(start: Start, tmp_path: Path) -> None:
    process = start(FULL_NODE + GOOD_SERVER.removeprefix("end.watch(); "))
    process.send_signal(signal.SIGTERM)
    assert ended(process, tmp_path) == (0, "x", ["[portal] This session ends: SIGTERM"])


def test_there_a_session_that_the_hub_refuses_ends_and_says_why(start: Start, tmp_path: Path) -> None:
    server = "end.serving(done.set); end.ask('no'); done.wait(); end.over()"
    process = start(FULL_NODE + server, until="farewells")
    assert ended(process, tmp_path) == (0, "x", ["[portal] This session ends: no"])


def test_there_a_server_that_does_not_follow_is_ended_and_a_farewell_that_hangs_keeps_nobody(
    start: Start, tmp_path: Path
) -> None:
    server = DEAF_SERVER.removeprefix("end.watch(); ")
    process = start("end._farewell = lambda: time.sleep(60)" + FULL_NODE + server, ends_s=0.3)
    process.send_signal(signal.SIGTERM)
    assert ended(process, tmp_path)[0] == 143
    assert not (tmp_path / "runtime").exists()


NO_PROCESS = """
import resource
if os.geteuid() == 0:
    os.chown(folder, 65534, 65534)
    os.chown(runtime, 65534, 65534)
    os.chmod(folder, 0o711)
    os.setresuid(65534, 65534, 65534)
end.watch()
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
"""


def test_where_no_process_can_be_made_its_folder_goes_and_its_status_is_kept(start: Start, tmp_path: Path) -> None:
    for above in tmp_path.parents[:3]:
        above.chmod(above.stat().st_mode | 0o011)
    process = start(NO_PROCESS + DEAF_SERVER.removeprefix("end.watch(); "), ends_s=0.3)
    process.send_signal(signal.SIGTERM)
    assert ended(process, tmp_path)[:2] == (143, "x")
    assert not (tmp_path / "runtime").exists()


def test_a_log_that_is_full_keeps_no_session(start: Start, tmp_path: Path) -> None:
    """As where the home's quota is used up."""
    process = start("os.dup2(os.open('/dev/full', os.O_WRONLY), 1); " + GOOD_SERVER)
    process.send_signal(signal.SIGTERM)
    assert ended(process, tmp_path)[:2] == (0, "x")


def test_an_ignored_interrupt_stays_ignored(start: Start, tmp_path: Path) -> None:
    """As in a shell's background."""
    process = start("signal.signal(signal.SIGINT, signal.SIG_IGN); " + GOOD_SERVER)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    assert ended(process, tmp_path)[2] == ["[portal] This session ends: SIGTERM"]


BLOCKED_IN_ITS_LOG = """
import logging
logging.basicConfig(level="INFO")
{handler}
ready()
while True:
    logging.info("x" * 1000)  # until nobody reads: the main thread then stands inside the write
"""
STOCK_HANDLER = """
def stock(number, frame):  # as in jupyter_server 2.21.1, ServerApp._signal_stop
    logging.critical("received signal %s, stopping", number)
    os._exit(0)
signal.signal(signal.SIGTERM, stock)
"""


@pytest.mark.parametrize("handler", [STOCK_HANDLER, "end.watch(); end.serving(lambda: os._exit(0))"])
def test_a_signal_inside_a_write_to_the_log_is_not_lost(start: Start, tmp_path: Path, handler: str) -> None:
    """The stock handler beside ours: with it the process goes on as if nothing had been said."""
    process = start(BLOCKED_IN_ITS_LOG.format(handler=handler), stderr=subprocess.PIPE)
    assert process.stderr
    pipe = process.stderr.fileno()
    wait_for(lambda: system_call(process.pid).startswith("1 0x2 "))
    process.send_signal(signal.SIGTERM)
    if handler is not STOCK_HANDLER:
        assert process.wait(DEADLINE_S) == 0
        return
    written = b""
    while b"reentrant call" not in written:
        assert select.select([pipe], [], [], DEADLINE_S)[0]
        more = os.read(pipe, 65536)
        assert more, "it has ended"
        written = written[-100:] + more
    assert process.poll() is None, "the stock handler has become better: ours may go"


def system_call(pid: int) -> str:
    """What a process sleeps in: the call's number (x86-64: write is 1, epoll_wait 232) and its arguments; proc(5)."""
    return Path(f"/proc/{pid}/syscall").read_text()


@pytest.mark.parametrize("wakes", [True, False])
def test_a_signal_that_another_thread_got_wakes_the_event_loop(start: Start, tmp_path: Path, wakes: bool) -> None:
    """Without it a server that nobody uses would sleep on."""
    wake = "shutdown.wake_on_signals(asyncio.get_running_loop())" if wakes else "pass"
    process = start(f"""
import asyncio
async def main():
    {wake}
    end.serving(lambda: os._exit(0))
    threading.Thread(target=other, daemon=True).start()
    await asyncio.sleep(3600)
def other():
    main_thread = pathlib.Path(f"/proc/{{os.getpid()}}/syscall")
    while not main_thread.read_text().startswith("232 "):
        time.sleep(0.01)
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    ready()
end.watch()
asyncio.run(main())
""")
    if wakes:
        assert process.wait(DEADLINE_S) == 0
    else:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
