"""A bench that is ended, however, takes its cluster with it."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.demo.harness import CHECKOUT, IS_ROOT, Demo, pid_namespace, wait_until
from tests.forms import of_long_form

PORTAL = CHECKOUT / ".venv" / "bin" / "portal"
OWN_NAMESPACE = pid_namespace(Path("/proc/self"))
pytestmark = pytest.mark.skipif(not IS_ROOT, reason="benches run as root")


class Bench:
    """A bench in a state folder of its own, and every process that belongs to it."""

    def __init__(self, folder: Path, packages: Path) -> None:
        self.folder = folder
        self.log = folder.with_suffix(".log")
        self._namespaces: set[str] = set()
        folder.mkdir()
        (folder / "root").symlink_to(packages)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [str(PORTAL), "bench", "spawn", "--runs", "1", "--only", "ours"],
                env={**os.environ, "DSPORTAL_BENCH_STATE": str(folder)}, cwd=CHECKOUT,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def processes(self) -> list[str]:
        """The argv of those that name the folder in their argv or environment, or are in a PID namespace of such."""
        all_processes = [process for process in Path("/proc").glob("[0-9]*") if process.name != str(os.getpid())]
        named = [process for process in all_processes if self._names_folder(process)]
        self._namespaces |= {pid_namespace(process) for process in named} - {OWN_NAMESPACE, ""}
        found = [process for process in all_processes if process in named or pid_namespace(process) in self._namespaces]
        return [contents(process / "cmdline").replace(b"\0", b" ").decode(errors="replace") for process in found]

    def _names_folder(self, process: Path) -> bool:
        name = os.fsencode(self.folder)
        return name in contents(process / "cmdline") or name in contents(process / "environ")

    def runs(self, program: str) -> bool:
        """Whether a process of the cluster has this in its argv."""
        return any(program in argv for argv in self.processes())

    def has_printed(self, words: str) -> bool:
        """Whether this stands in its output."""
        assert self.process.poll() is None, self.log.read_text()
        return words in self.log.read_text()


def contents(file: Path) -> bytes:
    """A file of /proc; nothing when its process has ended."""
    try:
        return file.read_bytes()
    except OSError:
        return b""


@pytest.fixture
def bench(folder: Path, cluster: Demo) -> Iterator[Bench]:
    """A bench that has just started."""
    started = Bench(Path(tempfile.mkdtemp(prefix="bench-", dir=folder)) / "state", cluster.folder / "root")
    yield started
    started.process.kill()
    started.process.wait()
    demo = Demo(started.folder)
    demo.down()
    demo.call("clean")


@pytest.mark.long
def test_a_bench_killed_before_its_cluster_has_begun_leaves_no_process(bench: Bench) -> None:
    wait_until(lambda: bench.runs("demo run --no-hub"), "what starts the cluster is there")
    bench.process.kill()

    wait_until(lambda: bench.processes() == [], "every process is gone")


def test_a_bench_killed_while_its_cluster_starts_leaves_no_process(bench: Bench) -> None:
    wait_until(lambda: bench.runs("mariadbd"), "the cluster starts", 60)
    bench.process.kill()

    wait_until(lambda: bench.processes() == [], "every process is gone")


@pytest.mark.long
def test_a_bench_killed_while_it_measures_leaves_no_process(bench: Bench) -> None:
    wait_until(lambda: bench.has_printed("round for warming up: "), "it measures", 120)
    assert bench.runs("slurmctld")
    assert bench.runs("portal up")
    bench.process.kill()

    wait_until(lambda: bench.processes() == [], "every process is gone")


@pytest.mark.parametrize(
    ("number", "program"),
    [
        of_long_form(signal.SIGTERM, "tests.bench.measure_in_cluster"),
        of_long_form(signal.SIGHUP, "mariadbd"),
        (signal.SIGINT, "mariadbd"),
    ],
)
def test_a_bench_that_is_asked_to_end_leaves_no_process(bench: Bench, number: signal.Signals, program: str) -> None:
    wait_until(lambda: bench.runs(program), f"{program} runs", 60)
    bench.process.send_signal(number)

    assert bench.process.wait(40) == 130
    wait_until(lambda: bench.processes() == [], "every process is gone")
