"""What somebody wants to be run as a job: the same checks for the command line, for REST and for the Lab. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

from portal.errors import RequestError
from portal.slurm.submission import JOB_NAME_PREFIX

HOURS_MAX = 24 * 366
ARGUMENTS_MAX = 100
ARGUMENT_LENGTH_MAX = 4096
_NUMBERS_MAX = {"nodes": 10_000, "tasks": 1_000_000, "gpus": 1_000, "cores": 10_000, "memory_gb": 1_000_000}
_HALVES = r"\ud800-\udc7f\udd00-\udfff"  # of letters, which no argument of a program can hold (PEP 383)
_TEXTS = {
    "partition": (r"[A-Za-z0-9][A-Za-z0-9._,-]{0,199}", "the names of partitions, with commas between"),
    "account": (r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", "the name of an account of Slurm's"),
    "array": (r"[0-9][0-9,:-]{0,199}(%[1-9][0-9]{0,5})?", "indexes such as 0-9, 1,5,7, 0-20:4 or 0-99%4"),
    "name": (rf"[^\x00-\x1f\x7f{_HALVES}]{{1,100}}", "one line of up to 100 letters"),
}
_MODULE = re.compile(rf"[^\s{_HALVES}-][^\s{_HALVES}]{{0,199}}\Z")


class Kind(StrEnum):
    """What a file is, by the end of its name."""

    NOTEBOOK = "notebook"
    PYTHON = "python"
    SCRIPT = "script"


KINDS = {".ipynb": Kind.NOTEBOOK, ".py": Kind.PYTHON, ".sh": Kind.SCRIPT, ".job": Kind.SCRIPT}


@dataclass(frozen=True)
class JobOrder:
    """A file to run as a job; of what is 0 or empty, Slurm's own default or the script's ``#SBATCH`` lines decide.

    Attributes:
        file: a notebook (.ipynb), a Python program (.py) or a batch script (.sh, .job).
        folder: where it runs.
        arguments: for a script or program its own; for a notebook NAME=VALUE of its parameters.
        modules: loaded before anything of the file runs.
        nodes, tasks: how many of the whole job.
        gpus, memory_gb: on each node.
        cores: for each task.
        hours: after which the job ends at the latest.
        array: the indexes of a job array; each of its tasks runs the file.
        partition, account: Slurm's.
        name: what the job is called.
        results: where a notebook and a program write; None = in ``folder``.
        shown: what documents of the page that asks show of it, each its text or notebook; none = it shows none.
    """

    file: Path
    folder: Path
    arguments: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    nodes: int = 0
    tasks: int = 0
    gpus: int = 0
    cores: int = 0
    memory_gb: int = 0
    hours: float = 0
    array: str = ""
    partition: str = ""
    account: str = ""
    name: str = ""
    results: Path | None = None
    shown: tuple[object, ...] = ()

    @property
    def kind(self) -> Kind:
        """What the file is."""
        return KINDS[self.file.suffix]

    @property
    def minutes(self) -> int:
        """The hours in whole minutes; 0 = not said."""
        return math.ceil(self.hours * 60)


OPTIONS = tuple(field.name for field in fields(JobOrder) if field.name not in ("file", "folder", "results", "shown"))


def order_of(file: Path, folder: Path, given: Mapping[str, Any]) -> JobOrder:
    """An order out of options by name (:data:`OPTIONS`); one that is None, 0 or empty is as if it were not there.

    Raises:
        RequestError: one that is not known, or a value that is not allowed.
    """
    for name, value in given.items():
        if name not in OPTIONS:
            raise RequestError(name, value, f"the options {', '.join(OPTIONS)}")
    if file.suffix not in KINDS:
        raise RequestError("file", file.name, f"files whose names end with {', '.join(KINDS)}")
    checked = {name: _checked(name, value) for name, value in given.items() if value not in (None, "", 0, [], ())}
    order = JobOrder(file, folder, **checked)
    if order.kind is Kind.NOTEBOOK:
        _check_parameters(order.arguments)
    return order


def _checked(name: str, value: Any) -> Any:
    if name in _NUMBERS_MAX:
        return _number(name, value, _NUMBERS_MAX[name])
    if name == "hours":
        return _hours(value)
    if name == "modules":
        return _texts(name, value, _MODULE, "names of modules, as `module avail` shows them")
    if name == "arguments":
        anything = re.compile(rf"[^\0{_HALVES}]{{0,{ARGUMENT_LENGTH_MAX}}}\Z", re.DOTALL)
        return _texts(name, value, anything, f"up to {ARGUMENTS_MAX} texts")
    pattern, allowed = _TEXTS[name]
    if not isinstance(value, str) or not re.fullmatch(pattern, value):
        raise RequestError(name, value, allowed)
    if name == "name" and value.startswith(JOB_NAME_PREFIX):
        raise RequestError(name, value, f"names that do not begin with {JOB_NAME_PREFIX!r}, as those of sessions do")
    return value


def _number(name: str, value: Any, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise RequestError(name, value, f"a whole number from 0 to {most}")
    return value


def _hours(value: Any) -> float:
    if type(value) not in (int, float) or not 0 < value <= HOURS_MAX:
        raise RequestError("hours", value, f"a number above 0, up to {HOURS_MAX}")
    return float(value)


def _texts(name: str, value: Any, pattern: re.Pattern[str], allowed: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or len(value) > ARGUMENTS_MAX:
        raise RequestError(name, value, f"a list of {allowed}")
    for text in value:
        if not isinstance(text, str) or not pattern.match(text):
            raise RequestError(name, text, allowed)
    return tuple(value)


def _check_parameters(arguments: tuple[str, ...]) -> None:
    for text in arguments:
        name, equals, _ = text.partition("=")
        if not equals or not name.isidentifier():
            raise RequestError("arguments", text, "for a notebook NAME=VALUE, for example epochs=3")
