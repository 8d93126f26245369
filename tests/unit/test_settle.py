"""Jobs that no session holds: a hub ends its own, and nobody else's."""

from __future__ import annotations

import asyncio
import getpass
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from jupyterhub import orm
from sqlalchemy import event

from portal.hub.app import PortalHub
from portal.hub.watch import SETTLED_PER_PERSON, SessionWatch
from portal.session_state import SessionState
from portal.slurm.cluster import Cluster
from portal.slurm.runner import Result
from portal.slurm.submission import UNFINISHED_PER_PERSON, Submission
from portal.testing.fake_slurm import FakeSlurm
from portal.testing.outages import LauncherFails

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

    await watch_of(hub, cluster).settle()

    ended = {key for key, job_id in jobs.items() if await cluster.ended(job_id)}
    assert ended == {LOST}
    assert loaded == [], "of five thousand people that takes a third of a second, in the event loop"


async def test_a_session_that_was_not_written_yet_holds_its_job(hub: Any) -> None:
    slurm = FakeSlurm()
    cluster = Cluster("/opt/portal-launch", run=slurm, clock=slurm.clock, pause=slurm.pause)
    job_id = await cluster.submit("alice", Submission(LOST, (f"--job-name=dsportal-{LOST}",), {}))
    hub.db.add(orm.Spawner(name="second", user_id=1, state=SessionState(key=LOST).to_json()))

    await watch_of(hub, cluster).settle()

    assert await cluster.ended(job_id) is None


def watch_of(hub: Any, cluster: Cluster) -> SessionWatch:
    """What the hub does for all its sessions together."""
    return SessionWatch(cluster, hub.hub_id, tuple, hub._held_keys, logging.getLogger("test"))


class SilentHome(FakeSlurm):
    """A cluster in which some homes are away: a launcher that runs as their owner to end a job never answers."""

    silent: tuple[str, ...] = ("alice",)

    async def __call__(
        self, argv: Sequence[str], stdin: str = "", env: Mapping[str, str] | None = None, timeout_s: float = 10
    ) -> Result:
        """Nothing from what ends a job of theirs."""
        if set(self.silent) & set(argv) and '"finish"' in stdin:
            await asyncio.Event().wait()
        return await super().__call__(argv, stdin, env, timeout_s)


async def test_a_lost_job_whose_home_is_silent_keeps_the_hub_from_ending_no_other_one(hub: Any) -> None:
    slurm = SilentHome()
    cluster = Cluster("/opt/portal-launch", run=slurm, clock=slurm.clock, pause=slurm.pause)
    jobs = {}
    for number, person in enumerate(("alice", "bob")):
        key = f"{HUB}000000001{number}"
        jobs[person] = await cluster.submit(person, Submission(key, (f"--job-name=dsportal-{key}",), {}))

    settling = asyncio.ensure_future(watch_of(hub, cluster).settle())
    async with asyncio.timeout(5):
        while not await cluster.ended(jobs["bob"]):  # noqa: ASYNC110  time goes by in the launcher's own waits
            await asyncio.sleep(0)

    assert not settling.done(), "Alice's is tried for as long as the launcher may take"
    assert await cluster.ended(jobs["alice"]) is None
    settling.cancel()


async def test_one_person_with_any_number_of_jobs_called_like_sessions_costs_a_few_of_them_in_each_look(
    hub: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = SilentHome()
    cluster = Cluster("/opt/portal-launch", run=slurm, clock=slurm.clock, pause=slurm.pause)
    monkeypatch.setattr("portal.hub.watch.SETTLE_WAIT_S", 0.05)
    for number in range(100):
        slurm.take("alice", {"job-name": f"dsportal-{HUB}{number:010x}", "partition": "sxm2"})
    slurm.take("bob", {"job-name": f"dsportal-{HUB}{200:010x}", "partition": "sxm2"})
    watch = watch_of(hub, cluster)
    slurm.asked.clear()

    for _ in range(3):
        await watch.settle()

    looked_at = [command[-1] for command in slurm.asked if command[0] == "scontrol"]
    assert looked_at == ["1", "101"], "hers wait for her first one, whose home is silent; his is ended"
    assert await cluster.ended("101")
    slurm.silent = ()
    watch.settling.pop("alice").cancel()
    await watch.settle()
    assert sum([bool(await cluster.ended(str(number))) for number in range(1, 101)]) == SETTLED_PER_PERSON


async def test_lines_in_the_name_of_somebodys_job_keep_nobody_elses_lost_job_from_being_ended(hub: Any) -> None:
    slurm = FakeSlurm()
    cluster = Cluster("/opt/portal-launch", run=slurm, clock=slurm.clock, pause=slurm.pause)
    lines = "\n".join(f"{number}|alice|dsportal-{HUB}{number:010x}" for number in range(900, 920))
    slurm.take("mallory", {"job-name": f"x\n{lines}\ny", "partition": "sxm2"})
    lost = slurm.take("alice", {"job-name": f"dsportal-{LOST}", "partition": "sxm2"})
    slurm.asked.clear()

    await watch_of(hub, cluster).settle()

    assert await cluster.ended(lost.id)
    assert await cluster.ended("1") is None
    assert [command[-1] for command in slurm.asked if "show" in command][:1] == [lost.id], "nothing else looks like one"


async def test_every_job_that_looks_like_a_session_has_its_turn(hub: Any) -> None:
    """The names of alice's other jobs only begin like those of sessions: slurmctld says so of each, at each look."""
    slurm = FakeSlurm()
    cluster = Cluster("/opt/portal-launch", run=slurm, clock=slurm.clock, pause=slurm.pause)
    alike = [
        slurm.take("alice", {"job-name": f"dsportal-{HUB}{n:010x}x", "partition": "sxm2"}).id for n in range(50, 70)
    ]
    lost = slurm.take("alice", {"job-name": f"dsportal-{LOST}", "partition": "sxm2"}).id
    watch = watch_of(hub, cluster)
    looks = []

    for _ in range(4):
        slurm.asked.clear()
        await watch.settle()
        looks.append([command[-1] for command in slurm.asked if "show" in command])

    eight = SETTLED_PER_PERSON
    assert looks[:2] == [alike[:eight], alike[eight : 2 * eight]]
    assert looks[2] == [*alike[2 * eight :], lost, *alike[:3]], "then from the beginning"
    assert looks[3] == alike[3 : 3 + eight]
    assert await cluster.ended(lost)


@pytest.mark.parametrize("silent", [["alice"] * 10, [f"p{number}" for number in range(10)]])
async def test_homes_that_are_silent_keep_no_other_session_from_being_cleaned_up(
    monkeypatch: pytest.MonkeyPatch, silent: list[str]
) -> None:
    monkeypatch.setattr("portal.slurm.submission.PATIENCE_S", 0.02)
    slurm = SilentHome()
    slurm.silent = tuple(silent)
    cluster = Cluster("/opt/portal-launch", run=slurm, clock=slurm.clock, pause=slurm.pause)
    hanging = [
        asyncio.ensure_future(cluster.clean_up(person, f"{HUB}{number:010x}")) for number, person in enumerate(silent)
    ]
    await asyncio.sleep(0)

    async with asyncio.timeout(5):
        await cluster.clean_up("bob", f"{HUB}{99:010x}")

    assert f"{HUB}{99:010x}" not in cluster.unfinished
    assert set(cluster.unfinished.values()) == set(silent), "each is tried, one at a time for each person"
    assert len(cluster.unfinished) == len(set(silent))
    for clean_up in hanging:
        clean_up.cancel()


async def test_of_one_person_few_sessions_are_remembered_that_could_not_be_cleaned_up() -> None:
    slurm = FakeSlurm()
    slurm.outage = LauncherFails()
    cluster = Cluster("/opt/portal-launch", run=slurm, clock=slurm.clock, pause=slurm.pause)
    me = getpass.getuser()
    for number in range(UNFINISHED_PER_PERSON + 5):
        await cluster.clean_up(me, f"{HUB}{number:010x}")

    assert list(cluster.unfinished) == [f"{HUB}{number:010x}" for number in range(5, UNFINISHED_PER_PERSON + 5)]
