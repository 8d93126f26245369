"""Jobs that no session holds: a hub ends its own, and nobody else's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from jupyterhub import orm
from sqlalchemy import event

from portal.hub.app import PortalHub
from portal.session_state import SessionState
from portal.slurm.cluster import Cluster
from portal.slurm.submission import Submission
from portal.testing.fake_slurm import FakeSlurm

HUB = "abc123"
HELD, LOST, ANOTHER_HUBS = f"{HUB}0000000001", f"{HUB}0000000002", "fed3210000000003"


@pytest.fixture
def loaded() -> Iterator[list[object]]:
    """Every row of a session that is made an object of."""
    objects: list[object] = []

    def load(row: object, *_: object) -> None:
        objects.append(row)

    event.listen(orm.Spawner, "load", load)
    yield objects
    event.remove(orm.Spawner, "load", load)


@pytest.fixture
def hub() -> Iterator[PortalHub]:
    """A hub with one session, and many people who have had one."""
    db = orm.new_session_factory("sqlite:///:memory:")()
    for number in range(20):
        db.add(orm.Spawner(name="", user=orm.User(name=f"p{number}"), state={"last_end": f"of {HUB}" * (number % 2)}))
    db.add(orm.Spawner(name="", user=orm.User(name="new"), state=None))
    db.add(orm.Spawner(name="", user=orm.User(name="alice"), state=SessionState(key=HELD).to_json()))
    db.commit()
    db.expunge_all()
    made = PortalHub(hub_id=HUB)
    made.db = db
    yield made
    db.close()


async def test_a_job_of_ours_without_a_session_is_ended_and_no_other_and_no_row_is_read_for_nothing(
    hub: Any, loaded: list[object]
) -> None:
    slurm = FakeSlurm()
    cluster = Cluster("/opt/portal-launch", run=slurm, clock=slurm.clock, pause=slurm.pause)
    jobs = {}
    for key in (HELD, LOST, ANOTHER_HUBS):
        jobs[key] = await cluster.submit("alice", Submission(key, (f"--job-name=dsportal-{key}",), {}))

    await hub.settle(cluster)

    ended = {key for key, job_id in jobs.items() if await cluster.ended(job_id)}
    assert ended == {LOST}
    assert loaded == [], "of five thousand people that takes a third of a second, in the event loop"


async def test_a_session_that_was_not_written_yet_holds_its_job(hub: Any) -> None:
    slurm = FakeSlurm()
    cluster = Cluster("/opt/portal-launch", run=slurm, clock=slurm.clock, pause=slurm.pause)
    job_id = await cluster.submit("alice", Submission(LOST, (f"--job-name=dsportal-{LOST}",), {}))
    hub.db.add(orm.Spawner(name="second", user_id=1, state=SessionState(key=LOST).to_json()))

    await hub.settle(cluster)

    assert await cluster.ended(job_id) is None
