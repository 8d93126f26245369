"""What the form says of each choice: free GPUs, when it would start, and how many hours it may have. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

from portal.forecasts import hours, words
from portal.forecasts.hours import HoursLimit
from portal.forecasts.picture import Picture
from portal.forecasts.places import ANY_GPU, Ask
from portal.forecasts.starts import UNKNOWN, Start, StartState
from portal.forecasts.words import Text
from portal.language.texts import _
from portal.request import SessionRequest
from portal.settings.session_tables import PartitionTable
from portal.site import Site

# Options of sbatch that say nothing of where and when a job may run; of any other nobody here knows that.
_HARMLESS = ("--mail-", "--signal", "--nice", "--wckey", "--acctg-freq", "--profile", "--propagate", "--switches")
_OF_WHERE = ("reservation", "constraint", "licenses")


@dataclass(frozen=True)
class StartGroup:
    """Numbers of GPUs that start alike, from the first to the last of them."""

    first: int
    last: int
    start: Start

    @property
    def title(self) -> str:
        """``0–2 GPUs``."""
        return words.gpus(self.first, self.last)

    @property
    def words(self) -> Text:
        """When they start."""
        return words.start(self.start)

    def as_json(self) -> dict[str, object]:
        """The same for a script."""
        return {
            "gpus": [self.first, self.last],
            "title": self.title,
            "state": self.start.state,
            "at": self.start.at.isoformat() if self.start.at else None,
            "ahead": self.start.ahead,
            "words": words.as_json(self.words),
        }


@dataclass(frozen=True)
class KindOutlook:
    """One kind of GPU in one partition: what is free of it, and the start of each number of GPUs, from none up."""

    partition: str
    kind: str
    title: str
    free: tuple[int, int] | None
    starts: tuple[Start, ...]

    @cached_property
    def groups(self) -> tuple[StartGroup, ...]:
        """The numbers of GPUs that start alike, from none up."""
        found: list[StartGroup] = []
        for gpus, start in enumerate(self.starts):
            if found and found[-1].start == start:
                found[-1] = replace(found[-1], last=gpus)
            else:
                found.append(StartGroup(gpus, gpus, start))
        return tuple(found)


@dataclass(frozen=True)
class FormOutlook:
    """What a form shows of the cluster.

    Attributes:
        age_s: of the picture; ``None`` where there is none.
        is_known: whether it may be told as what is now.
        chosen: when what is chosen would start.
        fewer: a smaller number of GPUs that would start now, where what is chosen would wait; 0 = none.
        limits: by partition.
        is_late: nothing was counted in time; an open page looks again by itself.
        slurm_at: when Slurm itself would start what is chosen; ``None`` where it was not asked, or has not said it.
        slurm_words: the same in words.
    """

    age_s: int | None
    is_known: bool
    is_silent: bool
    request: SessionRequest
    rows: tuple[KindOutlook, ...]
    chosen: Start
    fewer: int
    limits: Mapping[str, HoursLimit]
    is_late: bool = False
    slurm_at: datetime | None = None
    slurm_words: Text = ()

    def with_slurms(self, at: datetime | None, now: datetime) -> FormOutlook:
        """The same with Slurm's own word."""
        return replace(self, slurm_at=at, slurm_words=words.of_slurm(at, now)) if at else self

    @property
    def as_of(self) -> str:
        """How old the picture is, in words."""
        return _(words.LATE) if self.is_late else words.as_of(self.age_s, self.is_known, self.is_silent)

    @property
    def choice(self) -> Text:
        """What is chosen, and when it would start: by the picture, and by Slurm itself where it has said so."""
        return (*words.choice(self.request, self.chosen), *self.slurm_words)

    @property
    def fewer_words(self) -> str:
        """That a smaller number of GPUs would start now; ``""`` where none would."""
        return words.fewer(self.request, self.fewer) if self.fewer else ""

    @property
    def fewer_title(self) -> str:
        """What the link to that number says."""
        return _("Choose {gpus}").format(gpus=words.gpus(self.fewer, self.fewer)) if self.fewer else ""

    def has_kinds(self, partition: str) -> bool:
        """Whether a partition has several kinds of GPUs, each with a row of its own."""
        return sum(row.partition == partition for row in self.rows) > 1

    def free_in(self, partition: str) -> str:
        """The free GPUs of a partition, of each kind, in words; ``""`` where it offers none."""
        rows = [row for row in self.rows if row.partition == partition and len(row.starts) > 1]
        return words.free([(row.title if len(rows) > 1 else "", row.free) for row in rows])

    def as_json(self) -> dict[str, object]:
        """The same for a script."""
        return {
            "age_s": self.age_s,
            "is_known": self.is_known,
            "as_of": self.as_of,
            "partitions": {
                name: {
                    "free": self.free_in(name),
                    "hours_max": limit.most,
                    "hours": words.as_json(limit.words),
                }
                for name, limit in self.limits.items()
            },
            "rows": [_row_json(row) for row in self.rows],
            "hours": self.request.hours,
            "choice": {
                "state": self.chosen.state,
                "slurm_at": self.slurm_at.isoformat() if self.slurm_at else None,
                "words": words.as_json(self.choice),
            },
            "fewer": {"gpus": self.fewer, "words": self.fewer_words, "title": self.fewer_title},
        }


def _row_json(row: KindOutlook) -> dict[str, object]:
    return {
        "partition": row.partition,
        "gpu": row.kind,
        "free": row.free[0] if row.free else None,
        "total": row.free[1] if row.free else None,
        "starts": [group.as_json() for group in row.groups],
    }


def form_outlook(
    site: Site,
    settings: Site,
    offered: Sequence[PartitionTable],
    request: SessionRequest,
    picture: Picture,
    clock: float,
    now: datetime,
    instead_of: str = "",
) -> FormOutlook:
    """What the form of one person says.

    Arguments:
        site: as this person has it; ``settings`` as the file says.
        offered: the partitions of the form, in its order.
        request: what is chosen in the form, one of what is offered.
        clock: the time on the clock of the snapshots; ``now`` is the time of day.
        instead_of: the job that waits for this session already: what is chosen takes its place.
    """
    is_known = picture.is_known(clock)
    age_s = None if picture.taken_at == float("-inf") else max(0, round(clock - picture.taken_at))
    look = _Look(site, request, picture if is_known else None, now, instead_of)
    rows = tuple(row for one in offered for row in look.rows(one))
    mine = next((row for row in rows if (row.partition, row.kind) == look.place_of_choice), None)
    chosen = mine.starts[request.gpus] if mine and request.gpus < len(mine.starts) else UNKNOWN
    return FormOutlook(
        age_s=age_s,
        is_known=is_known,
        is_silent=picture.is_silent,
        request=request,
        rows=rows,
        chosen=chosen,
        fewer=_fewer(mine.starts[: request.gpus], chosen) if mine else 0,
        limits={one.name: look.limit(settings, one) for one in offered},
    )


def _fewer(smaller: Sequence[Start], chosen: Start) -> int:
    """The most GPUs below the chosen number that would start now, where those would wait."""
    if chosen.state in (StartState.NOW, StartState.UNKNOWN):
        return 0
    return max((gpus for gpus, start in enumerate(smaller) if gpus and start.state is StartState.NOW), default=0)


@dataclass(frozen=True)
class _Look:
    """One person's look at a picture; ``None`` is one that says nothing of now."""

    site: Site
    request: SessionRequest
    picture: Picture | None
    now: datetime
    instead_of: str

    @property
    def place_of_choice(self) -> tuple[str, str]:
        partition = next((one for one in self.site.partitions if one.name == self.request.partition), None)
        return self.request.partition, self.site.kind(partition, self.request.gpu)

    def rows(self, partition: PartitionTable) -> Iterator[KindOutlook]:
        for kind in partition.kinds or ("",):
            gres = self.site.gres(partition, kind)
            yield KindOutlook(
                partition=partition.name,
                kind=kind,
                title=self.site.gpu(kind).title,
                free=self.picture.free(partition.name, gres) if self.picture else None,
                starts=tuple(
                    self._start(partition, self._ask(partition, kind, gpus))
                    for gpus in range(self.site.gpus_max(partition, kind) + 1)
                ),
            )

    def _start(self, partition: PartitionTable, ask: Ask) -> Start:
        if self.picture is None or not self._is_plain(partition):
            return UNKNOWN
        time = min(self.request.hours, self.site.hours_max(partition))
        return self.picture.start(partition.name, ask, time, self.now, self.instead_of)

    def _ask(self, partition: PartitionTable, kind: str, gpus: int) -> Ask:
        is_chosen = partition.name == self.request.partition and not gpus
        cores = (is_chosen and self.request.cores) or self.site.cores(gpus, partition, kind)
        memory_gb = self.request.memory_gb if is_chosen else 0
        return Ask(
            gpus=gpus,
            cores=cores,
            memory_mib=memory_gb * 1024 or self.site.memory_mib(gpus, partition, kind),
            gres=self.site.gres(partition, kind) if gpus else ANY_GPU,
            is_whole_node=bool(partition.exclusive),
        )

    def _is_plain(self, partition: PartitionTable) -> bool:
        """Whether the picture says all of where a session of this partition may run."""
        if any(not option.startswith(_HARMLESS) for option in partition.options):
            return False
        chosen = self.request if partition.name == self.request.partition else SessionRequest()
        return not any(chosen.chosen(key, partition) for key in _OF_WHERE)

    def limit(self, settings: Site, partition: PartitionTable) -> HoursLimit:
        kind = self.site.kind(partition, self.request.gpu)
        most = self.site.gpus_max(partition, kind)
        ask = self._ask(partition, kind, min(self.request.gpus, most))
        known = self.picture if self._is_plain(partition) else None
        return hours.limit(settings, self.site, partition, known, ask, self.now)
