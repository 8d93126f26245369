"""What the rings inside the private cluster share: run things as people, wait for conditions, ask Slurm."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from portal.site import Site, load
from portal.slurm.runner import Result, run

VENV_BIN = Path(os.environ.get("DSPORTAL_VENV", Path(__file__).parents[1] / ".venv")) / "bin"
SITE_FILE = Path("/etc/dsportal/site.toml")
# The engine without the windows of a desktop, which nobody sees here: a third less work for the processor.
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium-headless-shell")
# Without these, Chromium asks for hosts that the private network does not have; --no-sandbox because it runs as root.
# The compilers for what runs for long cost more than they give where each window is a new one: a sixth of JupyterLab's
# start.
CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--js-flags=--no-turbofan --no-maglev",
]
# For windows of Playwright: nothing is drawn ahead there (see tests.chromium_tabs), but each try is a tab for a moment.
NOTHING_AHEAD = """{
  const type = Object.getOwnPropertyDescriptor(HTMLScriptElement.prototype, 'type');
  const set = function (kind) { type.set.call(this, kind === 'speculationrules' ? 'text/plain' : kind); };
  Object.defineProperty(HTMLScriptElement.prototype, 'type', { ...type, set });
}"""
# A busy machine may leave one of them waiting for 2 s between its first word to munged and the next: that hangs up
# then (MUNGE_SOCKET_TIMEOUT_MSECS), and the command ends by SIGPIPE before Slurm has heard of it.
ASK_SLURM = ("scontrol", "squeue", "sacct", "sinfo")
T = TypeVar("T")


def is_root_variant() -> bool:
    """Real cgroups and device nodes: only where the cluster was started by root."""
    return os.environ.get("DSPORTAL_CLUSTER") == "root"


def sh(*argv: str, user: str = "", check: bool = True, timeout_s: float = 60) -> str:
    """Run a command, as ``user`` if one is named, and answer what it printed (stdout, then stderr)."""
    command = ["runuser", "-u", user, "--", *argv] if user else argv
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False, cwd="/")
    if done.returncode == -signal.SIGPIPE and argv[0] in ASK_SLURM:
        return sh(*argv, user=user, check=check, timeout_s=timeout_s)
    if check and done.returncode:
        raise AssertionError(f"{' '.join(argv)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def of_one_kernel(site: str) -> str:
    """A settings file with the kernel of Python alone: `portal doctor` starts all that there are."""
    tables = re.split(r"^(?=\[)", site, flags=re.MULTILINE)
    return "".join(one for one in tables if not one.startswith("[[kernel]]") or 'name = "python3"' in one)


def eventually(found: Callable[[], T], what: str, within_s: float = 30, every_s: float = 0.2) -> T:
    """The first true answer of ``found``; an assertion error naming ``what`` when there is none in time."""
    deadline = time.monotonic() + within_s
    while not (answer := found()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s:g} s: {what} (last answer: {answer!r})")
        time.sleep(every_s)
    return answer


async def as_portal(
    argv: Sequence[str], stdin: str = "", env: Mapping[str, str] | None = None, timeout_s: float = 10
) -> Result:
    """A runner that runs every command as the hub's own account."""
    return await run(["runuser", "-u", "portal", "--", *argv], stdin=stdin, env=env, timeout_s=timeout_s)


def start_again(job_id: str) -> None:
    """Start a requeued job without the two minutes that Slurm itself waits.

    A node that gets it again in the second in which it ended takes it for the one that was killed (slurmd compares
    whole seconds: ``slurm_cred_revoked``, 22.05), and the job fails.
    """
    eventually(lambda: sh("squeue", "-h", "-j", job_id, "-o", "%T").strip() == "PENDING", f"job {job_id} waits again")
    second = int(time.time())
    eventually(lambda: int(time.time()) > second + 1, "the second in which it ended is over")
    sh("scontrol", "update", f"JobId={job_id}", "StartTime=now")


@contextmanager
def settings(text: str) -> Iterator[Site]:
    """Meanwhile root's settings file, which the launcher reads, is another one."""
    before = SITE_FILE.read_text()
    _replace(SITE_FILE, text)
    try:
        yield load(str(SITE_FILE))
    finally:
        _replace(SITE_FILE, before)


@contextmanager
def accounts(*lines: str) -> Iterator[None]:
    """Meanwhile these lines of /etc/passwd are accounts of all hosts; rings that run at once may each have some."""
    passwd = Path("/etc/passwd")
    with passwd.open("a") as file:
        file.write("".join(f"{line}\n" for line in lines))
    try:
        yield
    finally:
        left = [line for line in passwd.read_text().splitlines() if line not in lines]
        _replace(passwd, "".join(f"{line}\n" for line in left))


def _replace(file: Path, text: str) -> None:
    """Write a file that others read all the time: nobody sees half of it."""
    new = file.with_name(f".{file.name}.new")
    new.write_text(text)
    shutil.copymode(file, new)
    new.replace(file)


def jobs_of(user: str) -> list[str]:
    """The ids of a person's jobs that have not ended."""
    return sh("squeue", "--noheader", "--format=%i", f"--user={user}").split()


def has_no_job(user: str) -> bool:
    """Whether all jobs of a person have ended."""
    return not jobs_of(user)


def home(user: str) -> Path:
    """A person's home; the name service asks slapd for it, and gives up where that is slow."""

    def places() -> list[str]:
        with suppress(KeyError):
            return [pwd.getpwnam(user).pw_dir]
        return []

    return Path(eventually(places, f"the account {user} is known")[0])
