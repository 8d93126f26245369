"""What can be foretold of a waiting job: its place in the line, what is free, and what closes the cluster."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from portal.slurm import forecast
from portal.slurm.jobs import Job
from portal.slurm.nodes import Node, Reservation

NOW = datetime(2026, 11, 21, 12)
HOUR = timedelta(hours=1)


def waiting(job_id: str, priority: int = 10, partition: str = "sxm2", reason: str = "Priority", **more: str) -> Job:
    return Job(
        job_id, more.get("state", "PENDING"), partition, "alice", more.get("node", ""), reason, priority=priority
    )


def node(name: str, gpus: int = 4, used: int = 0, kind: str = "v100", **more: object) -> Node:
    values: dict[str, object] = {
        "states": frozenset({"IDLE"}),
        "partitions": ("sxm2", "long"),
        "cores": 40,
        "cores_used": 8 * used,
        "memory_mib": 400_000,
        "memory_used_mib": 50_000 * used,
    }
    return Node(name=name, gpus={kind: gpus}, gpus_used={kind: used}, **(values | more))  # type: ignore[arg-type]


def test_a_job_is_behind_those_of_higher_priority_and_those_of_the_same_that_came_before() -> None:
    job = waiting("100", 10)
    ahead = [waiting("200", 11), waiting("99", 10), waiting("9_[1-4]", 10)]
    behind = [waiting("1", 9), waiting("101", 10), waiting("100_2", 10)]

    assert forecast.position(job, [*behind, job, *ahead]) == 4
    assert forecast.position(job, [job]) == 1


@pytest.mark.parametrize(
    "other",
    [
        waiting("1", 99, "hipri"),
        waiting("1", 99, reason="JobHeldUser"),
        waiting("1", 99, reason="job requeued in held state"),
        waiting("1", 99, reason="Dependency"),
        waiting("1", 99, reason="BeginTime"),
        waiting("1", 0),
        waiting("1", 99, state="RUNNING", node="gpu01"),
        waiting("1", 99, state="CONFIGURING", node="gpu01"),
        waiting("1", 99, state="COMPLETED"),
    ],
)
def test_who_takes_no_place_in_the_line_is_not_ahead(other: Job) -> None:
    assert forecast.position(waiting("100"), [other]) == 1


def test_a_held_job_is_behind_no_other_held_job() -> None:
    assert forecast.position(waiting("100", 0, reason="JobHeldUser"), [waiting("1", 0), waiting("2", 5)]) == 2


def test_partitions_share_a_line_where_a_job_may_start_in_both() -> None:
    assert forecast.position(waiting("5", partition="long"), [waiting("1", partition="sxm2,long")]) == 2
    assert forecast.position(waiting("5", partition="sxm2,long"), [waiting("1", partition="long")]) == 2


def test_a_job_that_does_not_wait_has_no_place() -> None:
    assert forecast.position(waiting("5", state="RUNNING", node="gpu01"), [waiting("1")]) == 0
    assert forecast.position(waiting("5", state="CONFIGURING", node="gpu01"), [waiting("1")]) == 0


def test_what_is_free_is_counted_on_the_usable_nodes_of_the_partition() -> None:
    nodes = [
        node("gpu01", used=3),
        node("gpu02", used=2),
        node("gpu03", kind="a100", used=3),
        node("gpu04", states=frozenset({"IDLE", "DRAIN"})),
        node("gpu05", partitions=("other",)),
        node("gpu06", used=1, cores_used=40),
    ]

    found = forecast.free(nodes, "sxm2")

    assert found.gpus == {"v100": 3, "a100": 1}
    assert (found.cores, found.gpus_on_one_node) == (16 + 24 + 16 + 0, 2)
    assert found.memory_mib == 250_000 + 300_000 + 250_000 + 350_000


def test_nothing_is_free_where_there_is_no_node() -> None:
    assert forecast.free([], "sxm2") == forecast.Free({}, 0, 0, 0)
    assert forecast.free([node("gpu01", used=4)], "sxm2").gpus == {"v100": 0}


def reservation(name: str, starts_h: float, ends_h: float, *nodes: str, is_maintenance: bool = True) -> Reservation:
    return Reservation(name, NOW + starts_h * HOUR, NOW + ends_h * HOUR, frozenset(nodes), is_maintenance)


def test_the_next_maintenance_is_the_first_that_runs_or_begins_soon_enough() -> None:
    past, late = reservation("past", -5, -1, "gpu01"), reservation("late", 30, 40, "gpu01")
    soon, sooner = reservation("soon", 9, 12, "gpu01"), reservation("sooner", 5, 6, "gpu02")
    lesson = reservation("lesson", 1, 2, "gpu01", is_maintenance=False)
    everything = [late, soon, lesson, sooner, past]

    assert forecast.next_maintenance(everything, NOW, 24 * HOUR) == sooner
    assert forecast.next_maintenance(everything, NOW, 24 * HOUR, nodes={"gpu01", "gpu03"}) == soon
    assert forecast.next_maintenance(everything, NOW, 4 * HOUR) is None
    assert forecast.next_maintenance([reservation("now", -1, 1, "gpu01")], NOW, HOUR) is not None
    assert forecast.next_maintenance([reservation("over", -1, 0, "gpu01")], NOW, HOUR) is None
