"""What the hub's own parts share: PortalHub makes it, and every spawner finds it in JupyterHub's settings."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from jupyterhub import orm
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session, object_session

from portal.errors import PortalError
from portal.forecasts.asked_starts import AskedStarts
from portal.forecasts.shared_look import SharedLook
from portal.forecasts.turns import Pace
from portal.limits.slurm_limits import SlurmLimits
from portal.quotas.asked import Quotas
from portal.receipts.book import ReceiptBook
from portal.session_state import SessionState, TokenSeal
from portal.slurm.cluster import Cluster

SETTING = "dsportal"  # its key in JupyterHub's settings
RESUMER = "dsportal"  # the service that resumes waiting sessions


@dataclass(frozen=True)
class HubContext:
    """One per hub.

    Attributes:
        hub_id: six hexadecimal digits that every session key of this hub begins with.
        cluster: the one view of Slurm; ``None`` in the local mode.
        seal: closes the sessions' tokens in what is saved.
        serving: set when the hub serves its pages; sessions that ran before are looked at only then.
    """

    hub_id: str
    cluster: Cluster | None
    seal: TokenSeal = field(default_factory=TokenSeal)
    serving: asyncio.Event = field(default_factory=asyncio.Event)

    def state(self, saved: Mapping[str, Any]) -> SessionState:
        """A session's state as it was saved, with its token where the key opens it."""
        return SessionState.from_json(self.seal.opened(saved))

    @cached_property
    def limits(self) -> SlurmLimits:
        """What Slurm lets people have."""
        return SlurmLimits(self.slurm)

    @cached_property
    def look(self) -> SharedLook:
        """The one picture of the cluster for all forms that are open."""
        return SharedLook(self.slurm)

    @cached_property
    def change_pace(self) -> Pace:
        """How often each person's changes of a request that waits ask Slurm."""
        return Pace(self.slurm.now)

    @cached_property
    def asked_starts(self) -> AskedStarts:
        """When Slurm itself would start what people look at."""
        return AskedStarts(self.slurm)

    @cached_property
    def receipts(self) -> ReceiptBook:
        """What sessions used."""
        return ReceiptBook(self.slurm)

    @cached_property
    def quotas(self) -> Quotas:
        """How full people's folders are."""
        return Quotas()

    @property
    def slurm(self) -> Cluster:
        """The one view of Slurm.

        Raises:
            PortalError: this is the local mode.
        """
        if self.cluster is None:
            raise PortalError("This portal runs in its local mode, which has no Slurm.")
        return self.cluster


def context_of(settings: Mapping[str, Any]) -> HubContext:
    """The context in JupyterHub's (tornado's) settings."""
    context: HubContext = settings[SETTING]
    return context


def state_of(row: Any) -> SessionState:
    """The state that JupyterHub's row of a session holds (``orm.Spawner``), with its token where the key opens it."""
    db = object_session(row)
    context: HubContext | None = db.info.get(SETTING) if db else None
    saved = row.state or {}
    return context.state(saved) if context else SessionState.from_json(saved)


def has_key(db: Session, person: str, session: str, key: str) -> bool:
    """Whether somebody's session of a name is still the one that has this key; yes while the database is away."""
    try:
        found = orm.User.find(db, person)
        row = found.orm_spawners.get(session) if found else None
        return row is not None and state_of(row).key == key
    except SQLAlchemyError:
        db.rollback()
        return True
