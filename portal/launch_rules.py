"""What root's settings file lets a session have: portal-launch checks every option of ``sbatch`` by it.

Standard library only: :mod:`portal.launcher` runs it as the person who asks. The file is one of two fixed places,
never one that the request, the environment or the hub's account names, and it is believed only where root alone can
change it. What it cannot know, the groups of the directory, is the hub's word: a rule for a group is taken as possible
for everybody, and Slurm's own associations hold. Whatever is let through runs with the person's own rights.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from portal.homes.on_the_way import on_the_way, without_number

Tables = dict[str, Any]
ROOT = 0
CHOICES = ("account", "qos", "reservation", "constraint", "licenses", "mail_type")
_KEYS = {key.replace("_", "-"): key for key in CHOICES}  # by the name of sbatch's option
_PLAIN = frozenset(
    [
        "job-name",
        "partition",
        "nodes",
        "ntasks",
        "cpus-per-task",
        "mem",
        "gres",
        "time",
        "requeue",
        "open-mode",
        "export",
    ]
)
_NEEDED = ("job-name", "partition", "nodes", "ntasks", "cpus-per-task", "mem", "time")
_SESSION = {  # the defaults of [session]; tests/unit/test_launch_rules.py holds them to those of the settings
    "gpus_max": 4,
    "cores_per_gpu": 8,
    "memory_gb_per_gpu": 48,
    "cores_without_gpu": 2,
    "memory_gb_without_gpu": 8,
    "hours_max": 24,
}
_NOT_ROOTS = "is not root's alone (chown root, chmod go-w), so that it says nothing here"
_EVERY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z", re.ASCII)


class Settings(NamedTuple):
    """Root's tables, or ``None`` and in words why there are none to go by."""

    tables: Tables | None
    why_not: str = ""
    place: str = ""


def places(prefix: str) -> tuple[str, ...]:
    """Where the file is looked for by a launcher in the Python environment ``prefix``.

    Beside the launcher first, for a second portal on the same host: a link there leads to its own settings.
    """
    return (str(Path(prefix, "etc", "dsportal", "site.toml")), "/etc/dsportal/site.toml")


PLACES = places(sys.prefix)


def read(looked_for: Sequence[str] = ()) -> Settings:
    """The settings file, if there is one that root alone can change and that can be understood; it never raises."""
    for place in looked_for or PLACES:
        try:
            descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        except OSError as error:
            return Settings(None, f"{place} cannot be read by you ({error.strerror}); its administrator can make it so")
        with os.fdopen(descriptor, "rb") as file:
            if fault := _fault(os.fstat(descriptor), place):
                return Settings(None, fault)
            import tomllib  # a tenth of this program's time: only where there is something to read

            try:
                tables = tomllib.load(file)
            except (OSError, ValueError) as error:
                return Settings(None, f"{place}: {error}")
        return (
            Settings(tables, place=place) if _is_shaped(tables) else Settings(None, f"{place}: see portal config check")
        )
    return Settings(None, f"there is no {(looked_for or PLACES)[-1]}")


def _is_shaped(tables: Tables) -> bool:
    """Whether the tables that count here are tables; the hub checks the rest when it starts."""
    partitions = tables.get("partition", [])
    if not _are_tables(partitions) or not _are_tables(tables.get("gpu", [])):
        return False
    are_rules = all(_are_tables(partition.get("rule", [])) for partition in partitions)
    return are_rules and all(isinstance(tables.get(name, {}), dict) for name in ("session", "cluster", "ldap"))


def _are_tables(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def _fault(found: os.stat_result, place: str) -> str:
    """Why a settings file is not believed; ``""`` for one that root alone can change, or put another one there."""
    if not stat.S_ISREG(found.st_mode):
        return f"{place} is no regular file"
    if _is_loose(found, {ROOT}):
        return f"{place} {_NOT_ROOTS}"
    folder = Path(place).resolve().parent
    for part in on_the_way(Path(place)):
        try:
            known = part.lstat()
        except OSError as error:
            return f"{part} cannot be looked at ({error.strerror}), so that {place} says nothing here"
        if part == folder and _is_loose(known, {ROOT}):
            return f"its folder {_NOT_ROOTS}"
        if part != folder and not stat.S_ISREG(known.st_mode) and _is_exchanged(known):
            return f"{part} above it {_NOT_ROOTS}"
    return ""


def _is_loose(found: os.stat_result, owners: set[int]) -> bool:
    return found.st_uid not in owners or bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def _is_exchanged(found: os.stat_result) -> bool:
    """Whether others can exchange what lies below a folder, or a link; in a folder like ``/tmp`` their own alone."""
    owners = {0, ROOT, *without_number()}
    stays = stat.S_ISLNK(found.st_mode) or found.st_mode & stat.S_ISVTX
    return found.st_uid not in owners if stays else _is_loose(found, owners)


def own_options(tables: Tables | None) -> frozenset[str]:
    """The options that root wrote into partitions (``options``), whatever they are."""
    partitions = (tables or {}).get("partition", ())
    return frozenset(option for partition in partitions for option in partition.get("options", ()))


def fault(options: Sequence[str], settings: Settings, person: str) -> str:
    """What is wrong with the options of a session of ``person``, in words; ``""`` where nothing is."""
    given: dict[str, str] = {}
    own = _own_options_of(options, settings.tables)
    for option in options:
        name, _, value = option.removeprefix("--").partition("=")
        if option in own:
            continue
        if name in given:
            return f"option '--{name}' is there twice"
        given[name] = value
    if settings.tables is None:
        more = next((name for name in given if name not in _PLAIN), "")
        return f"option '--{more}' needs the settings file: {settings.why_not}" if more else ""
    try:
        offer = _Offer(settings.tables, given, person)
        return offer.fault() or offer.missing(options)
    except (TypeError, ValueError):
        return "the settings file holds values of the wrong kind: see portal config check"


def _own_options_of(options: Sequence[str], tables: Tables | None) -> Sequence[str]:
    asked = [option.partition("=")[2] for option in options if option.startswith("--partition=")]
    partitions = (tables or {}).get("partition", ())
    return [
        option for partition in partitions if partition.get("name") in asked for option in partition.get("options", ())
    ]


class _Offer:
    """What one request names, beside what the tables say."""

    def __init__(self, tables: Tables, given: dict[str, str], person: str) -> None:
        self.given = given
        self.gpus = {gpu.get("name"): gpu for gpu in tables.get("gpu", ())}
        self.session = _SESSION | tables.get("session", {})
        self.has_addresses = bool(tables.get("ldap", {}).get("mail_attribute"))
        named = given.get("partition", "")
        self.partition = next((one for one in tables.get("partition", ()) if one.get("name") == named), None)
        rules = (self.partition or {}).get("rule", ())
        fitting = [rule for rule in rules if rule.get("groups") or person in rule.get("people", ())]
        self.tables = [self.partition or {}, *fitting]

    def fault(self) -> str:
        """The first option that is not as the settings say."""
        if self.partition is None:
            return f"option '--partition={self.given.get('partition', '')[:40]}' is no partition of the settings file"
        checks = {"gres": self._gres, "time": self._time, "cpus-per-task": self._cores, "mem": self._memory}
        fixed = {"comment": self.partition.get("comment"), "exclusive": self._exclusive()}
        for name, value in self.given.items():
            if name in checks:
                is_offered = checks[name](value)
            elif name in _KEYS:
                is_offered = self._choice(_KEYS[name], value)
            elif name == "mail-user":  # what the directory says of somebody is the hub's word, as her groups are
                is_offered = self.has_addresses and "mail-type" in self.given
            else:
                is_offered = name in _PLAIN or fixed.get(name) == value
            if not is_offered:
                return f"option '--{name}={value[:40]}' is not what the settings file says for this partition"
        return ""

    def missing(self, options: Sequence[str]) -> str:
        """What the settings ask of every session here, and this one lacks: left out, it may be more than is offered."""
        partition = self.partition or {}
        fixed = [name for name, key in _KEYS.items() if key in partition and all(map(_is_always, self._all(key)))]
        fixed += [name for name in ("comment", "exclusive") if partition.get(name)]
        for name in (*_NEEDED, *fixed):
            if name not in self.given:
                return f"option '--{name}' is missing, which the settings file asks for in this partition"
        lacking = next((option for option in partition.get("options", ()) if option not in options), "")
        return f"option '{lacking}' is missing, which the settings file asks for in this partition" if lacking else ""

    def _all(self, key: str) -> Iterator[Any]:
        return (table[key] for table in self.tables if key in table)

    def _time(self, value: str) -> bool:
        longest: int = min(self.session["hours_max"], max(self._all("hours_max"), default=self.session["hours_max"]))
        return 1 <= int(value) <= longest * 60

    def _kinds(self) -> list[Tables]:
        named = (self.partition or {}).get("gpu", "")
        kinds = [named] if isinstance(named, str) else named
        return [self.gpus[kind] for kind in kinds if kind in self.gpus] or [{}]

    def _gres(self, value: str) -> bool:
        name, _, count = value.rpartition(":")
        most = min(self.session["gpus_max"], max(self._all("gpus_max"), default=self.session["gpus_max"]))
        kinds = [kind for kind in self._kinds() if kind.get("gres", "gpu") == name]
        return any(1 <= int(count) <= min(most, kind.get("gpus_max", most)) for kind in kinds)

    def _share(self, key: str) -> set[int]:
        """The cores, or the GB of memory, that come with what is asked for."""
        name, _, count = self.given.get("gres", "").rpartition(":")
        if not count:
            without = f"{key}_without_gpu"
            return {(self.partition or {}).get(without, self.session[without])}
        per = f"{key}_per_gpu"
        kinds = [kind for kind in self._kinds() if kind.get("gres", "gpu") == name]
        return {
            int(count) * (self.partition or {}).get(per, kind.get(per, self.session[per])) for kind in kinds or [{}]
        }

    def _may_choose(self, key: str, number: int) -> bool:
        return "gres" not in self.given and 1 <= number <= int(max(self._all(key), default=0))

    def _cores(self, value: str) -> bool:
        return int(value) in self._share("cores") or self._may_choose("cores_max", int(value))

    def _memory(self, value: str) -> bool:
        gb, rest = divmod(int(value.removesuffix("M")), 1024)
        if self._exclusive() == "":  # the whole node: 0 is all of its memory
            return (gb, rest) == (0, 0)
        return rest == 0 and (gb in self._share("memory_gb") or self._may_choose("memory_gb_max", gb))

    def _choice(self, key: str, value: str) -> bool:
        for offered in self._all(key):
            several = [offered] if isinstance(offered, str) else offered
            if value in several or ("*" in several and _EVERY_NAME.match(value)):
                return True
        return False

    def _exclusive(self) -> str | None:
        return {"node": "", "user": "user"}.get((self.partition or {}).get("exclusive", ""))


def _is_always(value: object) -> bool:
    """Whether a choice of the settings ends in something in any case: not in nothing, and not in what Slurm knows."""
    return bool(value) and (isinstance(value, str) or (isinstance(value, list) and not {"", "*"} & set(value)))
