"""What is kept of a session that has ended: what was asked, what Slurm did, and why it was over. Pure.

No token and nothing of the environment is in it: the last lines of a log are looked through for both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any

from portal.history.receipt import Receipt

LOG_LINES = 20
LOG_CHARACTERS = 3000
LOG_READ = 20_000  # of what is handed over: a text without end is not looked through
REASON_CHARACTERS = 2000
WORD_CHARACTERS = 200
REMOVED = "[removed]"
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_NAMES = r"(?:token(?!iz)|passw(?:or)?d|passphrase|secret|api[_ -]?key)"
_CLOSES = r"(?:\\{0,4}[\"'])?"  # the quote after a name, in a text that may be quoted itself
_IS = rf"{_CLOSES}\s*[:=]=?>?[ \t]*"
_QUOTE = r"""(?:"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?)"""
_QUOTED = rf"""[a-z]{{0,2}}\\{{0,4}}{_QUOTE}(?:{_QUOTE}|\\.|[^\s,;:)}}\]"'\\])*"""
# Whose value may have blanks and no end, whose has an end, what follows an option, and what stands in an address. Each
# takes time by the length of a line alone, whatever is in it.
_SECRETS = re.compile(
    rf"(?i)((?:authorization|cookie)(?!error)[\w-]{{0,40}}{_IS})[^\n]+"
    rf"|({_NAMES}[\w-]{{0,40}}{_IS}(?:(?:token|bearer|basic)\s+)?)(?:{_QUOTED}|\S+)"
    rf"|((?<![\w-])--?[\w-]{{0,40}}?{_NAMES}[\w-]{{0,40}}[\"']?,?[ \t]+(?!-))(?:{_QUOTED}|\S+)"
    r"|(://[^\s/:@\"']{0,100}:)[^\s/@\"']+(?=@)"
)


@dataclass(frozen=True)
class EndedSession:
    """One session that is over. Times are in seconds since 1970; 0 where they are not known.

    Attributes:
        key: the session's own, which its job carried in its name: there is one record of it.
        name: of the server; ``""`` is the default one.
        options: what was asked for, as :meth:`portal.request.SessionRequest.as_options`; cores and memory came with it.
        state: Slurm's last word on the job; ``""`` where there was no job, or where the portal did not wait for it.
        reason: why it ended, in words.
        log: its last lines.
        receipt: what it used; ``None`` until accounting says it, which it may never do.
    """

    key: str
    ended_at: int
    name: str = ""
    options: Mapping[str, object] = field(default_factory=dict)
    cores: int = 0
    memory_mib: int = 0
    job_id: str = ""
    node: str = ""
    submitted_at: int = 0
    started_at: int = 0
    state: str = ""
    reason: str = ""
    log: str = ""
    receipt: Receipt | None = None

    def to_text(self) -> str:
        """JSON in plain ASCII, which every database holds."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> EndedSession:
        """What :meth:`to_text` wrote, in this version, one before it or one after it."""
        saved: dict[str, Any] = json.loads(text)
        saved["receipt"] = Receipt.from_json(saved.get("receipt"))
        return cls(**{one.name: saved[one.name] for one in fields(cls) if one.name in saved})

    def bounded(self) -> EndedSession:
        """The same with every text short enough to be kept, and fit for every database and page."""
        options = {key: _word(value) if isinstance(value, str) else value for key, value in self.options.items()}
        return replace(
            self,
            name=_word(self.name),
            node=_word(self.node),
            state=_word(self.state),
            options=options,
            reason=in_short(self.reason),
            log=last_lines(self.log),
        )

    def as_json(self) -> dict[str, object]:
        """What the REST API says of it: the times are ISO 8601 in UTC, and null where they are not known."""
        times = {name: moment(getattr(self, name)) or None for name in ("submitted_at", "started_at", "ended_at")}
        kept = {name: value for name, value in asdict(self).items() if name not in ("key", "job_id")}
        job_id = int(self.job_id) if self.job_id.isdecimal() else None
        return {**kept, **times, "job_id": job_id, "receipt": self.receipt.as_json() if self.receipt else None}


def moment(seconds: int) -> str:
    """Seconds since 1970 as ISO 8601 in UTC; ``""`` where there is none."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat() if seconds > 0 else ""
    except (OverflowError, ValueError, OSError):
        return ""


def plain(text: str) -> str:
    """A text without colours, control characters and halves of letters; tabs and line ends stay."""
    return _CONTROLS.sub("", _COLOURS.sub("", text)).encode(errors="replace").decode()


def in_short(reason: str) -> str:
    """Why a session ended, as much of it as is kept: who starts a session can have it say anything."""
    return plain(reason)[:REASON_CHARACTERS]


def _word(text: str) -> str:
    return plain(text)[:WORD_CHARACTERS]


def last_lines(log: str) -> str:
    """The end of a log, short enough to be kept."""
    return "\n".join(_read(log).strip("\n").split("\n")[-LOG_LINES:])[-LOG_CHARACTERS:]


def without_secrets(log: str, token: str) -> str:
    """A log without the session's own token, and without what is said to be a token or a password."""
    shown = _SECRETS.sub(lambda found: f"{found[found.lastindex or 0]}{REMOVED}", _read(log))
    return shown.replace(token, REMOVED) if token else shown


def _read(log: str) -> str:
    """As much of a log as is looked through, without what would part a name from what it is said to be."""
    return plain(log[-LOG_READ:].replace("\r\n", "\n").replace("\r", "\n"))
