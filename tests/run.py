#!/usr/bin/python3
"""All tests, ring by ring: what `make test` runs. Standard library only.

    tests/run.py                    every ring but those that run when they are named (--list tells which)
    tests/run.py unit hub           only these
    tests/run.py --long faults      the fault suite in its long form (docs/howto/fault-suite.md)
    tests/run.py --long simulation  a simulated day of a thousand people
    tests/run.py --long notebooks   whole lessons on every kernel that they are made for, and each launcher of Horovod
    tests/run.py --long demo        a newcomer's fresh clone, as an ordinary user, runs the whole browser ring
    tests/run.py --long security    any ring with what is of its long form alone, too (tests/forms.py)
    tests/run.py --list             their names and what they need

With DSPORTAL_DEBIAN=13 they run on that Debian, its Slurm, its slapd and its Python, whatever this machine is: a whole
system out of packages (`make test-debian`; docs/howto/systems.md). Without names those that meet the system then.

Rings marked "inside" run in the private cluster (deploy/demo), which is started once for all of them; the root
variant where this runs as root, the rootless one elsewhere. Each ring is one pytest run; its results are kept
below .test-artefacts. A run ends with its slowest modules and tests and the minutes of each ring; its last line counts
all tests.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from textwrap import indent

CHECKOUT = Path(__file__).resolve().parent.parent
DEBIAN = os.environ.get("DSPORTAL_DEBIAN", "")  # a release that is not this machine's; "" = this machine's
OWN = f"debian{DEBIAN}" if DEBIAN else ""  # what a run on another Debian has for itself
VENV = CHECKOUT / (f".venv-{OWN}" if OWN else ".venv")
BIN = VENV / "bin"
DEMO = CHECKOUT / "deploy" / "demo" / "demo"
STATE = Path(os.environ.get("DSPORTAL_DEMO") or CHECKOUT / ".demo").resolve()
TEST_STATE = STATE.with_name(f"{STATE.name}-{OWN or 'test'}")  # a demo that somebody uses meanwhile is left alone
ARTEFACTS = Path(os.environ.get("DSPORTAL_ARTEFACTS") or CHECKOUT / ".test-artefacts" / OWN)


EXAMPLE = CHECKOUT / "deploy" / "site" / "site.toml.example"  # its kernels are those that the templates are made for
UNSTEADY_MAX = 2  # in a whole run
HANGS_AFTER_S = 900  # ten times what the slowest test takes, with all that it sets up
NO_TESTS = 5  # pytest's exit status
PLACE = re.compile(r"[^ :]+\.py:\d+: ")  # as pytest ends each part of a traceback
LINES_OF_A_FAULT = 25
BEGAN = time.monotonic()
PYTHON = sys.executable  # of which the commands need no more than that it reads them
RELEASE = ["--debian", DEBIAN] if DEBIAN else []
SYSTEM = [str(DEMO), "--state", str(TEST_STATE), "system", *RELEASE, "--"]
ON_SYSTEM = SYSTEM if DEBIAN else []  # what runs a command outside the cluster
CM = (TEST_STATE if DEBIAN else STATE) / "cm"  # environments are of one Python


@dataclass(frozen=True)
class Ring:
    """One part of the tests: pytest's folder, and whether it runs inside the private cluster.

    Arguments:
        packages: the groups of Debian packages that it needs beside the usual ones (deploy/demo/debs.lock).
        usual: whether `make test` runs it; the others run when they are named.
        parts: the names of parts that run at the same time.
        has_whole: whether a last pytest run, "whole", looks at what the parts ran.
        beside: the names of rings during which this one runs, where all of them run; else it runs in its turn.
        cluster: in which it runs beside others; those of one number follow each other there. A ring that stops daemons,
            takes nodes away, fills the cluster, writes root's files, starts the hub again or has programs that other
            rings must not find is not in the first, where the rings are beside which it runs.
    """

    name: str
    inside: bool
    what: str
    usual: bool = True
    parts: tuple[str, ...] = ()
    has_whole: bool = False
    beside: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    cluster: int = 1


RINGS = (
    Ring("unit", False, "pure rooms, promises (imports, docs, wheel contents)", parts=("1", "2")),
    Ring(
        "upstream",
        False,
        "JupyterHub's own tests of spawners and REST, on our spawner and FakeSlurm",
        beside=("unit", "simulation"),
    ),
    Ring("simulation", False, "hours of many sessions on FakeSlurm, with faults of all kinds; it prints its seed"),
    Ring("contract", True, "the cluster on real Slurm", beside=("simulation", "session"), cluster=2),
    Ring("directory", True, "logins on real slapd", beside=("unit", "simulation")),
    Ring("session", True, "kernels out of real modules, TensorBoard, JupyterLab in Chromium", parts=("1", "2")),
    Ring(
        "lmod",
        True,
        "kernels out of a real Lmod's hierarchy; it is the module command of all rings of its cluster",
        beside=("session",),
        packages=("lmod",),
        cluster=2,
    ),
    Ring("hub", True, "a real hub: sessions from the click to the end"),
    Ring("security", True, "what hostile people try, in Chromium and as neighbours on a node"),
    Ring(
        "faults",
        True,
        "daemons, nodes, hub, proxy, database and homes that fail; what was seen is a table",
        beside=("hub", "security", "notebooks"),
        cluster=2,
    ),
    Ring(
        "browser",
        True,
        "the whole story in Chromium",
        beside=("session", "hub", "security"),
        cluster=2,
    ),
    Ring("notebooks", True, "templates on their own kernels in Slurm sessions", parts=("1", "2"), has_whole=True),
    Ring(
        "demo",
        False,
        "the demo itself, with root and rootless as an ordinary user",
        beside=("hub", "security"),
    ),
    Ring(
        "directories",
        True,
        "logins on servers of other makers: Samba's Active Directory, 389-ds, OpenID Connect, PAM; four minutes",
        usual=False,
        packages=("directories",),
    ),
    Ring("large_files", True, "5 GB up and down in Chromium, cut between; ten minutes, 20 GB of disk", usual=False),
    Ring("desktop", True, "a desktop as a web tool, in Chromium; a minute", usual=False, packages=("desktop",)),
    Ring(
        "databases",
        True,
        "a hub on real PostgreSQL and MariaDB servers",
        usual=False,
        packages=("databases",),
    ),
    Ring("notebooks_in_browser", True, "every template in Chromium with its own values, about an hour", usual=False),
    Ring(
        "front_doors",
        True,
        "nginx, Apache and Traefik before the portal, as docs/howto/reverse-proxy.md has them, in Chromium",
        usual=False,
        packages=("web-servers",),
    ),
    Ring("systems", False, "the guide to the letter on bare Debian 12 and 13, under a real systemd", usual=False),
)
CLUSTERS = sorted({ring.cluster for ring in RINGS})
ON_ANOTHER_DEBIAN = ("contract", "directory", "session", "hub")
OLD_NAMES = {"templates": "notebooks_in_browser"}
WITH_ALL_KERNELS = ("notebooks", "notebooks_in_browser")
SLOWEST = 10
SLOWEST_MODULES = 40
ENDS_WITHIN_S = 60
LINT = (
    ("ruff check", [str(BIN / "ruff"), "check", "."]),
    ("ruff format", [str(BIN / "ruff"), "format", "--check", "--quiet", "."]),
    ("mypy --strict", [str(BIN / "mypy")]),
    ("notebook style", [str(BIN / "portal"), "notebooks", "check", "--site", str(EXAMPLE)]),
    ("the committed Lab extension is the build of its sources", [str(BIN / "python"), "templates/lab/check_build.py"]),
)


@dataclass
class Count:
    """What a ring's own report says."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    unsteady: int = 0  # of the passed, those that only did at the second try

    def __add__(self, other: Count) -> Count:
        return Count(
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
            self.unsteady + other.unsteady,
        )

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


@dataclass(frozen=True, order=True)
class Test:
    """One test, its seconds, and what was wrong: its first line, and some more; "" where nothing was."""

    seconds: float
    ring: str
    name: str
    fault: str = ""
    more: str = ""


def title(text: str) -> None:
    """Say what comes, and how many minutes the run has taken before: its log may be all that is seen of it."""
    print(f"\n=== {text} [{minutes_so_far()} min]", flush=True)


def minutes_so_far() -> int:
    """The minutes since this run began."""
    return round((time.monotonic() - BEGAN) / 60)


@dataclass(frozen=True)
class Built:
    """What is built beside the rings that do not need it: the environments; Horovod, for the notebooks alone."""

    environments: Beside
    horovod: Beside | None = None

    def end(self) -> None:
        """End what is still at work; what waits for another is ended before that one."""
        if self.horovod:
            self.horovod.end()
        self.environments.end()


def set_up(rings: Sequence[Ring]) -> Built | None:
    """Everything the rings need, fetched and built; a failure here ends the run.

    The environments, which the cluster needs, are installed for some minutes from the first moment on; then Horovod is
    compiled.
    """
    title("set up")
    if ON_SYSTEM:
        subprocess.run([*ON_SYSTEM, "true"], check=True)  # which shows how the system is made
    setup = [*ON_SYSTEM, python_of_system(), str(CHECKOUT / "deploy/setup.py")]
    said = subprocess.run([*setup, "--print-pip"], check=True, stdout=subprocess.PIPE, text=True).stdout
    *before, pip = said.splitlines()  # on a machine without pip it is fetched first, and that is told
    print("\n".join(before), end="\n" * bool(before), flush=True)
    built = begin_to_build(rings, pip) if any(map(needs_environments, rings)) else None
    try:
        subprocess.run([*setup, "--dev"], check=True)
        if any(ring.name == "directories" for ring in rings):
            subprocess.run([PYTHON, str(CHECKOUT / "deploy/run_module.py"), "tests.directories.fetch"], check=True)
        for ring in rings if built else ():
            own_programs(ring, pip)
    except BaseException:
        if built:
            built.end()
        raise
    return built


def begin_to_build(rings: Sequence[Ring], pip: str) -> Built:
    """Begin with the environments that these rings need; they have nothing of the portal's own environment."""
    where = ["--cm", str(CM), "--cache-dir", str(STATE / "cache" / "wheels"), "--pip", pip]
    everything = any(ring.name in WITH_ALL_KERNELS for ring in rings)
    builder = [*ON_SYSTEM, python_of_system(), str(CHECKOUT / "deploy/environments/build.py"), *where]
    environments = Beside("environments", [*builder, *(["--all"] if everything else [])])
    if not everything:
        return Built(environments)
    compiler = ["nice", PYTHON, str(CHECKOUT / "deploy/environments/horovod.py"), *where]
    return Built(environments, Beside("horovod", compiler, after=environments))


def own_programs(ring: Ring, pip: str) -> None:
    """What a ring needs out of PyPI beside the portal: its ``wheels.lock``, kept below .test-artefacts."""
    lock = CHECKOUT / "tests" / ring.name / "wheels.lock"
    folder = ARTEFACTS / "programs" / ring.name
    stamp = folder / "wheels.lock"
    if not lock.exists() or (stamp.exists() and stamp.read_text() == lock.read_text()):
        return
    command = [PYTHON, f"{pip}/pip"] if pip.endswith(".whl") else [pip, "-m", "pip"]
    options = ["--quiet", "--require-hashes", "--no-deps", "--only-binary=:all:", "--upgrade", "--target", str(folder)]
    subprocess.run([*command, "install", *options, "-r", str(lock)], check=True)
    shutil.copyfile(lock, stamp)


def python_of_system() -> str:
    """What starts the commands of deploy/."""
    return "/usr/bin/python3" if DEBIAN else PYTHON


class Beside:
    """A command that runs beside the rings; what it prints is kept, and shown when somebody needs its result.

    With ``after`` it begins when that one has succeeded, and fails when that one does; ``whatever`` came of that one,
    it begins when that one has ended. Where what it runs needs something prepared, ``argv`` prepares it, and answers.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str] | Callable[[], Sequence[str]],
        after: Beside | None = None,
        whatever: bool = False,
        **variables: str,
    ) -> None:
        self.log = ARTEFACTS / f"{name}.log"
        self.log.write_bytes(b"")
        self.seconds = 0.0  # what it took, without what it waited for
        self._is_shown = self._is_over = False
        self._prepare = argv if callable(argv) else lambda: argv
        self._command: Sequence[str] = [name]
        self._variables = variables
        self._process: subprocess.Popen[bytes] | None = None
        self._beginning = threading.Lock()
        self._turn = threading.Thread(target=self._run, args=(after, whatever), daemon=True)
        if not after:
            self._begin()
        self._turn.start()

    def _run(self, after: Beside | None, whatever: bool) -> None:
        if after:
            if after.status() and not whatever:
                return
            self._begin()
        began = time.monotonic()
        if self._process:
            self._process.wait()
        self.seconds = time.monotonic() - began

    def _begin(self) -> None:
        with self._beginning, self.log.open("wb") as log:
            if self._is_over:
                return
            self._command = self._prepare()
            self._process = subprocess.Popen(
                self._command, cwd=CHECKOUT, env={**environment(), **self._variables}, stdout=log, stderr=log
            )

    def status(self) -> int:
        """Wait for its end; its exit status."""
        self._turn.join()
        return self._process.wait() if self._process else 1

    def finish(self) -> int:
        """Wait for its end and show what it printed, once; answers its exit status."""
        status = self.status()
        if not self._is_shown:
            print(self.log.read_text(errors="replace"), flush=True)
        self._is_shown = True
        return status

    def must_succeed(self) -> None:
        """Wait for its end, and raise ``CalledProcessError`` when it failed."""
        if status := self.finish():
            raise subprocess.CalledProcessError(status, self._command)

    def end(self) -> None:
        """End it, where nobody waits for it; as Ctrl-C does, so that pytest takes down what its tests set up."""
        with self._beginning:
            self._is_over = True
        if not self._process or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def demo(*arguments: str, check: bool = True, state: Path = TEST_STATE) -> int:
    """The private cluster of the tests: a state folder of its own, with the demo's packages and environments."""
    command = [str(DEMO), "--state", str(state), *arguments]
    return subprocess.run(command, env=environment(), cwd=CHECKOUT, check=check).returncode


def begin_cluster(number: int, rings: Sequence[Ring], after: Beside | None) -> Beside:
    """Begin to start the cluster of that number, with what its rings need, and nobody's earlier choices or jobs.

    It starts with the environments that there are then, and takes the packages that another one has unpacked by then.
    """
    state = state_of(number)
    start = partial(prepared_start, state, of_cluster(number, rings))
    return Beside(f"cluster-{number}", lambda: [str(DEMO), "--state", str(state), *start()], after)


def state_of(number: int) -> Path:
    """The state folder of a cluster of the tests."""
    return TEST_STATE if number == 1 else TEST_STATE.with_name(f"{TEST_STATE.name}-{number}")


def of_cluster(number: int, rings: Sequence[Ring]) -> list[Ring]:
    """Those of them that run in the cluster of that number: beside those of the first, where it is another one."""
    return [ring for ring in rings if ring.inside and number == (ring.cluster if runs_beside(ring, rings) else 1)]


def prepared_start(state: Path, rings: Sequence[Ring] = ()) -> list[str]:
    """Make the folder of a cluster ready; the verb of the demo that starts it, and its options."""
    if state.is_dir():
        demo("down", check=False, state=state)
        demo("clean", "--live", check=False, state=state)
    state.mkdir(mode=0o700, exist_ok=True)
    share_packages(state)
    if not os.path.lexists(state / "cm"):  # where the environments are still being built it leads nowhere yet
        (state / "cm").symlink_to(CM)
    groups = dict.fromkeys(["browser", *(group for ring in rings for group in ring.packages)])
    wanted = [word for group in groups for word in ("--with", group)]
    return ["up", *RELEASE, *wanted, "--port", str(free_port()), "--domain", "localhost:8000"]


def share_packages(state: Path) -> None:
    """Take the packages that another cluster has unpacked, as links: nobody writes there.

    An ordinary user's are files of many accounts, which only root may link; they are unpacked once more.
    """
    root, part = state / "root", state / "root.part"
    others = [other / "root" for other in map(state_of, CLUSTERS) if other != state]
    unpacked = next((other for other in others if other.is_dir()), None)
    shutil.rmtree(part, ignore_errors=True)
    if root.exists() or not unpacked:
        return
    copied = subprocess.run(["cp", "-al", str(unpacked), str(part)], stderr=subprocess.DEVNULL, check=False)
    if copied.returncode:
        shutil.rmtree(part, ignore_errors=True)
    else:
        part.rename(root)


def free_port() -> int:
    """A port of this machine that nobody uses: the tests themselves talk to the hub inside."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def lint() -> Count:
    """Lint and types: one count each."""
    count = Count()
    for name, argv in LINT:
        title(name)
        if subprocess.run(argv, cwd=CHECKOUT, check=False).returncode:
            count.failed += 1
        else:
            count.passed += 1
    return count


def run_ring(ring: Ring, options: Sequence[str]) -> Count:
    """One pytest run; or those of the ring's parts at the same time, and then, for some, the look at what they ran."""
    title(f"{ring.name}: {ring.what}")
    if not ring.parts:
        return run_here(ring, options)
    first, *others = ring.parts
    beside = [PytestBeside(ring, options, part) for part in others]
    try:
        counts = [run_here(ring, options, first), *(run.result() for run in beside)]
    finally:
        for run in beside:
            run.end()
    if not ring.has_whole:
        return sum(counts, Count())
    title(f"{ring.name}: the whole")
    return sum([*counts, run_here(ring, options, "whole")], Count())


def run_here(ring: Ring, options: Sequence[str], part: str = "") -> Count:
    """A pytest run whose output is shown at once."""
    argv = pytest_command(ring, options, part)
    status = subprocess.run(argv, cwd=CHECKOUT, env={**environment(), "DSPORTAL_PART": part}, check=False).returncode
    return judged(name_of(ring, part), status, options)


class PytestBeside(Beside):
    """A ring, or a part of one, that runs beside others."""

    def __init__(
        self,
        ring: Ring,
        options: Sequence[str],
        part: str = "",
        state: Path = TEST_STATE,
        after: Beside | None = None,
    ) -> None:
        self.name, self.options = name_of(ring, part), options
        command = pytest_command(ring, options, part, state)
        super().__init__(self.name, command, after, whatever=True, DSPORTAL_PART=part)

    def result(self) -> Count:
        """Wait for its end, show what it printed, and count."""
        title(f"{self.name}, which ran at the same time")
        return judged(self.name, self.finish(), self.options)


def name_of(ring: Ring, part: str) -> str:
    """What the report and the log of a pytest run are called."""
    return f"{ring.name}-{part}" if part else ring.name


def pytest_command(ring: Ring, options: Sequence[str], part: str = "", state: Path = TEST_STATE) -> list[str]:
    """The command of a ring, or of a part of it; what an earlier run said is taken away.

    Where tests are chosen, somebody looks at those: there is no second try.
    """
    report = report_of(name_of(ring, part))
    report.unlink(missing_ok=True)
    again_of(report).unlink(missing_ok=True)
    module = "pytest" if options else "tests.second_try"
    is_bounded = ring.usual and os.environ.get("DSPORTAL_FORM") != "long"
    bound = [f"--timeout={HANGS_AFTER_S}"] if is_bounded else []
    argv = [str(BIN / "python"), "-m", module, f"tests/{ring.name}", f"--junitxml={report}", *bound, *options]
    return [*([str(DEMO), "--state", str(state), "exec", "--"] if ring.inside else ON_SYSTEM), *argv]


def judged(name: str, status: int, options: Sequence[str]) -> Count:
    """What a pytest run counted; a run that ends without a report counts as one failure."""
    count = read(report_of(name))
    again = again_of(report_of(name))
    wrong = tests_with(report_of(name), "failure", "error")
    if wrong and wrong <= tests_with(again) - tests_with(again, "skipped") and not read(again).failed:
        count = Count(count.passed + count.failed, 0, count.skipped, len(wrong))
    if status < 0 or status > 128:  # a signal: pytest could say nothing itself
        print(f"{name}: ended by signal {abs(status) % 128}", flush=True)
    nothing_chosen = status == NO_TESTS and bool(options)  # -k names tests of other rings
    if not nothing_chosen and not count.failed and (status or not count.passed):
        print(f"{name}: no test failed, and pytest ended with status {status} after {count.passed} passed", flush=True)
        count.failed = 1
    return count


def report_of(name: str) -> Path:
    """The JUnit report of a pytest run."""
    return ARTEFACTS / f"{name}.xml"


def again_of(report: Path) -> Path:
    """The report of the second try of what failed there (tests/second_try.py)."""
    return report.with_name(f"{report.stem}-again.xml")


def environment() -> dict[str, str]:
    """Tests import the tests' own helpers from the checkout and the portal from .venv, as installed."""
    return {
        **os.environ,
        "DSPORTAL_ARTEFACTS": str(ARTEFACTS),
        "DSPORTAL_DEMO": str(TEST_STATE),
        "DSPORTAL_DEB_CACHE": os.environ.get("DSPORTAL_DEB_CACHE") or str(packages()),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def packages() -> Path:
    """Where packages are that were downloaded before: for the demo, or else for these tests."""
    states = (STATE, *map(state_of, CLUSTERS))
    folder = next((s / "debs" for s in states if any(s.glob("debs/*.deb"))), TEST_STATE / "debs")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def read(report: Path) -> Count:
    """The numbers of a JUnit report of pytest."""
    suite = next((one.attrib for one in suites_of(report)), None)
    if suite is None:
        return Count()
    failed = int(suite["failures"]) + int(suite["errors"])
    skipped = int(suite["skipped"])
    return Count(int(suite["tests"]) - failed - skipped, failed, skipped)


def tests_with(report: Path, *kinds: str) -> set[tuple[str | None, str | None]]:
    """The tests of a report, or those of which it says one of these: "failure", "error" (of fixtures), "skipped"."""
    cases = [case for suite in suites_of(report) for case in suite.iter("testcase")]
    return {
        (case.get("classname"), case.get("name"))
        for case in cases
        if not kinds or any(case.find(kind) is not None for kind in kinds)
    }


def suites_of(report: Path) -> list[ET.Element]:
    """What a JUnit report has of a pytest run: one element, or none where there is no report, or half of one."""
    if not report.is_file():
        return []
    try:
        return list(ET.parse(report).iter("testsuite"))  # noqa: S314  our own file, written a moment ago
    except ET.ParseError:  # whoever wrote it was killed
        return []


def tests_of(ring: str, of: Callable[[Path], Path] = lambda report: report) -> list[Test]:
    """What the reports of a ring, or of its parts, say of each of its tests; or those ``of`` their second tries."""
    parts = next(((*one.parts, "whole") for one in RINGS if one.name == ring and one.parts), ())
    reports = [of(report_of(name)) for name in [f"{ring}-{part}" for part in parts] or [ring]]
    cases = [case for report in reports for suite in suites_of(report) for case in suite.iter("testcase")]
    return [
        Test(
            float(case.get("time", 0)),
            ring,
            f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}",
            *next((said_of(wrong) for kind in ("failure", "error") for wrong in case.findall(kind)), ("", "")),
        )
        for case in cases
    ]


def said_of(wrong: ET.Element) -> tuple[str, str]:
    """What pytest says of a failure: the first line, and a few more, of which the last one is where it was."""
    first, *others = (wrong.get("message") or "").strip().splitlines() or ["failed"]
    places = [line for line in (wrong.text or "").splitlines() if PLACE.match(line)]
    more = [line[:200] for line in others[:LINES_OF_A_FAULT]] + places
    return first[:200] or "failed", "\n".join(more)


def slowest(rings: Iterable[str]) -> list[Test]:
    """The tests of these rings that took longest, what they set up and take down included."""
    return sorted((test for ring in rings for test in tests_of(ring)), reverse=True)[:SLOWEST]


def slowest_modules(rings: Iterable[str]) -> list[Test]:
    """The modules whose tests took longest together, as one test each: where a run's minutes go."""
    seconds: dict[tuple[str, str], float] = {}
    for test in (test for ring in rings for test in tests_of(ring)):
        module = (test.ring, test.name.partition("::")[0])
        seconds[module] = seconds.get(module, 0) + test.seconds
    return sorted((Test(taken, *module) for module, taken in seconds.items()), reverse=True)[:SLOWEST_MODULES]


def tell_slowest(rings: Sequence[str]) -> None:
    """A line for each of the slowest modules and tests."""
    for what, found in (("modules", slowest_modules(rings)), ("tests", slowest(rings))):
        if not found:
            continue
        title(f"the {len(found)} slowest {what}: what a module or a ring sets up counts for its first test")
        width = max(len(test.ring) for test in found)
        for test in found:
            print(f"{test.seconds:7.1f} s  {test.ring:<{width}} {test.name[:100]}")


def tell_failed(counts: Mapping[str, Count]) -> None:
    """A line for each test that failed: what ran at the same time is far above the end of what was printed.

    A ring may fail where no test of it does: as pytest, having counted them, takes folders away, for one.
    """
    for ring, count in counts.items():
        passed_again = {test.name for test in tests_of(ring, again_of) if not test.fault} if count.unsteady else set()
        wrong = [test for test in tests_of(ring) if test.fault]
        for test in wrong:
            print(f"{'UNSTEADY' if test.name in passed_again else 'FAILED '} {ring} {test.name}: {test.fault}")
            if test.more:
                print(indent(test.more, " " * 8))
        failed = [test for test in wrong if test.name not in passed_again]
        if count.failed > len(failed):
            which = "more than these" if failed else "none of its tests"
            print(f"FAILED  {ring}: {which}; what it printed last says why")


def run_all(
    rings: Sequence[Ring],
    options: Sequence[str],
    with_lint: bool,
    built: Built | None = None,
    results: dict[str, tuple[Count, float]] | None = None,
) -> dict[str, tuple[Count, float]]:
    """Every ring in order, some of them beside others; the cluster is up while rings inside run.

    Arguments:
        results: of each ring; where this raises, it has those of before.
    """
    results = {} if results is None else results
    running: dict[Ring, PytestBeside] = {}
    clusters: dict[int, Beside] = {}
    try:
        started = time.monotonic()
        if with_lint:
            results["lint"] = (lint(), time.monotonic() - started)
        begin_clusters(clusters, rings, built)
        is_used = False
        for ring in [ring for ring in rings if not runs_beside(ring, rings)]:
            started = time.monotonic()
            if built and needs_environments(ring):
                built.environments.must_succeed()
            if ring.inside:
                begin_clusters(clusters, rings, built)
                if not is_used:
                    title("the private cluster")
                clusters[1].must_succeed()
            elif is_used:
                demo("down", check=False)
                del clusters[1]
            is_used = ring.inside
            for other in [one for one in rings if runs_beside(one, rings) and one.beside[0] == ring.name]:
                running[other] = begin_beside(other, options, clusters, running)
            results[ring.name] = (run_with(built.horovod if built else None, ring, options), time.monotonic() - started)
            for other in [one for one in running if one.beside[-1] == ring.name]:
                results[other.name] = (running[other].result(), running[other].seconds)
                del running[other]  # not before: a signal while it is waited for ends it, too
    finally:  # what waits for another is ended before that one
        for left in (*reversed(running.values()), *([built] if built else ())):
            left.end()
        for number, cluster in reversed(clusters.items()):
            cluster.end()
            if cluster.status():
                cluster.finish()  # why its rings found none
            demo("down", check=False, state=state_of(number))
    return results


def begin_clusters(clusters: dict[int, Beside], rings: Sequence[Ring], built: Built | None) -> None:
    """Begin those that are not there, one after the other; the first one when the environments are there."""
    before = built.environments if built else None
    for number in CLUSTERS:
        if number not in clusters and of_cluster(number, rings):
            clusters[number] = begin_cluster(number, rings, before)
        before = clusters.get(number, before)


def begin_beside(
    ring: Ring, options: Sequence[str], clusters: Mapping[int, Beside], running: Mapping[Ring, PytestBeside]
) -> PytestBeside:
    """Begin a ring beside others, once its cluster is up; where that is not the first, one ring at a time is there."""
    if not ring.inside:
        return PytestBeside(ring, options)
    before = [run for other, run in running.items() if other.cluster == ring.cluster > 1]
    after = before[-1] if before else clusters[ring.cluster]
    return PytestBeside(ring, options, state=state_of(ring.cluster), after=after)


def needs_environments(ring: Ring) -> bool:
    """Whether a ring has a cluster, whose sessions have the environments' kernels."""
    return ring.inside or ring.name == "demo"


def runs_beside(ring: Ring, rings: Sequence[Ring]) -> bool:
    """Whether a ring runs during others: where all of these run."""
    return bool(ring.beside) and {one.name for one in rings} >= set(ring.beside)


def run_with(horovod: Beside | None, ring: Ring, options: Sequence[str]) -> Count:
    """A ring; one that needs Horovod waits until it is built, and fails when it cannot be."""
    if horovod and ring.name in WITH_ALL_KERNELS:
        title("Horovod, compiled beside the rings before")
        if horovod.finish():
            return Count(failed=1)
    return run_ring(ring, options)


def tell(results: dict[str, tuple[Count, float]]) -> int:
    """The table, what was not run, and the summary line; answers the exit status."""
    tell_slowest(list(results))
    title("result")
    total = tell_rings(results)
    tell_failed({name: count for name, (count, _) in results.items()})
    if os.geteuid() != 0:
        print("Not run, because this is not root: GPU isolation by device cgroups, memory limits that kill.")
    print("Needs a GPU: no test so far.")
    if total.unsteady:
        print(f"{total.unsteady} UNSTEADY, passed at the second try alone; a run with more than {UNSTEADY_MAX} fails.")
    print(f"\n{total}", flush=True)
    return 1 if total.failed or not total.passed or total.unsteady > UNSTEADY_MAX else 0


def tell_rings(results: Mapping[str, tuple[Count, float]]) -> Count:
    """A line for each ring; answers the sum."""
    width = max(map(len, results), default=0)
    order = ["lint", *(ring.name for ring in RINGS), "set up"]
    for name in sorted(results, key=order.index):
        count, seconds = results[name]
        print(f"{name:<{width}} {count!s:<38} {seconds:7.1f} s")
    return sum((count for count, _ in results.values()), Count())


def end_at_signals(results: Mapping[str, tuple[Count, float]]) -> None:
    """At SIGTERM and SIGHUP tell what there is so far, and end what was started, as Ctrl-C does."""

    def end(number: int, _frame: object) -> None:
        print(f"\n=== ended by {signal.Signals(number).name} after {minutes_so_far()} min; until then:", flush=True)
        print(tell_rings(results), flush=True)
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)


def take_interrupts() -> None:
    """A shell that runs this in the background lets it ignore Ctrl-C, and with it whatever it starts: what the tests
    end in that way would be waited for in vain.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the rings that were named; all of them when none was."""
    take_interrupts()
    parser = argparse.ArgumentParser(description="All tests, ring by ring.")
    names = [ring.name for ring in RINGS]
    named = ", ".join(ring.name for ring in RINGS if not ring.usual)
    parser.add_argument("rings", nargs="*", metavar="RING", help=f"lint, {', '.join(names)} (default: all but {named})")
    parser.add_argument("--list", action="store_true", help="only tell the rings")
    parser.add_argument(
        "--long",
        action="store_true",
        help="the rings in their long forms; faults take 40 minutes then, simulation, notebooks and demo 20 each",
    )
    parser.add_argument("-k", default="", help="as pytest's -k")
    options = parser.parse_args(argv)
    for old in set(options.rings) & set(OLD_NAMES):
        print(f"The ring {old} is called {OLD_NAMES[old]} now.", flush=True)
    options.rings = [OLD_NAMES.get(ring, ring) for ring in options.rings]
    for ring in options.rings:
        if ring not in ("lint", *names):
            parser.error(f"{ring!r} is no ring; there are lint, {', '.join(names)}")
    if options.list:
        print(
            "\n".join(
                f"{r.name:<20} {'inside' if r.inside else 'host':<8} {r.what}{'' if r.usual else ' (when named)'}"
                for r in RINGS
            )
        )
        return 0
    if options.long:
        os.environ["DSPORTAL_FORM"] = "long"  # tests/forms.py
    if DEBIAN:
        options.rings = options.rings or list(ON_ANOTHER_DEBIAN)
        os.environ["DSPORTAL_VENV"] = str(VENV)
    rings = [ring for ring in RINGS if ring.name in options.rings or (ring.usual and not options.rings)]
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    results: dict[str, tuple[Count, float]] = {}
    end_at_signals(results)
    try:
        built = set_up(rings)
        with_lint = not options.rings or "lint" in options.rings
        run_all(rings, ["-k", options.k] if options.k else [], with_lint, built, results)
    except subprocess.CalledProcessError as error:
        print(f"tests: {' '.join(map(str, error.cmd[:3]))} failed; see above", file=sys.stderr)
        results["set up"] = (Count(failed=1), 0.0)
    return tell(results)


if __name__ == "__main__":
    sys.exit(main())
