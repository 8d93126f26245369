"""What the hub keeps of a session, in JupyterHub's database: everything that must survive the hub's end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Announcement:
    """The port that a session's server announced, and when: seconds since 1970 on the hub's clock."""

    port: int
    at: float


@dataclass(frozen=True)
class Place:
    """Where a job runs and since when (as Slurm prints it, ``""`` when it does not say): one run of the job."""

    node: str
    since: str = ""


@dataclass(frozen=True)
class SessionState:
    """One session; an empty one is no session.

    Attributes:
        key: sixteen hexadecimal digits, which the job carries in its name; ``""`` before the submission.
        job_id: Slurm's number of the job; ``""`` until ``sbatch`` has answered.
        token: the session's own API token, which stays the same for its whole life.
        port: where its server listens; 0 until it has answered, and again while Slurm moves the job.
        announcement: what its server announced last; kept because a server announces its port only once.
        place: the run of the job to which ``port`` belongs.
        last_end: why the session before this one ended, for the server page.
    """

    key: str = ""
    job_id: str = ""
    token: str = ""
    port: int = 0
    announcement: Announcement | None = None
    place: Place | None = None
    last_end: str = ""

    @property
    def is_waiting(self) -> bool:
        """True for a session whose job was asked for, and whose server has not answered."""
        return bool(self.key) and not self.port

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, in the keys of the versions before 0.1.0: a hub can be rolled back to one of them."""
        state: dict[str, Any] = {"job_id": self.job_id} if self.job_id else {}
        if self.last_end:
            state["last_end"] = self.last_end
        if not self.key:
            return state
        told = [self.announcement.port, self.announcement.at] if self.announcement else None
        place = [self.place.node, self.place.since] if self.place else None
        return {**state, "key": self.key, "token": self.token, "port": self.port, "place": place, "told": told}

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> SessionState:
        """Read what :meth:`to_json` wrote, in this version or one before it; what is missing is empty."""
        told = state.get("told")
        place = state.get("place")
        return cls(
            key=state.get("key", ""),
            job_id=state.get("job_id", ""),
            token=state.get("token", ""),
            port=state.get("port", 0),
            announcement=Announcement(int(told[0]), float(told[1])) if told else None,
            place=Place(*place) if place else None,
            last_end=state.get("last_end", ""),
        )
