"""A full home: the start fails soon and says so; nothing is left behind, and nobody else notices."""

from __future__ import annotations

import html
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from portal.launcher import ENVIRONMENT_FILE, SESSIONS
from tests.faults.hubs import FaultHub
from tests.faults.table import Row
from tests.forms import of_long_form
from tests.hub.conftest import Person
from tests.inside import eventually, home, jobs_of, sh

TOLD_WITHIN_S = 30.0


@pytest.fixture
def judy(hub: FaultHub) -> Iterator[Person]:
    """Somebody whose home is a file system of one megabyte."""
    folder = home("judy")
    sh("mount", "-t", "tmpfs", "-o", f"size=1m,mode=0700,uid={folder.stat().st_uid}", "tmpfs", str(folder))
    person = Person("judy")
    assert person.login().status_code == 200
    yield person
    person.stop()
    person.http.close()
    sh("scancel", "--user=judy")
    eventually(lambda: not jobs_of("judy"), "no job is left")
    eventually(lambda: "busy" not in sh("umount", str(folder), check=False), "nothing uses the home any more")


@pytest.mark.parametrize("free_bytes", [0, of_long_form(4096)], ids=["no byte is free", "one page is free"])
def test_a_start_in_a_full_home_fails_soon_and_says_so(
    hub: FaultHub, alice: Person, judy: Person, free_bytes: int, row: Row
) -> None:
    row.fault, row.done = "home full", f"a home of 1 MB with {free_bytes} bytes free"
    fill(home("judy"), free_bytes)
    alice.start(gpus="0")
    began = time.monotonic()
    judy.spawn(gpus="0")

    page = eventually(lambda: failure(judy), "the page tells the failure", within_s=TOLD_WITHIN_S)

    row.seconds = time.monotonic() - began
    row.orphans = len(jobs_of("judy"))
    row.seen = " ".join(
        html.unescape(re.sub("<[^>]+>", " ", page.partition('role="alert">')[2].partition("</div>")[0])).split()
    )[:140]
    assert "home" in page
    assert "full" in page or "No space left" in page
    assert not jobs_of("judy")
    assert not list((home("judy") / SESSIONS).rglob(ENVIRONMENT_FILE)), "no half-written secret is left"
    assert alice.is_ready(), "another person is not affected"
    shutil.rmtree(home("judy") / "data")
    judy.start(gpus="0")


def fill(folder: Path, free_bytes: int) -> None:
    """Write files until only ``free_bytes`` are free."""
    (folder / "data").mkdir()
    shutil.chown(folder / "data", "judy")
    sh("sh", "-c", f"head -c {free_bytes} /dev/zero > {folder}/data/spare", check=True)
    sh("sh", "-c", f"cat /dev/zero > {folder}/data/big", check=False)
    if free_bytes:
        (folder / "data" / "spare").unlink()


def failure(person: Person) -> str:
    """The page of a start that failed, once it has."""
    if person.server().get("pending"):
        return ""
    page = person.http.get(f"/hub/spawn-pending/{person.name}").text
    return page if "did not start" in page else ""
