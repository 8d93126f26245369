"""How much more time a session may be given: root's rule, beside what Slurm says of the job. Pure.

:mod:`portal.extending.program` decides by it, and nothing else does: whoever asks, for the offer or for the time
itself, asks that program.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

MARK = "dsportal-extended"  # in the job's AdminComment, which its owner cannot change: scontrol(1)
COMMENT_MAX = 400  # characters of it that are read
MOST_TIMES = 100
MOST_HOURS = 8760
_COUNT = re.compile(rf"(?:^|(?<=\s)){MARK}=(\d{{1,3}})(?=\s|$)", re.ASCII)
_LIMIT = re.compile(r"(?:(\d{1,5})-)?(?:(\d{1,4}):)?(\d{1,2}):(\d{2})\Z", re.ASCII)
_JOB = re.compile(
    r"(?P<uid>\d+)\|(?P<state>[A-Z_]+)\|(?P<partition>[A-Za-z0-9._-]+)\|(?P<node>[A-Za-z0-9._-]+)\|(?P<limit>[\d:-]+)"
    r"\|(?P<end>\d{1,11})\|(?P<reservation>[^|\n]*)\|(?P<name>[^|\n]*)\n?\Z",
    re.ASCII,
)
COLUMNS = "%U|%T|%P|%N|%l|%e|%v|%j"  # of squeue; what its owner chooses stands last
RUNNING = "RUNNING"


class Rule(NamedTuple):
    """``[extend]`` of the settings file, and its partitions; the hub knows who is in the groups."""

    times: int
    hours: int
    hours_total_max: int
    account: str
    people: tuple[str, ...]
    has_groups: bool
    partitions: frozenset[str]

    def may_be_for(self, person: str) -> bool:
        """Whether the rule can be for somebody: one for a group is taken as possible for everybody."""
        return self.has_groups or not self.people or person in self.people


class RunningJob(NamedTuple):
    """A job as ``squeue`` shows it: ``limit_min`` its time limit, ``ends_at`` in seconds since 1970."""

    uid: int
    state: str
    partition: str
    node: str
    limit_min: int
    ends_at: int
    reservation: str
    name: str


class Bounds(NamedTuple):
    """What Slurm has beside the rule.

    Attributes:
        partition_min: the partition's own limit in minutes; ``None`` = it has none.
        taken_at: when the job's node is somebody else's, by a reservation; seconds since 1970, ``None`` = not.
    """

    partition_min: int | None = None
    taken_at: int | None = None


class Allowance(NamedTuple):
    """What may be given now.

    Attributes:
        minutes: at most so many more; 0 = none.
        bound: what keeps it from being more: ``times``, ``hours``, ``total``, ``partition`` or ``reservation``.
        times_left: how often it may be done, this time included.
    """

    minutes: int
    bound: str
    times_left: int


def rule_of(tables: Mapping[str, Any]) -> Rule | None:
    """The rule of a settings file; ``None`` where no session is given more time.

    Raises:
        ValueError: it holds values of the wrong kind.
    """
    table = tables.get("extend", {})
    if not isinstance(table, dict):
        raise ValueError("[extend] is no table: see portal config check")
    rule = Rule(
        times=_number(table, "times", 0, MOST_TIMES),
        hours=_number(table, "hours", 4, MOST_HOURS),
        hours_total_max=_number(table, "hours_total_max", 24, MOST_HOURS),
        account=str(table.get("account", "slurm")),
        people=tuple(map(str, table.get("people", ()))),
        has_groups=bool(table.get("groups")),
        partitions=frozenset(str(one.get("name")) for one in tables.get("partition", ())),
    )
    return rule if rule.times else None


def _number(table: Mapping[str, Any], key: str, usual: int, most: int) -> int:
    value = table.get(key, usual)
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"extend.{key} is no number from 0 to {most}: see portal config check")
    return value


def parse_job(shown: str) -> RunningJob | None:
    """The line of :data:`COLUMNS`, with its times in seconds since 1970; ``None`` for what is no job that runs."""
    found = _JOB.match(shown)
    limit_min = _minutes(found["limit"]) if found else None
    if found is None or limit_min is None or found["state"] != RUNNING:
        return None
    reservation = "" if found["reservation"] == "(null)" else found["reservation"]
    return RunningJob(
        int(found["uid"]), found["state"], found["partition"], found["node"], limit_min, int(found["end"]), reservation,
        found["name"],
    )  # fmt: skip


def _minutes(limit: str) -> int | None:
    """``1-12:30:00``, ``12:30:00`` and ``30:00`` in minutes; what has no limit needs no more."""
    found = _LIMIT.match(limit)
    if not found:
        return None
    days, hours, minutes, _ = (int(part or 0) for part in found.groups())
    return (days * 24 + hours) * 60 + minutes


def count_of(comment: str) -> int:
    """How often the job was given more time, by its AdminComment.

    Raises:
        ValueError: that is too long to be read whole, or no text of one line.
    """
    if len(comment) >= COMMENT_MAX or not comment.isprintable():
        raise ValueError("the job's AdminComment cannot be read")
    return max(map(int, _COUNT.findall(comment)), default=0)


def counted(comment: str, count: int) -> str:
    """The AdminComment that says ``count``; what else stands there stays."""
    others = " ".join(word for word in comment.split(" ") if word and not word.startswith(f"{MARK}="))
    return f"{others} {MARK}={count}".lstrip()


def offer(rule: Rule, job: RunningJob, bounds: Bounds, count: int) -> Allowance:
    """How many minutes more the job may have; of several bounds the narrowest is named."""
    if count >= rule.times:
        return Allowance(0, "times", 0)
    room = {"hours": rule.hours * 60, "total": rule.hours_total_max * 60 - job.limit_min}
    if bounds.partition_min is not None:
        room["partition"] = bounds.partition_min - job.limit_min
    if bounds.taken_at is not None:
        room["reservation"] = (bounds.taken_at - job.ends_at) // 60
    narrowest = min(room, key=lambda name: room[name])
    return Allowance(max(0, room[narrowest]), narrowest, rule.times - count)
