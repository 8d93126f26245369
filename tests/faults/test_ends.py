"""Why a session ended: Slurm's reason is on the person's page within seconds, whatever the reason."""

from __future__ import annotations

import contextlib
import html
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest

from portal.launcher import SESSIONS
from tests.faults.hubs import FaultHub, daemon
from tests.faults.table import Row
from tests.hub.conftest import Person
from tests.inside import eventually, home, is_root_variant, jobs_of, sh

TOLD_WITHIN_S = 15.0
SLURM_CONF = Path("/cluster/etc/slurm.conf")
PREEMPTION = "PreemptType=preempt/partition_prio\nPreemptMode=CANCEL\n"
SLURM_LOOKS_WITHIN_S = 90  # slurmctld looks for jobs beyond their time twice a minute


def cancelled(job_id: str) -> None:
    """An administrator cancels the job."""
    sh("scancel", job_id)


def out_of_time(job_id: str) -> None:
    """The job's time is up."""
    sh("scontrol", "update", f"JobId={job_id}", "EndTime=now+1")  # Slurm refuses the second of the start


def out_of_memory(job_id: str) -> None:
    """Something in the job takes more memory than it has; the kernel takes the server for it."""
    (task,) = Path("/sys/fs/cgroup/memory").glob(f"slurm*/uid_*/job_{job_id}/step_batch/task_0")
    members = task / "cgroup.procs"
    for pid in members.read_text().split():
        Path(f"/proc/{pid}/oom_score_adj").write_text("1000")
    takes_all = f"echo $$ > {members}; exec {shutil.which('python3')} -c 'bytearray([1]) * (2 << 30)'"
    subprocess.run(["sh", "-c", takes_all], check=False, stderr=subprocess.DEVNULL)


def preempted(job_id: str) -> None:
    """A job of a partition with a higher priority wants the whole node."""
    node = sh("squeue", "--noheader", f"--jobs={job_id}", "--format=%N").strip()
    wants = ["--partition=hipri", "--exclusive", f"--nodelist={node}", "--time=1", "--output=/dev/null"]
    sh("sbatch", *wants, "--job-name=preemptor", "--wrap=sleep 1", user="carol")


def node_lost(job_id: str) -> None:
    """The node of a job that may not be put back goes down."""
    sh("scontrol", "update", f"JobId={job_id}", "Requeue=0")
    node = sh("squeue", "--noheader", f"--jobs={job_id}", "--format=%N").strip()
    sh("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=fault")


def died(job_id: str) -> None:
    """The server dies."""
    found = sh("pgrep", "-f", rf"^slurmstepd: \[{job_id}\.batch\]").split()
    for child in sh("pgrep", "--parent", found[0]).split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(child), signal.SIGKILL)


@dataclass(frozen=True)
class End:
    """How a session is ended, where it runs, and what its page then says."""

    fault: str
    person: str
    do: Callable[[str], None]
    words: str
    nodes: str = "gpu[01-02]"
    partition: str = "sxm2"


MEMORY = End("out of memory", "dave", out_of_memory, r"^The session used more memory than it had")
ENDS = (
    End("walltime", "alice", out_of_time, r"^The session used up its hours"),
    End("scancel by an administrator", "bob", cancelled, r"^The session was cancelled by root"),
    End("job failed", "erin", died, r"^The session's job failed by signal 9"),
    *([MEMORY] if is_root_variant() else []),  # the rootless cluster cannot limit memory: tests/run.py says so
    End("preempted", "frank", preempted, r"higher priority", nodes="gpu03"),
    End("node down", "grace", node_lost, r"^The node of this session failed", nodes="gpu04", partition="requestq"),
)


@pytest.fixture(scope="module")
def preemption() -> Iterator[None]:
    """A Slurm in which partitions with a higher priority take places from others; the demo's own does not."""
    text = SLURM_CONF.read_text()
    SLURM_CONF.write_text(text + PREEMPTION)
    daemon("restart", "slurmctld")
    yield
    SLURM_CONF.write_text(text)
    daemon("restart", "slurmctld")
    for node in sh("sinfo", "--noheader", "--Node", "--states=down,drain", "--format=%N").split():
        sh("scontrol", "update", f"NodeName={node}", "State=RESUME", check=False)


@pytest.fixture(scope="module")
def ended(hub: FaultHub, preemption: None) -> Iterator[dict[str, tuple[Person, str]]]:
    """A session for each end, all brought to their ends: the person and the job's id, by the person's name."""
    people = {end.person: Person(end.person) for end in ENDS}
    jobs: dict[str, str] = {}
    for nodes in sorted({end.nodes for end in ENDS}, reverse=True):
        there = [end for end in ENDS if end.nodes == nodes]
        with only_on(nodes), ThreadPoolExecutor(2) as pool:
            started = pool.map(lambda end: start(people[end.person], end.partition), there)
            jobs |= dict(zip([end.person for end in there], started, strict=True))
    for end in ENDS:
        end.do(jobs[end.person])
    yield {name: (people[name], jobs[name]) for name in people}
    for person in people.values():
        person.stop()
        person.http.close()
    sh("scancel", "--name=preemptor")
    eventually(lambda: not any(jobs_of(name) for name in [*people, "carol"]), "no job is left")


@contextmanager
def only_on(nodes: str) -> Iterator[None]:
    """Meanwhile jobs start on these nodes only."""
    wanted, every = (sh("scontrol", "show", "hostnames", names).split() for names in (nodes, "gpu[01-04]"))
    others = f"NodeName={','.join(name for name in every if name not in wanted)}"
    sh("scontrol", "update", others, "State=DRAIN", "Reason=sessions of one test are apart")
    yield
    sh("scontrol", "update", others, "State=RESUME")


def start(person: Person, partition: str) -> str:
    """Log in and start a session; the id of its job."""
    shutil.rmtree(home(person.name) / SESSIONS, ignore_errors=True)
    assert person.login().status_code == 200
    return person.start(gpus="0", partition=partition)


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.fault)
def test_the_page_says_why_a_session_ended(
    hub: FaultHub, ended: dict[str, tuple[Person, str]], end: End, row: Row
) -> None:
    row.fault, row.done = f"end: {end.fault}", (end.do.__doc__ or "").strip()
    person, job_id = ended[end.person]
    eventually(lambda: not is_running(job_id), "Slurm ends the job", within_s=SLURM_LOOKS_WITHIN_S)
    eventually(lambda: told(person), "the page says that it ended", within_s=2 * TOLD_WITHIN_S)

    row.seconds, row.seen = known_at(hub, person) - ended_at(job_id), told(person)
    row.orphans = len(jobs_of(person.name))
    assert re.search(end.words, row.seen)
    assert "home full" not in row.seen
    assert row.seconds <= TOLD_WITHIN_S
    assert not jobs_of(person.name)


def is_running(job_id: str) -> bool:
    """True while Slurm has not begun to end a job."""
    return "JobState=RUNNING" in sh("scontrol", "show", "job", job_id)


def ended_at(job_id: str) -> float:
    """When Slurm ended a job, in seconds since 1970."""
    found = re.findall(r"\bEndTime=(\S+)", sh("scontrol", "show", "job", job_id))
    return datetime.fromisoformat(found[0]).timestamp()


def known_at(hub: FaultHub, person: Person) -> float:
    """When the hub knew why a session ended, which is when its page said so: the time of its line in the log."""
    found = re.findall(rf"\[I (\S+ \S+) .*\] The session {person.name}\b.* ended: ", hub.log())
    return datetime.fromisoformat(found[-1]).timestamp()


def told(person: Person) -> str:
    """What the server page says of the last session's end; '' while it says nothing."""
    page = person.http.get("/hub/home").text
    found = re.search(r'role="status"><p class="dsp-words">(.*?)</p>', page, re.DOTALL)
    return html.unescape(" ".join(found[1].split())) if found else ""
