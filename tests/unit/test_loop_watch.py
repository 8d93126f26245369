"""The watch of event loops that the tests put into a hub: it notices what waits, and says where."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import loop_watch

ROOT = Path(__file__).parents[2]
WAITS = {  # what waits, the kind that it is noticed as, and what is told of it
    "pwd.getpwuid(0)": ("names", "getpwuid (0,)"),
    "grp.getgrgid(0)": ("names", "getgrgid (0,)"),
    "socket.getaddrinfo('localhost', 80)": ("address", "socket.getaddrinfo 'localhost'"),
    "subprocess.run(['true'])": ("process", "subprocess.Popen"),
    "time.sleep(0.001)": ("sleep", "0.001 s"),
    "(HOME / 'file').write_text('')": ("home", "open "),
    "HOME.is_dir()": ("home", "stat "),
    "os.listdir(HOME)": ("home", "os.listdir "),
    "threading.Event().wait(0.15)": ("slow", "Handle"),
}
LEAVES_OTHERS_THEIR_TURN = [
    "await asyncio.to_thread(pwd.getpwuid, 0)",
    "await asyncio.get_running_loop().getaddrinfo('localhost', 80)",
    "await (await asyncio.create_subprocess_exec('true')).wait()",
    "await asyncio.sleep(1.2)",
    "await asyncio.to_thread(HOME.is_dir)",
    "sum(range(10_000_000))",
    "Path('/tmp').is_dir() and socket.getaddrinfo('127.0.0.1', 80)",
]
PROGRAM = """
import asyncio, grp, os, pwd, socket, subprocess, sys, threading, time
from pathlib import Path
from tests.loop_watch import LoopWatch

HOME = Path(sys.argv[1], "home")
HOME.mkdir()

async def main():
    LoopWatch(str(Path(sys.argv[1], "notes")), [str(HOME)]).install()
    for name, work in list(globals().items()):
        if name.startswith("line_"):
            await asyncio.sleep(0)
            await work()
"""


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What is noticed of all these lines, each in a function of its own in an event loop."""
    folder = tmp_path_factory.mktemp("watched")
    lines = [*WAITS, *LEAVES_OTHERS_THEIR_TURN]
    functions = "".join(f"\nasync def line_{number}():\n    {line}\n" for number, line in enumerate(lines))
    argv = [sys.executable, "-c", f"{PROGRAM}{functions}\nasyncio.run(main())\n", str(folder)]
    subprocess.run(argv, cwd=ROOT, check=True, timeout=60)
    return [note for note in loop_watch.read(folder / "notes") if loop_watch.waits(note)]


@pytest.mark.parametrize("line", WAITS)
def test_what_waits_in_the_loop_is_noticed_with_its_place(notes: list[dict[str, Any]], line: str) -> None:
    place = f" line_{list(WAITS).index(line)}"

    found = [note for note in notes if any(one.endswith(place) for one in note["stack"])]

    kind, what = WAITS[line]
    assert found, loop_watch.shown(notes)
    assert all(note["kind"] == kind and what in note["what"] for note in found), loop_watch.shown(found)


def test_what_leaves_others_their_turn_is_not_noticed(notes: list[dict[str, Any]]) -> None:
    places = {place.rpartition(" ")[2] for note in notes for place in note["stack"]}

    assert {place for place in places if place.startswith("line_")} == {f"line_{n}" for n in range(len(WAITS))}


def test_a_callback_that_computes_is_told_from_one_that_waits() -> None:
    stack = ["/hub/app.py:1 work"]
    computes = {"kind": "slow", "took_s": 3.1, "cpu_s": 3.0, "stack": stack}
    stands_still = {"kind": "slow", "took_s": 3.1, "cpu_s": 0.1, "stack": stack}
    sleeps = slow(stack, asleep_s=0.08)

    assert [loop_watch.waits(note) for note in (computes, stands_still, sleeps)] == [False, True, True]


def slow(stack: list[str], asleep_s: float, *, is_disk: bool = False, seen_in: list[str] | None = None) -> Any:
    """A callback that slept once in this stack; what was seen once it was slow may be another."""
    sleeps = [{"seconds": asleep_s, "is_disk": is_disk, "stack": stack}]
    return {"kind": "slow", "took_s": asleep_s + 0.02, "cpu_s": 0.01, "stack": seen_in or stack, "sleeps": sleeps}


@pytest.mark.parametrize(
    "stack",
    [
        ["/lib/subprocess.py:1 _execute_child"],
        ["/lib/threading.py:962 start", "/lib/threading.py:622 wait", "/lib/threading.py:320 wait"],
        ["/lib/sqlalchemy/engine/default.py:1 do_commit"],
    ],
)
def test_a_child_that_waits_for_the_processor_is_told_from_one_that_does_not_come(stack: list[str]) -> None:
    work = ["/hub/app.py:1 work"]

    notes = [slow([*work, *stack], asleep_s, seen_in=work) for asleep_s in (0.3, 1.2)]

    assert [loop_watch.waits(note) for note in notes] == [False, True]


def test_a_busy_disk_is_told_from_one_that_does_not_answer() -> None:
    notes = [slow(["/hub/app.py:1 work"], asleep_s, is_disk=True) for asleep_s in (0.3, 1.2)]

    assert [loop_watch.waits(note) for note in notes] == [False, True]


def test_a_sleep_is_noticed_with_the_stack_in_it(notes: list[dict[str, Any]]) -> None:
    [found] = [note for note in notes if note["kind"] == "slow" and note["sleeps"]]

    assert any(" wait" in place for place in found["sleeps"][0]["stack"])
    assert not found["sleeps"][0]["is_disk"]
    assert "asleep 0.1" in loop_watch.shown([found])


def test_who_waits_for_the_work_of_a_thread_waits() -> None:
    stack = ["/hub/app.py:1 work", "/lib/threading.py:622 wait", "/lib/threading.py:320 wait"]

    assert loop_watch.waits(slow(stack, asleep_s=0.08))
