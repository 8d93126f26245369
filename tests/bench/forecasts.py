"""How far off forecasts are on a generated day of contention: the portal's, and Slurm's kind of estimate beside it.

Both look at the same moment at the same queue and know the same: what each job asked for, and its time limit. Ours is
the form's own code on a picture as the hub makes it, in which what each job of a node uses is not told; the other is
the scheduler's plan with this session in the queue, which is what ``squeue --start`` would show.
"""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, datetime, timedelta

from portal.forecasts.compared import ComparedStart, ErrorFigures, figures
from portal.forecasts.picture import Picture, picture
from portal.forecasts.places import Ask
from portal.forecasts.starts import StartState
from portal.slurm.jobs import Job
from portal.slurm.nodes import Node
from portal.slurm.snapshot import NodesSnapshot, PartitionsSnapshot, QueueSnapshot
from tests.bench.contention import DAY_S, GPUS, NODES, SHARES, WARM_UP_S, Day, DayJob, events, work

BEGIN = datetime(2026, 11, 23, tzinfo=UTC)
CORES = 8  # of one share
MEMORY_MIB = 49_152
PARTITION = "gpu"
WAITED_S = 60


def run(options: Namespace) -> dict[str, object]:
    """One day for each seed; the figures of all of them together."""
    seen: list[ComparedStart] = []
    for seed in range(options.seed, options.seed + options.days):
        seen += simulated(seed, options.sessions)
    return {"ours": _figures(seen, is_ours=True), "stock": {} if options.only else _figures(seen, is_ours=False)}


def simulated(seed: int, sessions: int) -> list[ComparedStart]:
    """What was said of the sessions of one day after the first half, and when they did start."""
    day = Day()
    asked: list[tuple[DayJob, ComparedStart]] = []
    jobs = work(seed, sessions)
    for job in events(day, jobs):
        if job.submitted >= WARM_UP_S and len(asked) < sessions:
            asked.append((job, _said(day, job)))
        if day.now > WARM_UP_S + DAY_S and all(one.started >= 0 for one, _ in asked):
            break
    return [
        ComparedStart(said.state, said.at, said.submitted_at, said.slurm_at, _seconds(job.started))
        for job, said in asked
        if job.started >= 0
    ]


def _said(day: Day, job: DayJob) -> ComparedStart:
    now = _moment(day.now)
    ask = Ask(job.gpus, job.shares * CORES, job.shares * MEMORY_MIB)
    start = _picture(day).start(PARTITION, ask, job.limit_s // 3600, now)
    at = int(start.at.timestamp()) if start.at else 0
    day.waiting.append(job)
    day.waiting.sort(key=lambda one: one.rank)
    minute, _ = day.plan(job).get(job, (None, -1))
    day.waiting.remove(job)
    planned = 0 if minute is None else int((now + timedelta(minutes=minute)).timestamp())
    return ComparedStart(start.state.value, at, int(now.timestamp()), planned)


def _moment(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def _seconds(seconds: float) -> int:
    return int(_moment(seconds).timestamp())


def _picture(day: Day) -> Picture:
    """The picture as the hub makes it of Slurm's listings in this moment."""
    jobs = {}
    for job in (*day.running, *day.waiting):
        runs = job.node >= 0
        jobs[str(job.number)] = Job(
            id=str(job.number),
            state="RUNNING" if runs else "PENDING",
            partition=PARTITION,
            user="somebody",
            node=_name(job.node) if runs else "",
            reason="" if runs else "Priority",
            submitted_at=_moment(job.submitted),
            starts_at=_moment(job.started) if runs else None,
            ends_at=_moment(job.started + job.limit_s) if runs else None,
            priority=max(1, int(4_000_000 - job.rank)),
        )
    nodes = {_name(number): _node(number, *free) for number, free in enumerate(day.free)}
    return picture(
        QueueSnapshot(taken_at=day.now, jobs=jobs),
        NodesSnapshot(taken_at=day.now, nodes=nodes),
        PartitionsSnapshot(taken_at=day.now, partitions={}),
        _moment(day.now),
    )


def _name(number: int) -> str:
    return f"gn{number:03}"


def _node(number: int, gpus: int, shares: int) -> Node:
    used = SHARES - shares
    return Node(
        name=_name(number),
        states=frozenset({"MIXED"}),
        partitions=(PARTITION,),
        cores=SHARES * CORES,
        cores_used=used * CORES,
        memory_mib=SHARES * MEMORY_MIB,
        memory_used_mib=used * MEMORY_MIB,
        gpus={"a100": GPUS},
        gpus_used={"a100": GPUS - gpus},
    )


def _figures(seen: list[ComparedStart], *, is_ours: bool) -> dict[str, object]:
    """One side's figures, in minutes."""

    def told(one: ComparedStart) -> int:
        return one.moment if is_ours else one.slurms_moment

    def error(one: ComparedStart) -> int:
        return abs(one.started_at - told(one))

    named = [one for one in seen if told(one)]
    waited = [one for one in seen if one.started_at - one.submitted_at > WAITED_S]
    both = [one for one in waited if one.moment and one.slurms_moment]
    now = [one for one in named if (one.state == StartState.NOW if is_ours else told(one) == one.submitted_at)]
    held = [one for one in now if one.started_at - one.submitted_at <= WAITED_S]
    groups = {"": named, "_waited": [one for one in waited if told(one)], "_both": both}
    return {
        "nodes": NODES,
        "starts": len(seen),
        "waited": len(waited),
        "named": len(named),
        **{name: value for key, group in groups.items() for name, value in _rows(key, group, error).items()},
        "now": len(now),
        "now_held_percent": round(100 * len(held) / len(now), 1) if now else None,
    }


def _rows(key: str, group: list[ComparedStart], error: object) -> dict[str, object]:
    assert callable(error)
    found: ErrorFigures = figures([error(one) for one in group])
    known = bool(found.starts)
    return {
        f"count{key}": found.starts,
        f"median{key}_min": round(found.median_s / 60, 1) if known else None,
        f"p90{key}_min": round(found.within_s / 60, 1) if known else None,
    }
