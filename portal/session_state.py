"""What the hub keeps of a session, in JupyterHub's database: everything that must survive the hub's end."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from datetime import datetime
from typing import Any

from cryptography.fernet import Fernet, InvalidToken

WORD_OF = "dsportal session"
TOLD_AT_LEAST_S = 600  # whatever is started meanwhile
TOLD_FOR_S = 30 * 86400  # who entered a session stays for its person to read


@dataclass(frozen=True)
class Announcement:
    """The port that a session's server announced, and how often Slurm had restarted its job until then.

    ``restarts`` is ``None`` where the server did not say it: servers of before 0.2.0.
    """

    port: int
    restarts: int | None = None


@dataclass(frozen=True)
class Place:
    """Where a job runs, and since when: one run of the job.

    ``started`` is in seconds since 1970 on slurmctld's clock; 0 when it does not say.
    """

    node: str
    started: int = 0


@dataclass(frozen=True)
class Visit:
    """An administrator who entered the session: the name, when (seconds since 1970), and the reason that was given."""

    who: str
    at: int
    reason: str


@dataclass(frozen=True)
class Foretold:
    """What was said of a start that has not come yet. Times are in seconds since 1970; 0 where none was said.

    Attributes:
        state: what the form said, as :class:`portal.forecasts.starts.StartState`; ``at`` is its moment.
        told_at: when it said so.
        slurm_at: the start that Slurm itself planned first, once the job was in its queue; ``slurm_told_at`` is when.
        submitted_at: when the job was submitted, on this host's clock.
    """

    state: str
    at: int
    told_at: int
    submitted_at: int = 0
    slurm_at: int = 0
    slurm_told_at: int = 0


@dataclass(frozen=True)
class SessionState:
    """One session; an empty one is no session.

    Attributes:
        key: sixteen hexadecimal digits, which the job carries in its name; ``""`` before the submission.
        job_id: Slurm's number of the job; ``""`` until ``sbatch`` has answered.
        token: the session's own API token, which stays the same for its whole life.
        port: where its server listens; 0 until it has answered, and again while Slurm moves the job.
        announcement: what its server announced last; a hub that was killed meanwhile need not wait for the next time.
        place: the run of the job to which ``port`` belongs.
        restarts: how often Slurm has restarted the job at least; the server of an earlier run is not believed.
        submitted: when the job was submitted, in seconds since 1970 on slurmctld's clock; 0 = not confirmed. A job
            with this number and another time is asked for its name before it is taken for ours.
        tls: whether its server speaks TLS with the hub and the proxy; ``None`` where a version before 0.2.0 started it.
        word: which session it is, as its certificate and the proxy's route say; "" where an earlier version started it.
        last_end: why the session before this one ended, for the server page.
        foretold: what was said of its start, until that is compared with the start itself.
        next_key: of a job that is just being submitted to take the place of this one; a hub that starts forgets it.
        entries: who entered it, for the server page; kept when it has ended, until the next one or for minutes.
    """

    key: str = ""
    job_id: str = ""
    token: str = ""
    port: int = 0
    announcement: Announcement | None = None
    place: Place | None = None
    restarts: int = 0
    submitted: int = 0
    tls: bool | None = None
    word: str = ""
    last_end: str = ""
    next_key: str = ""
    entries: tuple[Visit, ...] = ()
    foretold: Foretold | None = None

    @property
    def is_waiting(self) -> bool:
        """True for a session whose job was asked for, and whose server has not answered."""
        return bool(self.key) and not self.port

    @property
    def keys(self) -> set[str]:
        """The keys of all jobs that are this session's."""
        return set(filter(None, (self.key, self.next_key)))

    def untold(self, now: float) -> list[Visit]:
        """Who entered it not long ago, which its person may not have read; ``now`` is in seconds since 1970."""
        return [entry for entry in self.entries if entry.at > now - TOLD_FOR_S]

    @property
    def entered_lately(self) -> tuple[Visit, ...]:
        """Who entered it in its last minutes: its person may have started the next one before she read it."""
        since = time.time() - TOLD_AT_LEAST_S
        return tuple(entry for entry in self.entries if entry.at > since)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, under the keys of versions before; :class:`TokenSeal` closes the token that is saved."""
        state: dict[str, Any] = {"job_id": self.job_id} if self.job_id else {}
        if self.last_end:
            state["last_end"] = self.last_end
        if self.entries:
            state["entered"] = [[entry.who, entry.at, entry.reason] for entry in self.entries]
        if not self.key:
            return state
        if self.announcement:
            state["announced"] = [self.announcement.port, self.announcement.restarts]
        if self.place:
            state["run"] = [self.place.node, self.place.started]
        if self.tls is not None:
            state["tls"] = self.tls
        if self.word:
            state["word"] = self.word
        if self.foretold:
            state["foretold"] = list(astuple(self.foretold))
        if self.next_key:
            state["next_key"] = self.next_key
        counts = {"restarts": self.restarts, "submitted": self.submitted}
        return {**state, "key": self.key, "token": self.token, "port": self.port, **counts}

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> SessionState:
        """Read what :meth:`to_json` wrote, in this version or one before it; what is missing is empty."""
        return cls(
            key=state.get("key", ""),
            job_id=state.get("job_id", ""),
            token=state.get("token", ""),
            port=state.get("port", 0),
            announcement=_announcement(state),
            place=_place(state),
            restarts=state.get("restarts", 0),
            submitted=state.get("submitted", 0),
            tls=state.get("tls"),
            word=state.get("word", ""),
            last_end=state.get("last_end", ""),
            next_key=state.get("next_key", ""),
            entries=tuple(Visit(*entry) for entry in state.get("entered", ())),
            foretold=Foretold(*state["foretold"]) if state.get("foretold") else None,
        )


def word_of(token: str) -> str:
    """Which session it is that has a token: nobody else has that word, and it does not tell the token."""
    return hashlib.sha256(f"{WORD_OF} {token}".encode()).hexdigest()[:32]


@dataclass(frozen=True)
class TokenSeal:
    """Closes the token in a session's state before it is saved or shown, and opens it again.

    JupyterHub shows a state to whoever has the scope ``admin:server_state``, and a backup of the database holds it.

    Attributes:
        key: of one hub, in a file of its own (``session_key``); never shown.
    """

    key: bytes = field(default_factory=Fernet.generate_key, repr=False)

    def __post_init__(self) -> None:
        """Refuse what is no key: ``ValueError``."""
        Fernet(self.key)

    def closed(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The same state, and nobody without the key reads its token."""
        rest = {name: value for name, value in state.items() if name != "token"}
        token = state.get("token", "")
        return {**rest, "sealed_token": Fernet(self.key).encrypt(token.encode()).decode()} if token else rest

    def opened(self, saved: Mapping[str, Any]) -> dict[str, Any]:
        """The same state with its token; without it where another key closed it. Before 0.2.0 it was not closed."""
        rest = {name: value for name, value in saved.items() if name != "sealed_token"}
        try:
            return {**rest, "token": Fernet(self.key).decrypt(saved["sealed_token"].encode()).decode()}
        except (KeyError, InvalidToken):
            return rest


def _announcement(state: Mapping[str, Any]) -> Announcement | None:
    if announced := state.get("announced"):
        return Announcement(*announced)
    before = state.get("told")  # before 0.2.0: with the hub's own time
    return Announcement(int(before[0])) if before else None


def _place(state: Mapping[str, Any]) -> Place | None:
    if run := state.get("run"):
        return Place(*run)
    node, since = state.get("place") or ("", "")  # before 0.2.0: with the local time that Slurm printed
    started = int(datetime.fromisoformat(since).timestamp()) if since else 0
    return Place(node, started) if node else None
