"""TLS between the hub, its proxy and the sessions on the nodes: a setting of the site."""

from __future__ import annotations

import json
import re
import sqlite3
import ssl
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from cryptography import x509

from tests import loop_watch
from tests.hub.conftest import Hub, Person
from tests.inside import eventually, jobs_of, sh

PORT = 18400
CLOSED = "requestq"


@pytest.fixture
def hub_with_tls() -> Iterator[Hub]:
    """A hub whose inner connections are encrypted; its own address is plain and has a path, as behind a site's own."""
    ours = Hub(Path("/cluster/test-internal-ssl"), PORT, base_url="/jupyter/")
    ours.prepare()
    ours.watch_loop()
    ours.start()
    yield ours
    ours.stop()


def test_a_session_is_reached_by_tls_only_and_only_by_its_hub(hub_with_tls: Hub) -> None:
    alice = Person("alice", hub_with_tls.url)
    assert alice.login().status_code == 200
    try:
        job_id = alice.start(gpus="0")
        node, port = re.findall(r"=> https://(gpu\d+):(\d+)", hub_with_tls.log())[-1]
        for url in (f"https://{node}:{port}/jupyter/user/alice/api", f"http://{node}:{port}/jupyter/user/alice/api"):
            with pytest.raises(httpx.HTTPError):  # who has no certificate of the hub's authority gets no answer
                httpx.get(url, trust_env=False, verify=False)  # noqa: S501
        shown = x509.load_pem_x509_certificate(ssl.get_server_certificate((node, int(port))).encode())
        names = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert node in names.get_values_for_type(x509.DNSName)

        hub_with_tls.kill()
        hub_with_tls.start()
        eventually(alice.is_ready, "the session is there again", within_s=30)
        assert jobs_of("alice") == [job_id]
        waited_for = hub_with_tls.waited_for()
        assert not waited_for, loop_watch.shown(waited_for)
    finally:
        alice.stop()
        alice.http.close()


def test_a_session_that_waits_is_taken_up_after_a_restart_of_the_hub(hub_with_tls: Hub) -> None:
    alice = Person("alice", hub_with_tls.url)
    assert alice.login().status_code == 200
    try:
        sh("scontrol", "update", f"PartitionName={CLOSED}", "State=DOWN")
        alice.spawn(gpus="0", partition=CLOSED)
        waiting = eventually(lambda: jobs_of("alice"), "the job waits")

        hub_with_tls.kill()
        hub_with_tls.start()
        eventually(lambda: alice.server().get("pending") == "spawn", "the session waits again", within_s=30)
        sh("scontrol", "update", f"PartitionName={CLOSED}", "State=UP")

        eventually(alice.is_ready, "the session runs", within_s=60)
        assert jobs_of("alice") == waiting
    finally:
        sh("scontrol", "update", f"PartitionName={CLOSED}", "State=UP")
        alice.stop()
        alice.http.close()


@pytest.mark.long
def test_sessions_from_before_internal_tls_go_on_when_it_is_switched_on() -> None:
    """One that runs and one that waits; their states are those of a version that did not know of it."""
    hub = Hub(Path("/cluster/test-internal-ssl-later"), PORT)
    hub.prepare()
    with_tls = hub.site_file.read_text()
    hub.site_file.write_text(with_tls.replace("[portal]\n", "[portal]\ninternal_ssl = false\n"))
    hub.start()
    people = {name: Person(name, hub.url) for name in ("alice", "bob")}
    try:
        for person in people.values():
            assert person.login().status_code == 200
        sh("scontrol", "update", f"PartitionName={CLOSED}", "State=DOWN")
        people["bob"].spawn(gpus="0", partition=CLOSED)
        jobs = {"bob": eventually(lambda: jobs_of("bob"), "the job waits"), "alice": [people["alice"].start(gpus="0")]}
        hub.end()
        forget_tls(hub.folder / "state" / "jupyterhub.sqlite")

        hub.site_file.write_text(with_tls)
        hub.start()
        eventually(people["alice"].is_ready, "the session goes on", within_s=30)
        sh("scontrol", "update", f"PartitionName={CLOSED}", "State=UP")
        eventually(people["bob"].is_ready, "the one that waited runs", within_s=60)
        assert {name: jobs_of(name) for name in people} == jobs

        people["alice"].stop()
        people["alice"].start(gpus="0")
        assert re.search(r"user/alice/? => https://", hub.log()), "the next one has TLS"
    finally:
        sh("scontrol", "update", f"PartitionName={CLOSED}", "State=UP")
        for person in people.values():
            person.stop()
            person.http.close()
        hub.stop()


def forget_tls(database: Path) -> None:
    """Take away from each session's state what a version before did not write."""
    with closing(sqlite3.connect(database)) as db, db:
        rows = db.execute("SELECT id, state FROM spawners WHERE state LIKE '%token%'").fetchall()
        assert rows
        for number, text in rows:
            state = {key: value for key, value in json.loads(text).items() if key != "tls"}
            db.execute("UPDATE spawners SET state = ? WHERE id = ?", (json.dumps(state), number))
