"""Sessions of a hub whose database is a server: from the click to the end, and through every death of either."""

from __future__ import annotations

import html
import time
from pathlib import Path

import httpx

from portal.guard.pages import NO_DATABASE
from tests.databases.servers import PASSWORD, DatabaseServer
from tests.faults.hubs import FaultHub
from tests.faults.watch import watching
from tests.hub.conftest import Person
from tests.inside import eventually, has_no_job, home, jobs_of, sh

AWAY_S = 60.0


def is_well(person: Person) -> bool:
    """Whether the hub answers for a session that is ready, and the session itself answers."""
    try:
        return person.is_ready()
    except (httpx.HTTPError, ValueError):
        return False


def test_a_session_runs_from_the_click_to_its_end_and_nobody_sees_the_password(hub: FaultHub, alice: Person) -> None:
    alice.start(gpus="0")

    seen = [path for path in Path("/proc").glob("[0-9]*/*") if path.name in ("cmdline", "environ") and holds(path)]
    kept = [path for folder in (hub.folder, home("alice")) for path in folder.rglob("*") if holds(path)]

    assert not seen
    assert not kept
    assert PASSWORD not in sh("squeue", "--noheader", "--format=%j %k %o", "--user=alice")
    alice.stop()
    eventually(lambda: has_no_job("alice"), "the job has ended")


def holds(file: Path) -> bool:
    """Whether a file holds the password of the database."""
    try:
        return file.is_file() and not file.is_symlink() and PASSWORD.encode() in file.read_bytes()
    except OSError:  # the process has ended
        return False


def test_a_hub_that_is_killed_finds_its_sessions_again(hub: FaultHub, alice: Person) -> None:
    job_id = alice.start(gpus="0")

    hub.kill()
    hub.start()

    eventually(lambda: is_well(alice), "the session is there again", within_s=60)
    assert jobs_of("alice") == [job_id]


def test_a_server_that_is_killed_in_the_middle_ends_no_session_and_loses_no_start(
    hub: FaultHub, server: DatabaseServer, alice: Person, bob: Person
) -> None:
    job_id = alice.start(gpus="0")
    with watching(alice) as seen:
        answer = bob.spawn(gpus="0")
        server.kill()
        words = page_of(bob)
        server.start()
        eventually(lambda: is_well(alice), "the hub answers again", within_s=60)

    assert answer.status_code == 200
    assert NO_DATABASE in words
    assert jobs_of("alice") == [job_id]
    assert not seen.bad, seen.bad
    if not eventually(lambda: bob.server() or has_no_job("bob"), "the start is held, or has left no job", within_s=90):
        bob.start(gpus="0")
    eventually(lambda: is_well(bob) or not bob.server(), "the other start comes to its end", within_s=120)
    assert len(jobs_of("bob")) == int(bool(bob.server())), "no job that no session holds"


def page_of(person: Person) -> str:
    """The hub's first page that says that something is wrong."""

    def failing() -> str:
        answer = person.http.get("/hub/home")
        return html.unescape(answer.text) if answer.status_code == 503 else ""

    return eventually(failing, "a page says that the database is away", within_s=30)


def test_a_server_that_is_away_for_a_minute_is_told_in_words_and_nothing_is_lost(
    hub: FaultHub, server: DatabaseServer, alice: Person, bob: Person
) -> None:
    job_id = alice.start(gpus="0")
    server.stop()
    slowest = 0.0
    with watching(alice) as seen:
        until = time.monotonic() + AWAY_S
        while time.monotonic() < until:
            began = time.monotonic()
            answer = bob.http.get("/hub/home")
            slowest = max(slowest, time.monotonic() - began)
            assert answer.status_code == 503
            assert NO_DATABASE in html.unescape(answer.text)
            time.sleep(1)

    server.start()
    eventually(lambda: is_well(alice), "the hub answers again", within_s=60)

    assert {bad.split()[-1] for bad in seen.bad} <= {"502"}, "the session refuses nobody: it cannot ask who it is"
    assert slowest < 5, "who asks is told at once"
    assert jobs_of("alice") == [job_id]
    assert bob.http.get("/hub/home").status_code == 200, "nobody was logged out"
    bob.start(gpus="0")


def test_a_hub_does_not_start_without_its_server_and_says_so(hub: FaultHub, server: DatabaseServer) -> None:
    hub.end()
    server.stop()

    done = hub.run()

    server.start()
    hub.start()
    assert done.returncode == 1
    assert f"{server.settings()['database_url']} does not answer as it should" in done.stderr
    assert PASSWORD not in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
