"""What one person asks for, and whether this site gives it to them.

The same check is behind the form, the REST API and saved options: :func:`checked` takes whatever
arrived and either returns a complete :class:`SessionRequest` or says what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace

from portal.errors import RequestError
from portal.settings.session_tables import CHOICES, PartitionTable
from portal.site import Identity, Site

NUMBERS = ("gpus", "hours", "cores", "memory_gb")
MAY_BE_EMPTY = ("cores", "memory_gb")  # in the form: what comes by itself
WORDS_OF_A_LINK = "These are the choices of the link that you followed: check them, then press Start."
USUAL = "-"  # in place of a choice: whatever is the usual one where the session goes; no name of Slurm's begins so


@dataclass(frozen=True)
class SessionRequest:
    """One session as a person asks for it; cores and memory follow from the GPUs.

    Attributes:
        gpu: the kind of GPU, where the partition has several; ``""`` = its first.
        cores: of a session without a GPU, where they may be chosen; 0 = what comes by itself. ``memory_gb`` likewise.
        account: as Slurm calls it, where there is a choice; ``None`` = the first. ``qos`` and the others likewise.
    """

    partition: str = ""
    gpus: int = 1
    hours: int = 0
    gpu: str = ""
    cores: int = 0
    memory_gb: int = 0
    account: str | None = None
    qos: str | None = None
    reservation: str | None = None
    constraint: str | None = None
    licenses: str | None = None

    @classmethod
    def from_options(cls, options: Mapping[str, object]) -> SessionRequest:
        """Read options as they arrive (numbers may be text).

        Raises:
            RequestError: an unknown key, or a value of the wrong kind.
        """
        known = [field.name for field in fields(cls)]
        for key in options:
            if key not in known:
                raise RequestError("options", key, f"only the keys {', '.join(known)}")
        numbers = {key: _number(key, options[key]) for key in NUMBERS if key in options}
        texts = {key: _text(key, options[key]) for key in ("partition", "gpu", *CHOICES) if key in options}
        texts = {key: text for key, text in texts.items() if text != USUAL}
        return cls(**numbers, **texts)  # type: ignore[arg-type]

    def fill(self, site: Site, identity: Identity) -> SessionRequest:
        """The same request with the site's defaults where the person said nothing."""
        offered = site.offered_to(identity)
        partition = self.partition or (offered[0].name if offered else "")
        found = next((p for p in offered if p.name == partition), None)
        limit = site.hours_max(found) if found else site.session.hours_max
        return replace(self, partition=partition, hours=self.hours or min(site.session.hours_default, limit))

    def check(self, site: Site, identity: Identity) -> None:
        """Raise :class:`RequestError` unless this site offers this to this person."""
        offered = {p.name: p for p in site.offered_to(identity)}
        if self.partition not in offered:
            names = ", ".join(offered) or "none (ask your administrator)"
            raise RequestError("partition", self.partition, f"one of {names}")
        partition = offered[self.partition]
        if self.gpu and self.gpu not in partition.kinds:
            raise RequestError("gpu", self.gpu, f"one of {', '.join(partition.kinds)}" if partition.kinds else "none")
        _in_range("gpus", self.gpus, 0, site.gpus_max(partition, site.kind(partition, self.gpu)))
        _in_range("hours", self.hours, 1, site.hours_max(partition))
        self._check_share(partition)
        for key in CHOICES:
            self._check_choice(key, partition.offers(key))

    def _check_share(self, partition: PartitionTable) -> None:
        """Cores and memory are chosen for sessions without a GPU alone, and where the site says how many."""
        for key, most in (("cores", partition.cores_max), ("memory_gb", partition.memory_gb_max)):
            given = getattr(self, key)
            if given and (self.gpus or most is None):
                why = "they come with the GPUs" if self.gpus else f"they are fixed in {partition.name}"
                raise RequestError(key, given, f"nothing: {why}")
            if given:
                _in_range(key, given, 1, most or 0)

    def _check_choice(self, key: str, offered: tuple[str, ...]) -> None:
        given = getattr(self, key)
        if given is not None and given not in (offered or ("",)):
            names = ", ".join(name or "none" for name in offered) or f"nothing: {self.partition} has no choice of it"
            raise RequestError(key, given, f"one of {names}" if offered else names)

    def chosen(self, key: str, partition: PartitionTable) -> str:
        """What ``sbatch`` is told for one of the choices: the person's, or the site's first; ``""`` is nothing."""
        given: str | None = getattr(self, key)
        return next(iter(partition.offers(key)), "") if given is None else given

    def share(self, site: Site) -> tuple[int, int]:
        """The cores and the memory (MiB) of the session, which follow from what was asked for."""
        partition = next((p for p in site.partitions if p.name == self.partition), None)
        cores = site.cores(self.gpus, partition, self.gpu)
        memory_mib = site.memory_mib(self.gpus, partition, self.gpu)
        return self.cores or cores, self.memory_gb * 1024 or memory_mib

    def as_options(self) -> dict[str, object]:
        """The request as plain JSON values, to be kept with the session: what was chosen, and nothing of the rest."""
        always = ("partition", "gpus", "hours")
        return {key: value for key, value in asdict(self).items() if key in always or value not in (None, "", 0)} | {
            key: "" for key in CHOICES if getattr(self, key) == ""
        }


def fields_of(site: Site, identity: Identity) -> tuple[str, ...]:
    """The fields that this person has to choose from on this site: the three that all have, and those with a choice."""
    offered = site.offered_to(identity)
    has_choice = {
        "gpu": any(len(p.kinds) > 1 for p in offered),
        "cores": any(p.cores_max for p in offered),
        "memory_gb": any(p.memory_gb_max for p in offered),
        **{key: any(isinstance(getattr(p, key), tuple) for p in offered) for key in CHOICES},  # also a list of one
    }
    return ("partition", "gpus", "hours", *(key for key, is_there in has_choice.items() if is_there))


def checked(options: Mapping[str, object], site: Site, identity: Identity) -> SessionRequest:
    """Read, complete and check options: the one check behind form, link, REST and saved options.

    Raises:
        RequestError: names the field, the value given and what is allowed.
    """
    known = fields_of(site, identity)
    for key in options:
        if key not in known:
            raise RequestError("options", key, f"only the keys {', '.join(known)}")
    request = SessionRequest.from_options(options)
    if "hours" in options and request.hours == 0:
        raise RequestError("hours", options["hours"], "a whole number from 1 up")
    request = request.fill(site, identity)
    request.check(site, identity)
    return request


def _number(field: str, value: object) -> int:
    """A whole number out of JSON or a form; ``True``, ``1.5``, ``"1\\n"`` and ``"٣"`` are none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,9}", value):
        return int(value)
    if value == "" and field in MAY_BE_EMPTY:
        return 0
    raise RequestError(field, value, "a whole number")


def _text(field: str, value: object) -> str:
    if not isinstance(value, str):
        raise RequestError(field, value, "a name, as text")
    return value


def _in_range(field: str, value: int, lowest: int, highest: int) -> None:
    if not lowest <= value <= highest:
        allowed = f"a whole number from {lowest} to {highest}" if highest > lowest else str(lowest)
        raise RequestError(field, value, allowed)
