"""What Slurm's commands of six versions printed, recorded on a small cluster: see tests/fixtures/slurm/README.md."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "fixtures" / "slurm"
VERSIONS = ("22.05", "23.02", "23.11", "24.05", "25.05", "25.11")
_FIELDS = (
    "id",
    "user",
    "state",
    "reason",
    "partition",
    "node",
    "",
    "starts",
    "ends",
    "submitted",
    "",
    "",
    "",
    "priority",
)


@dataclass(frozen=True)
class Case:
    """One command and its answer, decoded as :mod:`portal.slurm.runner` does it."""

    version: str
    name: str
    command: str
    returncode: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


@cache
def archive(version: str) -> Mapping[str, bytes]:
    with tarfile.open(FOLDER / f"{version}.tar.xz") as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]


def names(version: str) -> list[str]:
    return sorted(name.removesuffix(".cmd") for name in archive(version) if name.endswith(".cmd"))


def case(version: str, name: str) -> Case:
    files = archive(version)
    command, stdout, stderr = (
        files.get(f"{name}.{end}", b"").decode(errors="replace") for end in ("cmd", "out", "err")
    )
    return Case(version, name, command, int(files[f"{name}.rc"]), stdout, stderr)


@dataclass(frozen=True)
class Submitted:
    """One accepted submission of the main scene."""

    label: str
    id: str
    user: str
    partition: str
    command: str


@cache
def scenario(version: str) -> Mapping[str, Submitted]:
    """The accepted submissions of the main scene by label."""
    found = {}
    for line in archive(version)["scenario.tsv"].decode().split("\n"):
        label, *rest = line.split("\t")
        if len(rest) != 3 or label in ("-", "label") or rest[0] != "0":
            continue
        user, _, command = rest[2].partition(": ")
        partition = re.search(r" -p (\S+)", command)
        name = partition[1].replace("\\", "") if partition else "gpu"
        found[label] = Submitted(label, rest[1].strip(), user, name, command)
    return found


def rows(listing: str) -> Iterator[dict[str, str]]:
    """The jobs of a recorded listing, whose columns are divided by 0x1f; names and comments are left out.

    These two come last, so what follows a newline or a separator in one of them is no column of ours.
    """
    for line in listing.split("\n"):
        fields = line.split("\x1f")
        if len(fields) > 14 and (re.match(r"\d", fields[0]) or fields[0] == "JOBID"):
            yield dict(zip(_FIELDS, fields, strict=False))


def as_ours(listing: str) -> str:
    """A recorded listing as the same squeue prints it in the columns of :func:`portal.slurm.jobs.squeue_command`."""
    ours = ("id", "state", "partition", "user", "node", "submitted", "starts", "ends", "priority", "reason")
    return "".join("|".join(row[name] for name in ours) + "|=\n" for row in rows(listing))


def one_line_each(listing: str, first: str) -> str:
    """scontrol's long form in one line for each thing, as ``--oneliner`` prints it."""
    things = re.split(rf"\n(?={first}=)", "\n" + listing.strip("\n"))
    return "".join(" ".join(line.strip() for line in thing.split("\n") if line.strip()) + "\n" for thing in things[1:])
