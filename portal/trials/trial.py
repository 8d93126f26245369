"""What a test found of one kernel: whether it started, how fast, what it is, and which GPUs its frameworks saw.

A test's job runs as a person, so what it says is read as any text of a stranger's: bounded, printable, of known types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from portal.errors import KernelError, printable

LONGEST_TEXT = 400
LONGEST_WORDS = 2000
MOST_FRAMEWORKS = 20
MOST_NUMBER = 2**40


@dataclass(frozen=True)
class FrameworkTrial:
    """A framework that a kernel has.

    Attributes:
        gpus: how many it sees; None where it did not say.
        words: what was found, in one sentence.
    """

    name: str
    version: str = ""
    gpus: int | None = None
    words: str = ""
    is_fault: bool = False


@dataclass(frozen=True)
class Trial:
    """One test of one kernel.

    Attributes:
        at: when, in seconds since 1970.
        start_s: from its start to the first result, in seconds; None where there was none.
        language: the language and its version, as the kernel itself tells.
        gpus: how many Slurm gave to the job; None outside of a job.
        fault: why it did not start, or did not calculate; "" where it did.
        note: what there is to say where no framework was asked.
    """

    at: int
    start_s: float | None = None
    language: str = ""
    gpus: int | None = None
    partition: str = ""
    node: str = ""
    fault: str = ""
    note: str = ""
    frameworks: tuple[FrameworkTrial, ...] = ()

    @property
    def is_fault(self) -> bool:
        """Whether the kernel, or a framework of it, does not do what it is there for."""
        return bool(self.fault) or any(one.is_fault for one in self.frameworks)

    def to_json(self) -> dict[str, Any]:
        """As JSON has it; :func:`from_json` reads it."""
        return asdict(self) | {"frameworks": [asdict(one) for one in self.frameworks]}

    def lines(self) -> Iterator[str]:
        """All that was found, in sentences."""
        if self.fault:
            yield self.fault
            return
        yield f"it starts in {self.start_s:.1f} s" + (f", {self.language}" if self.language else "")
        if self.note:
            yield self.note
        yield from (one.words for one in self.frameworks)

    def summary(self) -> str:
        """The same in one line: "TensorFlow 2.21.0, sees 2 of 2 GPUs, starts in 1.4 s, tested 2026-11-25"."""
        return ", ".join([*self._found(), f"tested {self.day}" + (f" in {self.partition}" if self.partition else "")])

    @property
    def day(self) -> str:
        """The day of the test, as the world's clock has it."""
        return datetime.fromtimestamp(self.at, UTC).date().isoformat()

    def _found(self) -> Iterator[str]:
        if self.fault:
            yield self.fault.rstrip(".")
            return
        names = [f"{one.name} {one.version}".strip() for one in self.frameworks]
        yield from names or filter(None, [self.language])
        seen = [one.gpus for one in self.frameworks if one.gpus is not None]
        if self.gpus and seen:
            yield f"sees {min(seen)} of {self.gpus} GPU{'' if self.gpus == 1 else 's'}"
        yield from (f"{one.name} does not work" for one in self.frameworks if one.is_fault and one.gpus is None)
        yield f"starts in {self.start_s:.1f} s"


def from_json(found: Any) -> Trial:
    """A trial out of JSON that somebody else wrote.

    Raises:
        KernelError: it is none.
    """
    try:
        frameworks = found["frameworks"]
        if not isinstance(frameworks, list) or len(frameworks) > MOST_FRAMEWORKS:
            raise ValueError("frameworks")
        trial = Trial(
            at=int(_number(found["at"]) or 0),
            start_s=_number(found["start_s"]),
            gpus=_count(found["gpus"]),
            frameworks=tuple(_framework(one) for one in frameworks),
            **{name: _text(found[name]) for name in ("language", "partition", "node", "note")},
            fault=_text(found["fault"], LONGEST_WORDS),
        )
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise KernelError(f"A test of a kernel answered something else than was asked for ({error}).") from error
    if trial.start_s is None and not trial.fault:
        raise KernelError("A test of a kernel tells neither that it started nor why not.")
    return trial


def _framework(found: Mapping[str, Any]) -> FrameworkTrial:
    texts = {name: _text(found[name]) for name in ("name", "version")}
    words = _text(found["words"], LONGEST_WORDS)
    return FrameworkTrial(**texts, words=words, gpus=_count(found["gpus"]), is_fault=found["is_fault"] is True)


def _text(found: Any, longest: int = LONGEST_TEXT) -> str:
    if not isinstance(found, str):
        raise TypeError("a text is missing")
    return " ".join(printable(found[:longest]).split())


def _number(found: Any) -> float | None:
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found < MOST_NUMBER:
        raise ValueError("a number is missing")
    return found


def _count(found: Any) -> int | None:
    number = _number(found)
    return None if number is None else int(number)
