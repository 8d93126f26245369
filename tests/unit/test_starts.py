"""When a session would start, by one picture: tables, and generated clusters beside a plain scheduler."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from portal.errors import SlurmUnavailable
from portal.forecasts import words
from portal.forecasts.picture import NOTHING, STALE_S, Picture, picture
from portal.forecasts.places import Ask
from portal.forecasts.starts import PRESSES_START_WITHIN, Start, StartState
from portal.slurm.cluster import Cluster
from portal.slurm.jobs import Job
from portal.slurm.nodes import Node, Partition, Reservation
from portal.slurm.snapshot import NodesSnapshot, PartitionsSnapshot, QueueSnapshot
from portal.testing.behaviours import Behaviour, Held, PendingForever, Runs
from portal.testing.cluster_parts import CORES, GPUS, MEMORY_MIB, FakePartition, FakeReservation
from portal.testing.fake_slurm import FakeSlurm

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
GENERATED = 400


def node(name: str, used: int = 0, **more: object) -> Node:
    values: dict[str, object] = {
        "states": frozenset({"MIXED" if used else "IDLE"}),
        "partitions": ("sxm2",),
        "cores": 40,
        "cores_used": 8 * used,
        "memory_mib": 400_000,
        "memory_used_mib": 49_152 * used,
        "gpus": {"v100": 4},
        "gpus_used": {"v100": used},
    }
    return Node(name=name, **(values | more))  # type: ignore[arg-type]


def runs(number: int, on: str, ends_h: float | None, partition: str = "sxm2") -> Job:
    ends_at = None if ends_h is None else NOW + ends_h * HOUR
    return Job(str(number), "RUNNING", partition, "bob", on, ends_at=ends_at, priority=9)


def waits(number: int, partition: str = "sxm2", reason: str = "Resources", priority: int = 9) -> Job:
    return Job(str(number), "PENDING", partition, "bob", reason=reason, priority=priority)


def closes(starts_h: float, ends_h: float, *nodes: str, is_maintenance: bool = True) -> Reservation:
    return Reservation("upgrade", NOW + starts_h * HOUR, NOW + ends_h * HOUR, frozenset(nodes), is_maintenance)


def seen(nodes: list[Node], *jobs: Job, closed: tuple[Reservation, ...] = (), up: bool = True) -> Picture:
    state = "up" if up else "down"
    partition = Partition("sxm2", state, len(nodes), 24 * 60, is_hidden=False, is_default=True)
    return picture(
        QueueSnapshot(taken_at=10, jobs={job.id: job for job in jobs}),
        NodesSnapshot(taken_at=12, nodes={one.name: one for one in nodes}),
        PartitionsSnapshot(5, partitions={"sxm2": partition}, reservations={str(n): r for n, r in enumerate(closed)}),
        NOW,
    )


def asks(gpus: int, gres: str = "gpu", *, is_whole_node: bool = False) -> Ask:
    return Ask(gpus, 8 * gpus or 2, 49_152 * gpus or 8_192, gres, is_whole_node)


def start(of: Picture, gpus: int, hours: int = 8, partition: str = "sxm2", gres: str = "gpu") -> Start:
    return of.start(partition, asks(gpus, gres), hours, NOW)


def at(hours: float, ahead: int = 0) -> Start:
    return Start(StartState.AT, NOW + hours * HOUR, ahead)


now = Start(StartState.NOW, NOW)
never = Start(StartState.NEVER)


@pytest.mark.parametrize(
    ("nodes", "jobs", "gpus", "expected"),
    [
        ([node("a")], [], 4, now),
        ([node("a")], [], 5, never),
        ([node("a", 3)], [runs(1, "a", 2)], 1, now),
        ([node("a", 3)], [runs(1, "a", 2)], 2, at(2)),
        ([node("a", 2), node("b", 2)], [runs(1, "a", 5), runs(2, "b", 3)], 4, at(3)),  # all on one node
        ([node("a", 4)], [runs(1, "a", 2), runs(2, "a", 6)], 2, at(2)),  # as if they shared it alike
        ([node("a", 4)], [runs(1, "a", 2), runs(2, "a", 6)], 3, at(6)),
        ([node("a", 4)], [runs(1, "a", None)], 1, Start(StartState.WAITS)),
        ([node("a", 4)], [], 1, Start(StartState.WAITS)),  # whose jobs the hub may not see
        ([node("a", 4)], [runs(1, "a", -0.1)], 1, at(0)),  # over its time: Slurm ends it within a minute
        ([node("a", 4), node("b", 4)], [runs(1, "[a-b]", 2)], 1, Start(StartState.WAITS)),  # a list nobody can read
        ([node("gn1", 4), node("gn2", 4)], [runs(1, "gn[1-2]", 2)], 1, at(2)),
        ([node("a", cores_used=40)], [runs(1, "a", 2)], 1, at(2)),  # GPUs without a core
        ([node("a", memory_used_mib=400_000)], [runs(1, "a", 2)], 0, at(2)),
        ([node("a", states=frozenset({"IDLE", "DRAIN"}))], [], 1, never),
        ([node("a", states=frozenset({"DOWN"})), node("b", 4)], [runs(1, "b", 1)], 1, at(1)),
    ],
)
def test_a_session_starts_when_one_node_has_room_for_all_of_it(
    nodes: list[Node], jobs: list[Job], gpus: int, expected: Start
) -> None:
    assert start(seen(nodes, *jobs), gpus) == expected


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        ([waits(7)], Start(StartState.ROOM, NOW, 1)),
        ([waits(7, "sxm2,long"), waits(8, "long")], Start(StartState.ROOM, NOW, 2)),  # on the same nodes
        ([waits(7, "other")], now),
        ([waits(7, reason="JobHeldUser", priority=0), waits(8, reason="Dependency")], now),
        ([waits(7, reason="QOSMaxGRESPerUser"), waits(8, reason="AssocGrpGRES")], now),
    ],
)
def test_now_is_said_only_where_no_job_is_in_line_for_the_same_nodes(jobs: list[Job], expected: Start) -> None:
    nodes = [node("a", partitions=("sxm2", "long")), node("b", partitions=("other",))]

    assert start(seen(nodes, *jobs), 2) == expected


def test_who_waits_reads_how_many_are_ahead_and_about_when() -> None:
    full = seen([node("a", 4)], runs(1, "a", 3), waits(7), waits(8))

    assert start(full, 1) == at(3, ahead=2)
    assert words.start(start(full, 1)) == ("about ", NOW + 3 * HOUR, ", 2 jobs ahead")
    assert words.start(Start(StartState.WAITS, ahead=1)) == ("waits: 1 job ahead",)


@pytest.mark.parametrize(
    ("hours", "expected"),
    [
        (4, now),
        (5, Start(StartState.AFTER, NOW + 7 * HOUR)),  # it would end when the maintenance has begun
        (8, Start(StartState.AFTER, NOW + 7 * HOUR)),
        (25, Start(StartState.TOO_LONG)),
    ],
)
def test_a_session_that_is_not_over_before_a_maintenance_starts_after_it(hours: int, expected: Start) -> None:
    assert start(seen([node("a")], closed=(closes(5, 7, "a"),)), 1, hours) == expected


def test_a_session_starts_between_two_maintenances_only_where_it_fits() -> None:
    closed = (closes(1, 2, "a"), closes(6, 9, "a", is_maintenance=False))

    assert start(seen([node("a")], closed=closed), 1, 3).at == NOW + 2 * HOUR
    assert start(seen([node("a")], closed=closed), 1, 8) == Start(
        StartState.AFTER, NOW + 9 * HOUR, is_maintenance=False
    )
    assert start(seen([node("a"), node("b")], closed=closed), 1, 8) == now  # another node stays open


def test_while_a_maintenance_runs_nothing_starts_before_it_ends() -> None:
    reserved = node("a", states=frozenset({"IDLE", "MAINTENANCE", "RESERVED"}))

    assert start(seen([reserved], closed=(closes(-1, 2, "a"),)), 1) == Start(StartState.AFTER, NOW + 2 * HOUR)
    assert start(seen([reserved]), 1) == never  # reserved, and by nothing that is known


def test_a_kind_of_gpu_is_that_kind_and_no_other() -> None:
    of = seen([node("a", gpus={"a100": 2, "v100": 2}, gpus_used={"a100": 2, "v100": 0}, cores_used=8)])

    assert start(of, 2, gres="gpu:v100") == now
    assert start(of, 1, gres="gpu:a100") == Start(StartState.WAITS)
    assert start(of, 3, gres="gpu:v100") == never
    assert start(of, 1, gres="gpu:h100") == never
    assert (of.free("sxm2", "gpu"), of.free("sxm2", "gpu:a100")) == ((2, 4), (0, 2))


def test_what_the_picture_does_not_show_is_not_known() -> None:
    of = seen([node("a")])

    assert start(of, 1, partition="other") == start(of, 1, gres="shard") == Start(StartState.UNKNOWN)
    assert of.free("other", "gpu") is of.free("sxm2", "shard") is None
    assert start(seen([node("a")], up=False), 1) == Start(StartState.CLOSED)


def test_a_session_that_takes_a_whole_node_waits_for_an_empty_one() -> None:
    busy = seen([node("a", 1)], runs(1, "a", 2))

    assert busy.start("sxm2", asks(1, is_whole_node=True), 8, NOW) == at(2)
    assert busy.start("sxm2", asks(1), 8, NOW) == now


def test_a_picture_that_is_old_or_that_slurm_has_not_confirmed_is_not_told_as_now() -> None:
    of = seen([node("a")])

    assert of.taken_at == 10  # of the queue, which is older than the nodes
    assert of.is_known(10 + STALE_S)
    assert not of.is_known(11 + STALE_S)
    assert not NOTHING.is_known(0)
    assert not replace(of, is_silent=True).is_known(10)
    queue = QueueSnapshot(taken_at=1)
    nodes = NodesSnapshot(taken_at=1)
    error = SlurmUnavailable("")
    assert picture(queue, replace(nodes, error=error), PartitionsSnapshot(1), NOW).is_silent
    assert picture(queue, nodes, PartitionsSnapshot(1, error), NOW).is_silent, "a maintenance may have come"
    assert not picture(queue, nodes, PartitionsSnapshot(), NOW).is_known(1)
    assert picture(queue, nodes, PartitionsSnapshot(1), NOW).is_known(1)


# -- beside a plain scheduler ------------------------------------------------------------------------------


class Cramped(FakeSlurm):
    """A cluster with some state, and a scheduler that starts a job where it fits, and nobody's before those in line."""

    def free_on(self, name: str) -> tuple[int, int, int]:
        """GPUs, cores and memory of a node that its jobs have not."""
        here = [job for job, status in self.known() if status.is_running and job.node(status) == name]
        return (
            GPUS - sum(job.gpus for job in here),
            CORES - sum(job.cores for job in here),
            MEMORY_MIB - sum(job.memory_mib for job in here),
        )

    def would_start(self, partition: str, ask: Ask, hours: int) -> bool:
        """Whether a job that is submitted within two minutes starts at once."""
        nodes = self.partitions[partition].nodes
        for job, status in self.known():
            is_in_line = status.state == "PENDING" and not status.held and status.reason in ("Resources", "Priority")
            if is_in_line and set(job.partition.nodes) & set(nodes):
                return False
        ends_at = self.now + timedelta(hours=hours) + PRESSES_START_WITHIN
        shut = {name for one in self.reservations for name in one.nodes if one.starts_at < ends_at}
        wanted = (ask.gpus, ask.cores, ask.memory_mib)
        open_nodes = [name for name in nodes if name not in shut]
        return any(all(f >= w for f, w in zip(self.free_on(n), wanted, strict=True)) for n in open_nodes)


def cramped(chance: random.Random) -> Cramped:
    """A cluster with jobs that run and wait, and now and then a maintenance that comes."""
    names = tuple(f"gn{number}" for number in range(1, chance.randint(2, 6)))
    cut = chance.randint(1, len(names))
    slurm = Cramped(
        [FakePartition("gpu", names), FakePartition("part", names[:cut]), FakePartition("rest", names[cut - 1 :])]
    )
    for _ in range(chance.randint(0, 14)):
        name = chance.choice(["gpu", "part", "rest"])
        # FakeSlurm starts a job on the first node of its partition, so each gets a partition of one node here.
        place = chance.choice(slurm.partitions[name].nodes)
        gpus = chance.randint(0, 3)
        size = {"cpus-per-task": str(chance.randint(1, 12)), "mem": f"{chance.randint(1, 120)}000M"}
        options = {"partition": name, "gres": f"gpu:{gpus}", "time": str(chance.randint(1, 900)), **size}
        free = slurm.free_on(place)
        fits = gpus <= free[0] and int(size["cpus-per-task"]) <= free[1] and int(size["mem"][:-1]) <= free[2]
        waiting: list[Behaviour] = [PendingForever(), PendingForever("Priority"), Held()]
        slurm.next_job(Runs() if fits else chance.choice(waiting))
        job = slurm.take("bob", options)
        job.partition = FakePartition(name, (place,), 24 * 60)
    if chance.random() < 0.4:
        begins = slurm.now + timedelta(minutes=chance.randint(10, 900))
        shut = tuple(chance.sample(names, chance.randint(1, len(names))))
        slurm.reservations.append(FakeReservation("upgrade", begins, begins + 2 * HOUR, shut))
    return slurm


async def picture_of(slurm: FakeSlurm) -> tuple[Picture, datetime]:
    """The picture that the hub has of it, through Slurm's own texts."""
    cluster = Cluster("/opt/portal-launch", run=slurm, clock=slurm.clock)
    local = slurm.now.astimezone()
    return picture(await cluster.queue(), await cluster.nodes(), await cluster.partitions(), local), local


@pytest.mark.parametrize("seed", range(8))
async def test_now_is_never_promised_where_the_cluster_would_not_start_it(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  nothing is kept secret by it
    said: Mapping[str, list[int]] = {"now": [], "other": []}
    for number in range(GENERATED // 8):
        slurm = cramped(chance)
        of, moment = await picture_of(slurm)
        for name in slurm.partitions:
            for gpus in range(GPUS + 1):
                ask = asks(gpus)
                hours = chance.randint(1, 20)
                told = of.start(name, ask, hours, moment)
                promised = told.state is StartState.NOW
                said["now" if promised else "other"].append(number)
                assert not promised or slurm.would_start(name, ask, hours), (seed, number, name, gpus, hours)
    assert len(set(said["now"])) > 5, "the clusters are too full to show anything"
    assert len(set(said["other"])) > 5


async def test_what_the_fake_shows_as_free_is_what_its_jobs_have_left() -> None:
    slurm = FakeSlurm()
    slurm.take("bob", {"partition": "sxm2", "gres": "gpu:3", "cpus-per-task": "8", "mem": "10000M", "time": "120"})
    of, moment = await picture_of(slurm)

    assert of.free("sxm2", "gpu") == (9, 12)
    assert of.start("iq", asks(4), 2, moment).state is StartState.NOW
