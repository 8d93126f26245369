"""Let ``srun`` start Horovod: each task of a job step becomes one rank, on one node or on many.

Horovod's own launchers reach other nodes over ssh, which clusters seldom allow. Slurm starts processes everywhere by
itself; what is missing is a meeting point. :func:`prepare` gives it: rank 0 serves Horovod's rendezvous and writes its
address into a file that all tasks see, and every rank gets the ``HOROVOD_*`` variables that a launcher would set.

    import horovod_srun
    import horovod.tensorflow as hvd          # or horovod.torch

    horovod_srun.prepare()                    # before init; under horovodrun or mpirun it changes nothing
    hvd.init()

and in the job script ``srun --kill-on-bad-exit=1 python train.py``. Needs Horovod 0.28 with Gloo; the variables of
Slurm are those of srun(1), version 22.05.

Ranks find and trust each other by the network alone, as with every launcher of Horovod: train on a network that only
the cluster reaches, and on nodes that you do not share with people whom you do not trust.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import sys
import time
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path

MEETING_S = 120.0  # how long the tasks wait for rank 0 to say where it is
# A rank that is lost without a word must not hold the others for ever: Horovod gives up after these.
LIMITS = {"HOROVOD_STALL_CHECK_TIME_SECONDS": "30", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "120"}
# Set by horovodrun, by mpirun, and by srun --mpi=pmix: then somebody else has arranged everything.
OTHER_LAUNCHERS = ("HOROVOD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK")


class LaunchError(RuntimeError):
    """The ranks of a job step cannot be brought together; the message says why and what to do."""


@dataclass(frozen=True)
class Task:
    """One task of a job step.

    Arguments:
        rank, size: its number among all tasks, and how many there are.
        local_rank, node: its number on its node, and the number of that node.
        tasks_on: how many tasks each node has, in the order of the nodes.
    """

    rank: int
    size: int
    local_rank: int
    node: int
    tasks_on: tuple[int, ...]

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> Task:
        """The task that srun started with these variables.

        Raises:
            LaunchError: they do not tell it.
        """
        try:
            names = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NODEID")
            rank, size, local_rank, node = (int(variables[name]) for name in names)
            layout = variables.get("SLURM_STEP_TASKS_PER_NODE") or variables["SLURM_TASKS_PER_NODE"]
        except (KeyError, ValueError) as error:
            raise LaunchError(f"srun did not say which task this is ({error}): start the script with srun") from error
        task = cls(rank, size, local_rank, node, tasks_per_node(layout))
        if sum(task.tasks_on) != size or not node < len(task.tasks_on) or not local_rank < task.tasks_on[node]:
            raise LaunchError(f"task {rank} of {size} on node {node} does not fit the layout {layout!r} of this step")
        return task

    @property
    def variables(self) -> dict[str, str]:
        """The place of this rank, as Horovod wants to be told. "cross" counts ranks with this number on their node."""
        with_it = [node for node, tasks in enumerate(self.tasks_on) if self.local_rank < tasks]
        places = {
            "RANK": self.rank, "SIZE": self.size,
            "LOCAL_RANK": self.local_rank, "LOCAL_SIZE": self.tasks_on[self.node],
            "CROSS_RANK": with_it.index(self.node), "CROSS_SIZE": len(with_it),
        }  # fmt: skip
        return {"HOROVOD_HOSTNAME": f"node{self.node}", **{f"HOROVOD_{key}": str(n) for key, n in places.items()}}


def tasks_per_node(text: str) -> tuple[int, ...]:
    """Slurm's short form of a layout: ``2(x3),1`` → ``(2, 2, 2, 1)``.

    Raises:
        LaunchError: it is not one.
    """
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part)
        if not match:
            raise LaunchError(f"{text!r} is not a layout of tasks such as '2(x3),1'")
        found += [int(match[1])] * int(match[2] or 1)
    return tuple(found)


def prepare(variables: MutableMapping[str, str] = os.environ, folder: Path | None = None) -> bool:
    """Make this task ready for ``hvd.init()``, when srun started it; whether it did.

    Arguments:
        variables: the environment, which is read and filled.
        folder: where rank 0 leaves its address; all tasks must see it. Default: where the step was started.

    Raises:
        LaunchError: the tasks do not find each other.
    """
    for name, value in LIMITS.items():
        variables.setdefault(name, value)
    if any(name in variables for name in OTHER_LAUNCHERS):
        return False
    variables.update(HOROVOD_CONTROLLER="gloo", HOROVOD_CPU_OPERATIONS="gloo")  # also for one process by itself
    if "SLURM_STEP_ID" not in variables or int(variables.get("SLURM_NTASKS", "1")) == 1:
        return False
    task = Task.of(variables)
    step = f"{variables['SLURM_JOB_ID']}.{variables['SLURM_STEP_ID']}.{variables.get('SLURM_RESTART_COUNT', '0')}"
    meeting = (folder or Path.cwd()) / f".horovod-{step}"
    if task.rank == 0:
        announce(meeting, f"{address(variables)} {serve(task)}")
    host, port = wait_for(meeting)
    variables.update(task.variables)
    variables.update(HOROVOD_GLOO_RENDEZVOUS_ADDR=host, HOROVOD_GLOO_RENDEZVOUS_PORT=port)
    return True


def serve(task: Task) -> int:
    """Start Horovod's rendezvous in a thread of this process; its port."""
    from horovod.runner.common.util.hosts import SlotInfo
    from horovod.runner.http.http_server import RendezvousServer

    server = RendezvousServer()
    port = server.start()
    plan = []
    for node, tasks in enumerate(task.tasks_on):
        for local_rank in range(tasks):
            cross_size = sum(local_rank < other for other in task.tasks_on)
            plan.append(SlotInfo(f"node{node}", len(plan), local_rank, 0, task.size, tasks, cross_size))
    server.init(plan)
    return int(port)


def address(variables: Mapping[str, str]) -> str:
    """An address of this node that the other nodes of the job can reach.

    A host's own name often leads to 127.0.1.1 (Debian's /etc/hosts), which means another host everywhere else. Then it
    is the address that this node sends from.

    Raises:
        LaunchError: none is known.
    """
    tried = [name for name in (variables.get("SLURMD_NODENAME", ""), socket.gethostname()) if name]
    found = [*(one for name in tried for one in _addresses(name)), *_sends_from()]
    if not found:
        raise LaunchError(f"no address is known for {' or '.join(tried)}: ask your administrator")
    own = [one for one in found if one.startswith("127.")]
    if len(own) == len(found) and int(variables.get("SLURM_NNODES", "1")) > 1:
        print(
            f"{' and '.join(dict.fromkeys(tried))}: the only known address is {own[0]}, which nodes on another host "
            "cannot reach. If these ranks wait for each other, ask your administrator for a name of this node with its "
            "address in the cluster",
            file=sys.stderr,
            flush=True,
        )
    return next((one for one in found if one not in own), found[0])


def _addresses(name: str) -> list[str]:
    """The IPv4 addresses of a name; none when nobody knows it."""
    try:
        return list(dict.fromkeys(str(one[4][0]) for one in socket.getaddrinfo(name, None, socket.AF_INET)))
    except OSError:
        return []


def _sends_from() -> list[str]:
    """The address that this node would send from to the world outside, if it has a way there; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        try:
            way.connect(("198.51.100.1", 9))  # RFC 5737: nobody's
        except OSError:
            return []
        return [str(way.getsockname()[0])]


def announce(meeting: Path, text: str) -> None:
    """Write the file in one go: nobody reads half of it; and anew, for others may have left a link of its name."""
    beside = meeting.with_name(f"{meeting.name}.{secrets.token_hex(8)}")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "w") as file:
        file.write(text)
    beside.rename(meeting)


def wait_for(meeting: Path, within_s: float = MEETING_S) -> tuple[str, str]:
    """Rank 0's address and port.

    Raises:
        LaunchError: it did not come in time.
    """
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        list(meeting.parent.iterdir())  # makes NFS look again
        if text := own_text(meeting):
            host, port = text.split()
            return host, port
        time.sleep(0.1)
    raise LaunchError(
        f"rank 0 did not write {meeting} within {within_s:g} s: has it ended, or is this folder not on all nodes?"
    )


def own_text(meeting: Path) -> str:
    """What this person has written there; '' where nothing lies, or a folder, or a file or a link of somebody else."""
    try:
        with open(meeting, opener=_of_nobody_else) as file:
            return file.read() if os.fstat(file.fileno()).st_uid == os.getuid() else ""
    except OSError:
        return ""


def _of_nobody_else(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def clean(variables: Mapping[str, str] = os.environ, folder: Path | None = None) -> None:
    """Take this job's meeting files away; rank 0 calls it when all have met."""
    for file in (folder or Path.cwd()).glob(f".horovod-{variables.get('SLURM_JOB_ID', '?')}.*"):
        file.unlink(missing_ok=True)
