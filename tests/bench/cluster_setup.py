"""What both hubs need in the cluster: nodes for a thousand jobs, people, and the server of the stub sessions."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

from deploy.demo import people, services

HERE = Path(__file__).resolve().parent
STUB = HERE / "stub"
STUB_PORT = 7999
FIRST_ID = 30001
SLURM_CONF = Path("/cluster/etc/slurm.conf")
CORES = 400  # of each node, on paper
SUDOERS = """
portal ALL=(%hpcusers, !root, !#0) NOPASSWD: {stub}/launch
# The stock spawner runs its own command lines as the person, with the hub's environment.
Defaults:portal !env_reset
portal ALL=(%hpcusers, !root, !#0) NOPASSWD:SETENV: /usr/bin/sbatch, /usr/bin/squeue, /usr/bin/scancel
"""


def say(text: str) -> None:
    """One line of progress."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def run(*argv: str, text: str = "", check: bool = True) -> str:
    """Run a command and answer what it printed.

    Raises:
        RuntimeError: it failed; with its output.
    """
    done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False, cwd="/")
    if check and done.returncode:
        raise RuntimeError(
            f"{' '.join(argv)[:200]}: exit status {done.returncode}\n{(done.stdout + done.stderr)[-2000:]}"
        )
    return done.stdout


def until(found: Callable[[], object], what: str, within_s: float = 60, every_s: float = 0.1) -> None:
    """Wait for a condition.

    Raises:
        TimeoutError: naming ``what``.
    """
    deadline = time.monotonic() + within_s
    while not found():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {within_s:g} s: {what}")
        time.sleep(every_s)


def prepare(persons: int) -> list[str]:
    """Everything that the benches need; the names of the people that were added."""
    enlarge_nodes()
    with Path("/etc/sudoers").open("a") as file:
        file.write(SUDOERS.format(stub=STUB))
    return add_people(persons)


def enlarge_nodes() -> None:
    """More cores on paper, and room for long queues."""
    say("nodes of 400 cores on paper, room for 40,000 jobs")
    text = re.sub(
        r"CPUs=\d+ (.*)CoresPerSocket=\d+", rf"CPUs={CORES} \1CoresPerSocket={CORES // 2}", SLURM_CONF.read_text()
    )
    SLURM_CONF.write_text(f"{text}MaxJobCount=40000\nMaxArraySize=40001\n")
    daemons = [services.SERVICES[name] for name in ("slurmctld", *(f"slurmd-{node}" for node in services.NODES))]
    services.stop_all(daemons, within_s=10)
    services.up("slurmctld")
    services.up(*(service.name for service in daemons[1:]))


def add_people(count: int) -> list[str]:
    """People of the directory, with homes; their password is their name and ``-demo``, as everybody's in the demo."""
    names = [f"u{number:04}" for number in range(1, count + 1)]
    if names:
        say(f"{count} people")
    entries = [people.person(name, FIRST_ID + number) for number, name in enumerate(names)]
    dns = "\n".join(f"member: uid={name},ou=people,{people.BASE}" for name in names)
    change = f"dn: cn=jupyter,ou=groups,{people.BASE}\nchangetype: modify\nadd: member\n{dns}\n"
    for server in ("slapd1", "slapd2") if names else ():
        change_directory(server, "ldapadd", "\n".join(entries))
        change_directory(server, "ldapmodify", change)
    for number, name in enumerate(names):
        home = Path("/home", name)
        home.mkdir(mode=0o700)
        os.chown(home, FIRST_ID + number, people.GROUP_ID)
    return names


def change_directory(server: str, program: str, ldif: str) -> None:
    """Change one LDAP server over its own socket."""
    address = f"ldapi://%2Frun%2Fslapd%2F{server}/"
    login = ["-x", "-D", f"cn=admin,{people.BASE}", "-y", "/cluster/ldap/root.pw"]
    run(program, "-H", address, *login, text=ldif)


@contextlib.contextmanager
def answering() -> Iterator[None]:
    """The server of every stub session."""
    argv = [sys.executable, "-I", str(STUB / "stub_server.py"), str(STUB_PORT), version("jupyterhub")]
    process = subprocess.Popen(argv)
    try:
        until(lambda: services.listens(STUB_PORT), "the server of the stub sessions answers")
        yield
    finally:
        process.kill()
        process.wait()


def jobs(*options: str) -> list[str]:
    """A line for each job in the queue."""
    return run("squeue", "--noheader", "--array", "--format=%i", *options).split()


def end_jobs() -> None:
    """End every job, and wait until the queue is empty."""
    everybody = ["--state=PENDING", "--state=RUNNING", "--state=SUSPENDED"]
    for state in everybody if jobs() else ():
        subprocess.run(["scancel", state], capture_output=True, check=False)
    until(lambda: not jobs(), "every job has ended", within_s=300, every_s=1)


def close_partition(name: str) -> None:
    """From now on jobs for this partition wait: sessions that are pending for the same reason, ours and stock."""
    run("scontrol", "update", f"PartitionName={name}", "State=DOWN")


def fill_queue(count: int, user: str = "bob") -> None:
    """So many held jobs of somebody, each a job of its own: a task of an array becomes one when it is changed."""
    say(f"{count} other jobs in the queue")
    argv = ["runuser", "-u", user, "--", "sbatch", "--parsable", "--hold", "--output=/dev/null", "--wrap=true"]
    job = run(*argv, f"--array=1-{count + 1}", "--partition=requestq", "--time=60").strip()
    run("scontrol", "update", f"JobId={job}_[1-{count}]", "Nice=1")
