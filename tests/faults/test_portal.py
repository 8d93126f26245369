"""The portal's own parts: its proxy dies, its ports are taken, its database is held, damaged or brought back."""

from __future__ import annotations

import re
import shutil
import socket
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest

from portal.hub.database import FILE
from tests.faults.hubs import CHECKOUT, FaultHub
from tests.faults.table import Row, sized
from tests.faults.watch import watching
from tests.forms import of_long_form
from tests.hub.conftest import FOLDER, PORT, Person
from tests.inside import VENV_BIN, eventually, jobs_of, sh

BACK_WITHIN_S = 10.0
RESTORED_WITHIN_S = 60.0


@pytest.fixture(scope="module")
def other() -> Iterator[FaultHub]:
    """A hub that has run once, beside the ring's own; it does not run now."""
    ours = FaultHub(FOLDER.with_name("test-other"), PORT + 600)
    ours.prepare()
    ours.start()
    ours.stop()
    yield ours
    ours.stop()


def test_a_proxy_that_is_killed_is_back_with_all_its_routes(hub: FaultHub, alice: Person, row: Row) -> None:
    row.fault, row.done = "proxy killed", "kill -9 of the proxy, a session runs"
    job_id = alice.start(gpus="0")

    sh("kill", "-KILL", (hub.state / "proxy.pid").read_text().strip())
    began = time.monotonic()
    eventually(lambda: is_reached(alice), "the session is reached again", within_s=30, every_s=0.1)

    row.seconds, row.lost = time.monotonic() - began, int(jobs_of("alice") != [job_id])
    assert row.seconds <= BACK_WITHIN_S
    assert row.lost == 0


def is_reached(person: Person) -> bool:
    """True when the session answers through the proxy."""
    try:
        return person.http.get(f"/user/{person.name}/api/contents").status_code == 200
    except httpx.HTTPError:
        return False


@pytest.mark.parametrize(("what", "offset"), [("port", 0), of_long_form("hub_port", 81), of_long_form("proxy_port", 1)])
def test_a_port_that_is_taken_is_told_by_name(other: FaultHub, what: str, offset: int, row: Row) -> None:
    port = other.port + offset
    row.fault, row.done = f"portal.{what} taken", f"another program listens on port {port}"
    with socket.create_server(("127.0.0.1", port)):
        began = time.monotonic()
        done = other.run()
    row.seconds = time.monotonic() - began

    words = done.stderr + done.stdout
    row.seen = next((line.strip()[:110] for line in words.splitlines() if str(port) in line), "")
    assert done.returncode != 0
    assert re.search(rf"portal\.{what}\b.*\b{port}\b|\b{port}\b.*portal\.{what}\b", words), words[-3000:]
    assert "Traceback" not in words


def test_a_second_start_of_the_same_portal_is_refused_and_the_first_goes_on(
    hub: FaultHub, alice: Person, row: Row
) -> None:
    row.fault, row.done = "portal started twice", "portal up while it runs already"
    alice.start(gpus="0")
    with watching(alice) as seen:
        done = hub.run()

    row.seen = f"{seen.good} of {seen.good + len(seen.bad)} requests answered"
    assert done.returncode == 1
    assert f"portal.hub_port: 127.0.0.1:{hub.port + 81}: Address already in use" in done.stderr
    assert seen.good
    assert not seen.bad


@contextmanager
def held_for_writing(file: Path) -> Iterator[None]:
    """Another process's open transaction."""
    with closing(sqlite3.connect(file, isolation_level=None, timeout=30)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        yield
        holder.execute("ROLLBACK")


def test_a_portal_does_not_start_on_a_database_that_is_held(other: FaultHub, row: Row) -> None:
    row.fault, row.done = "database locked at start", "BEGIN EXCLUSIVE in another process"
    file = other.state / FILE
    with held_for_writing(file):
        refused(other, row, "is locked by another process")

    other.start()
    other.stop()


@pytest.mark.parametrize("harm", ["truncated", "garbled", "empty"])
def test_a_portal_does_not_start_on_a_damaged_database_and_leaves_it_alone(
    other: FaultHub, harm: str, row: Row
) -> None:
    row.fault, row.done = f"database {harm}", "the portal is started on it"
    file = other.state / FILE
    whole = file.read_bytes()
    half, page = len(whole) // 2, 4096
    contents = {"truncated": whole[:half], "garbled": whole[:page] + b"\xa5" * half, "empty": b""}[harm]
    file.write_bytes(contents)

    refused(other, row, "Restore it from a backup")

    assert file.read_bytes() == contents
    file.write_bytes(whole)


def refused(hub: FaultHub, row: Row, words: str) -> None:
    """It ends by itself, soon, with these words and the file's name, and without a Python traceback."""
    began = time.monotonic()
    done = hub.run()
    row.seconds = time.monotonic() - began
    row.seen = next((line[:140] for line in done.stderr.splitlines() if FILE in line), "")
    assert done.returncode == 1
    assert words in done.stderr
    assert f"{hub.state / FILE} " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_hub_whose_database_is_held_for_a_while_goes_on_afterwards(
    hub: FaultHub, alice: Person, bob: Person, row: Row
) -> None:
    seconds = sized(30, 6)
    row.fault, row.done = "database locked while running", f"{seconds} s, a session runs, another person starts one"
    job_id = alice.start(gpus="0")
    with held_for_writing(hub.state / FILE):
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            ask_for_anything(alice)
            ask_to_start(bob)
    began = time.monotonic()

    eventually(lambda: is_well(alice), "the hub answers and holds the session", within_s=60)
    row.seconds = time.monotonic() - began
    bob_job = bob.server() and jobs_of("bob")
    row.lost = int(jobs_of("alice") != [job_id])
    assert row.lost == 0
    if not bob.server():
        eventually(lambda: not jobs_of("bob"), "a start that failed leaves no job", within_s=90)
        bob.start(gpus="0")
    eventually(bob.is_ready, "the other person's session is ready", within_s=90)
    row.orphans = len(jobs_of("bob")) - 1
    row.seen = f"then the other person's start is ready ({'the same' if bob_job else 'a new one'})"
    assert row.orphans == 0


def ask_for_anything(person: Person) -> None:
    """A page of the hub; it may fail while the database is held."""
    try:
        person.http.get("/hub/home", timeout=3)
    except httpx.HTTPError:
        time.sleep(0.1)


def ask_to_start(person: Person) -> None:
    """A click on Start; it may fail while the database is held."""
    try:
        person.http.post("/hub/spawn", params={"_xsrf": person.xsrf}, data={"gpus": "0"}, timeout=3)
    except httpx.HTTPError:
        time.sleep(0.1)


def is_well(person: Person) -> bool:
    """True when the hub answers for a session that is ready, and the session itself answers."""
    try:
        return person.is_ready()
    except (httpx.HTTPError, ValueError):
        return False


def test_the_documented_restore_brings_sessions_back(hub: FaultHub, alice: Person, row: Row, tmp_path: Path) -> None:
    row.fault, row.done = "database destroyed", "restored by the commands of docs/howto/backup.md, a session runs"
    job_id = alice.start(gpus="0")
    back_up, restore, _all_of_it = console_blocks(CHECKOUT / "docs" / "howto" / "backup.md")
    backups = FOLDER.with_name("test-backups")
    shutil.rmtree(backups, ignore_errors=True)
    follow(back_up, hub, backups)
    hub.stop()
    (hub.state / FILE).write_bytes(b"\xa5" * 4096)
    assert "Restore it from a backup" in hub.run().stderr

    began = time.monotonic()
    follow(restore, hub, backups)
    hub.start()
    eventually(lambda: is_well(alice), "the session is there again", within_s=60)

    row.seconds, row.lost = time.monotonic() - began, int(jobs_of("alice") != [job_id])
    row.seen = "stop, copy, start; the session of before the backup is there"
    assert row.lost == 0
    assert row.seconds <= RESTORED_WITHIN_S


def test_the_documented_restore_of_all_of_it_brings_sessions_back(hub: FaultHub, alice: Person, row: Row) -> None:
    row.fault, row.done = "state folder lost", "restored by the commands of docs/howto/backup.md, a session runs"
    job_id = alice.start(gpus="0")
    back_up, _restore, all_of_it = console_blocks(CHECKOUT / "docs" / "howto" / "backup.md")
    backups = FOLDER.with_name("test-backups")
    shutil.rmtree(backups, ignore_errors=True)
    follow(back_up, hub, backups)
    hub.stop()
    shutil.rmtree(hub.state)

    began = time.monotonic()
    follow(all_of_it, hub, backups)
    hub.start()
    eventually(lambda: is_well(alice), "the session is there again", within_s=60)

    row.seconds, row.lost = time.monotonic() - began, int(jobs_of("alice") != [job_id])
    row.seen = "the folder is made out of the backup; its session is there"
    assert row.lost == 0
    assert row.seconds <= RESTORED_WITHIN_S


def console_blocks(page: Path) -> list[list[str]]:
    """The commands of each console block that holds more than one."""
    blocks = re.findall(r"^```console\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    found = [[line.removeprefix("# ") for line in block.splitlines() if line.startswith("# ")] for block in blocks]
    return [commands for commands in found if len(commands) > 1]


def follow(commands: list[str], hub: FaultHub, backups: Path) -> None:
    """Type the commands of the page, with this hub's folders; the service is started and stopped by the test."""
    for command in commands:
        if not command.startswith("systemctl"):
            ours = command.replace("/var/lib/dsportal", str(hub.state)).replace("/var/backups/dsportal", str(backups))
            ours = ours.replace("/opt/dsportal/bin", str(VENV_BIN))
            subprocess.run(["sh", "-euc", ours], check=True, cwd="/", timeout=60)
