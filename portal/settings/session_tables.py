"""``[session]``, ``[[gpu]]``, ``[[partition]]`` and ``[[storage]]``: what a session may ask for, and gets."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from portal.settings.groups import labels
from portal.settings.values import (
    AbsolutePath,
    Accounts,
    Comment,
    Constraints,
    Count,
    FreeOption,
    Group,
    Hours,
    Kinds,
    Licenses,
    MailTypes,
    Name,
    Positive,
    PrivateFolder,
    Reservations,
    Table,
    Texts,
)

MOST_SESSIONS = 20  # of one person at a time


class ForSome(Table):
    """What is for some people: a rule of a table."""

    groups: tuple[Group, ...] = ()
    people: tuple[Name, ...] = ()

    def fits(self, person: str, groups: frozenset[str]) -> bool:
        """Whether this rule is for somebody: by name, or by one of the groups."""
        return person in self.people or bool(groups & labels(self.groups))


class SessionRuleTable(ForSome):
    """``[[session.rule]]``: what is otherwise for some people; the first rule that fits somebody counts."""

    sessions_max: Annotated[int, Field(ge=1, le=MOST_SESSIONS)]


class SessionTable(Table):
    """``[session]``: what a session gets. Memory in GB as Slurm counts it (1 GB = 1024 MiB)."""

    gpus_max: Count = 4
    cores_per_gpu: Positive = 8
    memory_gb_per_gpu: Positive = 48
    cores_without_gpu: Positive = 2
    memory_gb_without_gpu: Positive = 8
    hours_default: Hours = 8
    hours_max: Hours = 24
    wait_max_hours: Count = 0  # in the queue; 0 = as long as Slurm makes it wait
    start_timeout_min: Positive = 10  # from the job's start on its node, never counted while it waits
    private_folder: PrivateFolder = ""  # where sessions keep what is private; "" = in the home
    when_person_leaves: Literal["stop", "keep"] = "stop"  # what becomes of the session of who may not use it any more
    history_days: Annotated[int, Field(ge=0, le=3650)] = 30  # how long a person reads of sessions that have ended
    sessions_max: Annotated[int, Field(ge=1, le=MOST_SESSIONS)] = 1  # of one person at a time
    rule: tuple[SessionRuleTable, ...] = ()

    @property
    def rule_groups(self) -> tuple[str, ...]:
        """The groups that rules are for, as the settings name them."""
        return tuple(group for rule in self.rule for group in rule.groups)


class GpuTable(Table):
    """``[[gpu]]``: one kind of GPU, as Slurm calls it in ``--gres`` and as people call it."""

    name: Name
    title: str
    gres: Annotated[str, Field(pattern=r"^(gpu|shard)(:[A-Za-z0-9._+-]+)?$")] = "gpu"
    gpus_max: Count | None = None
    cores_per_gpu: Positive | None = None
    memory_gb_per_gpu: Positive | None = None


class RuleTable(ForSome):
    """``[[partition.rule]]``: what is otherwise for some people; the first rule that fits somebody counts."""

    gpus_max: Count | None = None
    hours_max: Hours | None = None
    cores_max: Positive | None = None
    memory_gb_max: Positive | None = None
    account: Accounts | None = None
    qos: Accounts | None = None
    reservation: Reservations | None = None
    constraint: Constraints | None = None
    licenses: Licenses | None = None
    mail_type: MailTypes | None = None

    def changes(self) -> dict[str, object]:
        """The keys that this rule sets."""
        return {key: value for key, value in self if key not in ("groups", "people") and value is not None}


class PartitionTable(Table):
    """``[[partition]]``: a Slurm partition that the portal offers."""

    name: Name
    title: str = ""
    gpu: Kinds = ""  # the names of one [[gpu]] or of several; "" = any
    gpus_max: Count | None = None
    hours_max: Hours | None = None
    default: bool = False
    groups: tuple[Group, ...] = ()  # empty = everybody
    cores_per_gpu: Positive | None = None  # these four: as in [session], for this partition
    memory_gb_per_gpu: Positive | None = None
    cores_without_gpu: Positive | None = None
    memory_gb_without_gpu: Positive | None = None
    cores_max: Positive | None = None  # a session without a GPU may choose its cores up to here; None = no choice
    memory_gb_max: Positive | None = None
    account: Accounts = ""
    qos: Accounts = ""
    reservation: Reservations = ""
    constraint: Constraints = ""
    licenses: Licenses = ""
    mail_type: MailTypes = ""  # when Slurm writes an e-mail
    comment: Comment = ""
    exclusive: Literal["", "node", "user"] = ""
    options: tuple[FreeOption, ...] = ()  # of sbatch, for what has no key here
    rule: tuple[RuleTable, ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of its kinds of GPUs, the default one first; none where any will do."""
        return tuple(filter(None, (self.gpu,) if isinstance(self.gpu, str) else self.gpu))

    def offers(self, key: str) -> tuple[str, ...]:
        """What may be chosen for one of ``portal.request.CHOICES``, the default first; one that is alone is fixed."""
        value: Texts = getattr(self, key)
        return (value,) if value and isinstance(value, str) else tuple(value)

    def for_person(self, person: str, groups: frozenset[str]) -> PartitionTable:
        """The partition as somebody has it, with the first rule that fits."""
        rule = next((rule for rule in self.rule if rule.fits(person, groups)), None)
        return self.model_copy(update={**(rule.changes() if rule else {}), "rule": ()})


class StorageTable(Table):
    """``[[storage]]``: a big folder that appears in everybody's files under ``name``."""

    name: Name
    path: AbsolutePath
