"""Starts a private cluster, measures in it, prints, and ends the cluster.

Progress goes to standard error, the table (or one JSON object) to standard output. Nothing is left behind but the
cluster's unpacked packages, in the state folder.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

from deploy.demo.parent_death import ended_by
from deploy.run_module import CHECKOUT
from tests.bench import measure_here
from tests.bench.benches import bench_of
from tests.bench.result_table import table

DEMO = CHECKOUT / "deploy/demo/demo"
STATE = Path(os.environ.get("DSPORTAL_BENCH_STATE") or CHECKOUT / ".demo-bench").absolute()
RUNS_NOT = 3  # the exit status of `demo status` when no demo runs


def run(name: str, options: Mapping[str, int | str], *, as_json: bool) -> int:
    """Measure and print; 0 when it could be measured, 130 after Ctrl-C."""
    if not bench_of(name).needs_cluster:
        return shown(measure_here.measured(name, options), as_json=as_json)
    if reason := why_not("only" in options):
        print(f"portal bench: {reason}", file=sys.stderr)
        return 1
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    try:
        with cluster(bench_of(name).packages) as is_up:
            text = measured(name, options) if is_up else ""
    except KeyboardInterrupt:
        return 130
    if not text:  # the reason stands on standard error already
        return 1
    return shown(text, as_json=as_json)


def shown(text: str, *, as_json: bool) -> int:
    """Print the figures; 0."""
    print(text if as_json else table(json.loads(text)))
    return 0


def why_not(only_ours: bool) -> str:
    """What is in the way; '' when nothing is."""
    if os.geteuid() != 0:
        return "only root may switch on the kernel's accounting, which counts a hub's processes: run it as root"
    if not only_ours and importlib.util.find_spec("ldapauthenticator") is None:
        return "the stock parts are missing: run 'deploy/setup.py --dev' first, or leave them out with --only ours"
    if demo("status", quiet=True) != RUNS_NOT:
        return f"a bench runs already in {STATE}; to end it: DSPORTAL_DEMO={STATE} {DEMO} down"
    return ""


def interrupted(number: int, frame: FrameType | None) -> None:
    """TERM and HUP end a bench as Ctrl-C does."""
    raise KeyboardInterrupt


@contextlib.contextmanager
def cluster(packages: Sequence[str] = ()) -> Iterator[bool]:
    """A fresh cluster, ended afterwards; also when this process is killed. False when it did not start."""
    if (STATE / "cluster").exists():
        demo("clean", "--live")
    offer_environments()
    supervisor = start_cluster(packages)
    try:
        while supervisor.poll() is None and demo("status", quiet=True) == RUNS_NOT:
            time.sleep(0.2)
        yield supervisor.poll() is None
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # the end has begun: a second Ctrl-C does not disturb it
        supervisor.terminate()
        supervisor.wait()
        demo("clean", "--live", quiet=True)


def start_cluster(packages: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """The supervisor of a cluster without a hub; it ends when this process does, even by ``kill -9``."""
    wanted = [word for group in packages for word in ("--with", group)]
    return subprocess.Popen(
        [str(DEMO), "run", "--no-hub", *wanted], env=environment(), cwd=CHECKOUT, stdout=sys.stderr,
        start_new_session=True,  # Ctrl-C reaches it only through us, when nothing is measured any more
        preexec_fn=ended_by(os.getpid()),
    )  # fmt: skip


def offer_environments() -> None:
    """The module tree and the frameworks that the demo was built with, where there are any: `training` runs them."""
    STATE.mkdir(mode=0o700, exist_ok=True)
    built = CHECKOUT / ".demo" / "cm"
    here = STATE / "cm"
    if here.is_dir() and not here.is_symlink() and not any(here.iterdir()):  # an earlier bench had none to offer
        here.rmdir()
    if built.is_dir() and not here.exists():
        here.symlink_to(built)


def demo(*arguments: str, quiet: bool = False) -> int:
    """The private cluster of the benches: a state folder of its own, with packages that the demo has fetched before."""
    out = subprocess.DEVNULL if quiet else sys.stderr
    return subprocess.run([str(DEMO), *arguments], env=environment(), cwd=CHECKOUT, check=False, stdout=out).returncode


def measured(name: str, options: Mapping[str, int | str]) -> str:
    """What the bench prints inside the cluster; '' when it could not measure."""
    module = [sys.executable, str(CHECKOUT / "deploy/run_module.py"), "tests.bench.measure_in_cluster"]
    argv = [str(DEMO), "exec", "--", *module, name, json.dumps(options)]
    done = subprocess.run(argv, env=environment(), cwd=CHECKOUT, check=False, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def environment() -> dict[str, str]:
    """The demo's variables."""
    packages = CHECKOUT / ".demo" / "debs"
    cache = os.environ.get("DSPORTAL_DEB_CACHE") or (str(packages) if packages.is_dir() else "")
    return {**os.environ, "DSPORTAL_DEMO": str(STATE), **({"DSPORTAL_DEB_CACHE": cache} if cache else {})}
