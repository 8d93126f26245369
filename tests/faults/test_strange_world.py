"""A server that hangs, a suspended job, the number of another job, another time zone, and a backup of before."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from portal.hub.database import FILE
from portal.launcher import ENVIRONMENT_FILE, SESSIONS
from portal.session_settings import ANNOUNCE_EVERY
from tests.faults.hubs import FaultHub
from tests.faults.table import Row
from tests.forms import LONG
from tests.hub.conftest import Person
from tests.inside import eventually, home, jobs_of, sh, start_again


@contextmanager
def own_job() -> Iterator[str]:
    """A batch job of alice's own; it must outlive whatever is done to her session."""
    options = ("--job-name=training", "--partition=requestq", "--cpus-per-task=1", "--mem=100M")
    where = ("--chdir=/tmp", "--output=/dev/null", "--wrap=sleep 600")
    submitted = sh("sbatch", "--parsable", *options, *where, user="alice")
    job_id = submitted.strip()
    yield job_id
    sh("scancel", job_id)


def test_a_session_whose_server_hangs_outlives_a_restart_and_can_be_stopped(
    hub: FaultHub, alice: Person, row: Row
) -> None:
    row.fault = "server frozen, hub restarted"
    row.done = "SIGSTOP of the server's processes, kill -9 of the hub, start, then the person stops it"
    job_id = alice.start(gpus="0")
    signal_server(job_id, "STOP")

    hub.kill()
    hub.start()
    began = time.monotonic()
    eventually(lambda: alice.server().get("ready"), "the hub has looked at it", within_s=30)
    row.seconds = time.monotonic() - began
    row.lost = int(jobs_of("alice") != [job_id])
    assert row.lost == 0, "Slurm says that its job lives"

    answer = alice.api("DELETE", "/users/alice/server")
    assert answer.status_code in (202, 204), answer.text
    row.seen = f"Stop answers {answer.status_code}"
    eventually(lambda: not jobs_of("alice"), "the job is gone", within_s=90)


def test_a_suspended_session_is_kept_and_the_server_page_says_so(hub: FaultHub, alice: Person, row: Row) -> None:
    row.fault = "job suspended, hub restarted"
    row.done = "scontrol suspend, kill -9 of the hub, start, scontrol resume"
    job_id = alice.start(gpus="0")
    sh("scontrol", "suspend", job_id)
    hub.kill()
    hub.start()

    eventually(lambda: "Suspended" in alice.http.get("/hub/home").text, "the page says it", within_s=60)
    sh("scontrol", "resume", job_id)
    eventually(alice.is_ready, "the session answers again", within_s=60)
    eventually(lambda: "Suspended" not in alice.http.get("/hub/home").text, "the page says that, too", within_s=60)

    row.lost = int(jobs_of("alice") != [job_id])
    assert row.lost == 0


def test_a_number_that_is_another_jobs_is_not_believed(hub: FaultHub, alice: Person, row: Row) -> None:
    row.fault = "wrong job number in the state"
    row.done = "the saved number is that of a batch job of the same person; the hub is restarted"
    job_id = alice.start(gpus="0")
    with own_job() as other:
        hub.stop()
        change_state(hub.state, "alice", job_id=other, submitted=0)
        hub.start()

        eventually(alice.is_ready, "the session is there", within_s=60)
        eventually(lambda: f"is job {job_id}, not {other}" in hub.log(), "it is found by its key", within_s=30)
        alice.api("DELETE", "/users/alice/server")

        eventually(lambda: job_id not in jobs_of("alice"), "its job is gone", within_s=60)
        row.lost = int(other not in jobs_of("alice"))
    row.seen = "found by its key; Stop cancels its job and no other one"
    assert row.lost == 0


@pytest.mark.long
@pytest.mark.parametrize("zone", ["Asia/Kathmandu", "America/St_Johns"] if LONG else ["Asia/Kathmandu"])
def test_another_time_zone_moves_nothing(
    hub: FaultHub, alice: Person, zone: str, row: Row, monkeypatch: pytest.MonkeyPatch
) -> None:
    row.fault = f"hub in another zone ({zone})"
    row.done = "restarted there and back, a session runs"
    job_id = alice.start(gpus="0")
    before = len(hub.log())
    for there in (zone, "UTC"):
        hub.stop()
        monkeypatch.setenv("TZ", there)
        hub.start()
        eventually(alice.is_ready, "the session is there", within_s=60)

    row.lost = int(jobs_of("alice") != [job_id] or "was requeued" in hub.log()[before:])
    assert row.lost == 0


def test_a_restored_backup_of_before_a_requeue_is_no_loss(hub: FaultHub, alice: Person, row: Row) -> None:
    row.fault = "backup of before a requeue"
    row.done = "the database is put back to before Slurm moved the session; the hub is restarted"
    job_id = alice.start(gpus="0")
    announce_often("alice")
    backup = hub.folder / "backup.sqlite"
    with closing(sqlite3.connect(hub.state / FILE)) as database:
        database.execute(f"VACUUM INTO '{backup}'")
    before = len(hub.log())
    sh("scontrol", "requeue", job_id)
    eventually(lambda: "was requeued" in hub.log()[before:], "the hub notices", within_s=60)
    start_again(job_id)
    eventually(lambda: "continues at" in hub.log()[before:], "the session has a new address", within_s=60)

    hub.stop()
    before = len(hub.log())
    shutil.copyfile(backup, hub.state / FILE)
    for left in (f"{FILE}-wal", f"{FILE}-shm"):
        (hub.state / left).unlink(missing_ok=True)
    backup.unlink()
    hub.start()
    began = time.monotonic()
    eventually(lambda: "continues at" in hub.log()[before:], "its server says where it is", within_s=60)
    eventually(alice.is_ready, "the session answers there", within_s=60)

    row.seconds = time.monotonic() - began
    row.lost = int(jobs_of("alice") != [job_id])
    assert row.lost == 0


def signal_server(job_id: str, name: str) -> None:
    """Send a signal to all processes of a session's job but Slurm's own."""
    sh("scancel", f"--signal={name}", "--full", job_id)


def change_state(folder: Path, person: str, **changes: object) -> None:
    """Change what a hub that is stopped has saved of a session."""
    with closing(sqlite3.connect(folder / FILE)) as database, database:
        row_id, text = database.execute(
            "SELECT spawners.id, spawners.state FROM spawners JOIN users ON users.id = user_id WHERE users.name = ?",
            (person,),
        ).fetchone()
        state = json.dumps({**json.loads(text), **changes})
        database.execute("UPDATE spawners SET state = ? WHERE id = ?", (state, row_id))


def announce_often(person: str) -> None:
    """The next run of the person's job announces its port every two seconds, not every two minutes."""
    (file,) = (home(person) / SESSIONS).rglob(ENVIRONMENT_FILE)
    file.write_text(json.dumps({**json.loads(file.read_text()), ANNOUNCE_EVERY: "2"}))
