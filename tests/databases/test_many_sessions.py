"""A thousand sessions on a database server: the hub is killed, then the server, and each session is there as before."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.bench import cluster_setup
from tests.databases.servers import DatabaseServer
from tests.faults.census import Name, held, queued, take
from tests.faults.hubs import CHECKOUT, StubHub
from tests.faults.test_hub_killed import PEOPLE, Clicks
from tests.inside import VENV_BIN, eventually, sh

SESSIONS = int(os.environ.get("DSPORTAL_DATABASE_SESSIONS", "1000"))
AT_ONCE = 8
STARTED_WITHIN_S = 900
BACK_WITHIN_S = 120
SLOW_CLICKS_MAX = 10  # of a machine that has much else to do


@pytest.fixture(scope="module")
def big_nodes() -> None:
    """Nodes with room for all of them, on paper; until the cluster of this run is taken away."""
    if f"CPUs={cluster_setup.CORES}" not in cluster_setup.SLURM_CONF.read_text():
        asked = "from tests.bench import cluster_setup; cluster_setup.enlarge_nodes()"  # its daemons outlive this run
        sh("env", f"PYTHONPATH={CHECKOUT}", str(VENV_BIN / "python"), "-c", asked, timeout_s=180)


@pytest.fixture(scope="module")
def stubs(server: DatabaseServer, big_nodes: None, roots_file: None) -> Iterator[StubHub]:
    """A hub with stub sessions on a database of its own."""
    server.add_database("many")
    ours = StubHub()
    ours.settings = server.settings("many")
    ours.prepare()
    ours.start_answering()
    ours.start()
    yield ours
    ours.stop()
    ours.stop_answering()
    cluster_setup.end_jobs()


def test_every_session_is_kept_when_the_hub_is_killed_and_when_its_database_server_is(
    stubs: StubHub, server: DatabaseServer, record_testsuite_property: Callable[[str, object], None]
) -> None:
    wanted = [(PEOPLE[number % len(PEOPLE)], f"s{number}") for number in range(SESSIONS)]
    began = time.monotonic()
    before = filled(stubs, wanted)
    figures = {"sessions": SESSIONS, "started_s": round(time.monotonic() - began)}

    began = time.monotonic()
    stubs.kill()
    stubs.start()
    first_page_s = time.monotonic() - began
    with stubs.client() as client:
        eventually(lambda: are_ready(client, wanted), "every session is looked at again", within_s=BACK_WITHIN_S)
        known_s = time.monotonic() - began
        assert take(client, stubs.number).jobs(wanted) == before
    server.kill()
    server.start()
    with stubs.client() as client:
        eventually(lambda: are_ready(client, wanted), "the hub is well again", within_s=BACK_WITHIN_S)
        census = take(client, stubs.number)
    figures |= {"first_page_s": round(first_page_s), "all_known_s": round(known_s)}
    record_testsuite_property(f"many_sessions_{server.kind}", figures)  # in the JUnit report, below .test-artefacts

    assert census.jobs(wanted) == before
    assert not census.lost(wanted)
    assert not census.orphans()
    assert len(queued(stubs.number)) == SESSIONS


def filled(stubs: StubHub, wanted: list[Name]) -> dict[Name, list[str]]:
    """Start every session, and wait until all run; answers their jobs."""
    clicks = Clicks()
    with stubs.client() as client:
        for user in PEOPLE:
            client.post(f"/users/{user}")
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda name: clicks.start(stubs, name, "requestq"), wanted))
        assert len(clicks.unanswered) <= SLOW_CLICKS_MAX, sorted(clicks.unanswered)
        for name in clicks.unanswered - set(held(client)):  # who gets no answer in 30 s presses again
            clicks.start(stubs, name, "requestq")
        eventually(lambda: are_ready(client, wanted), "all sessions run", within_s=STARTED_WITHIN_S, every_s=2)
        jobs = take(client, stubs.number).jobs(wanted)
    assert {len(one) for one in jobs.values()} == {1}
    assert sh("squeue", "--noheader", "--states=RUNNING", "--format=%i").split()
    return jobs


def are_ready(client: httpx.Client, wanted: list[Name]) -> bool:
    """Whether the hub answers and calls all of them ready."""
    try:
        there = held(client)
    except httpx.HTTPError:
        return False
    return all(name in there and there[name].ready for name in wanted)
