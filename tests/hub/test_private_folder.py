"""Homes that do not work: sessions run where root's file names another place, and a neighbour gets nothing of it."""

from __future__ import annotations

import asyncio
import html
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import pytest

from portal.doctor.check import Check
from portal.doctor.person_checks import person as person_checks
from portal.launcher import ENVIRONMENT_FILE
from portal.site import load
from portal.slurm.runner import run
from tests.hub.conftest import Hub, Person
from tests.inside import SITE_FILE, eventually, has_no_job, home, settings, sh

SHARED = Path("/mnt/isilon")
NAME = "judy"
PLACE = SHARED / NAME / ".dsportal"


@pytest.fixture
def elsewhere() -> Iterator[None]:
    """Root's file names a folder on the shared storage, where everybody may make one."""
    line = f'private_folder = "{SHARED}/{{user}}/.dsportal"\n'
    text = SITE_FILE.read_text()
    new = text.replace("[session]\n", f"[session]\n{line}") if "[session]\n" in text else f"{text}\n[session]\n{line}"
    with settings(new):
        yield
    shutil.rmtree(SHARED / NAME, ignore_errors=True)


@pytest.fixture
def judy(hub: Hub, elsewhere: None) -> Iterator[Person]:
    """Somebody with a session to come."""
    someone = Person(NAME)
    assert someone.login().status_code == 200
    yield someone
    someone.stop()
    someone.http.close()
    sh("scancel", f"--user={NAME}")
    eventually(partial(has_no_job, NAME), "no job is left")


@contextmanager
def without_home() -> Iterator[None]:
    """As on a host that mounts no homes."""
    folder = home(NAME)
    away = folder.with_name(f"{NAME}-away")
    folder.rename(away)
    try:
        yield
    finally:
        away.rename(folder)


@contextmanager
def full_home() -> Iterator[None]:
    """One in which no byte more can be written."""
    folder = home(NAME)
    sh("mount", "-t", "tmpfs", "-o", f"size=4k,mode=0700,uid={folder.stat().st_uid}", "tmpfs", str(folder))
    sh("sh", "-c", f"cat /dev/zero > {folder}/data", user=NAME, check=False)
    try:
        yield
    finally:
        eventually(lambda: "busy" not in sh("umount", str(folder), check=False), "nothing uses the home any more")


def looked_at() -> Check:
    """What `portal doctor --person` says of the place."""
    return asyncio.run(person_checks(NAME, load(str(SITE_FILE)), run))[-1]


@pytest.mark.parametrize("broken", [without_home, full_home], ids=["not there", "full"])
def test_a_session_runs_from_the_click_to_its_end_without_a_home_that_works(
    judy: Person, broken: Callable[[], AbstractContextManager[None]]
) -> None:
    with broken():
        assert (looked_at().result, str(PLACE) in looked_at().found) == ("ok", True)
        judy.start(gpus="0")
        (given,) = (PLACE / "sessions").glob(f"*/{ENVIRONMENT_FILE}")
        body = {"type": "file", "format": "text", "content": "kept"}
        saved = judy.http.put(f"/user/{NAME}/api/contents/note.txt", json=body, headers=xsrf(judy))
        names = {item["name"] for item in judy.http.get(f"/user/{NAME}/api/contents").json()["content"]}
        judy.stop()

        assert saved.status_code == 201, saved.text
        assert (PLACE / "files" / "note.txt").read_text() == "kept"
        assert {"templates", "isilon"} <= names
        eventually(partial(has_no_job, NAME), "the job has ended")
        assert not given.exists()
        assert "Your home does not work here" in (given.parent / "session.log").read_text()
    assert {path.stat().st_mode & 0o777 for path in (PLACE, PLACE.parent)} == {0o700}


def test_a_session_without_its_home_runs_nothing_that_a_neighbour_left_where_its_job_was_started(judy: Person) -> None:
    taken = SHARED / "taken"
    template = Path("/tmp/lab")  # there Slurm starts a job whose home it cannot enter
    sh("mkdir", "-m", "0777", str(taken), user="bob")
    sh("mkdir", str(template), user="bob")
    program = f"{{{{ cycler.__init__.__globals__.os.mkdir('{taken}/ran') }}}}"
    sh("sh", "-c", f'echo "$0" > {template}/index.html.j2', program, user="bob")
    notebook = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    body = {"type": "notebook", "format": "json", "content": notebook}
    try:
        with without_home():
            judy.start(gpus="0")
            saved = judy.http.put(f"/user/{NAME}/api/contents/note.ipynb", json=body, headers=xsrf(judy))
            shown = judy.http.get(f"/user/{NAME}/nbconvert/html/note.ipynb")
            judy.stop()

        assert (saved.status_code, shown.status_code) == (201, 200), shown.text
        assert list(taken.iterdir()) == []
    finally:
        sh("rm", "-rf", str(taken), str(template))


def xsrf(person: Person) -> dict[str, str]:
    """The token of the session's own pages."""
    cookies = [cookie for cookie in person.http.cookies.jar if cookie.name == "_xsrf"]
    return {"X-XSRFToken": next(cookie.value or "" for cookie in cookies if f"/user/{person.name}" in cookie.path)}


@pytest.mark.parametrize("kind", ["folder", "link"])
def test_a_neighbour_who_made_the_folder_first_stops_the_start_and_gets_nothing(judy: Person, kind: str) -> None:
    theirs = SHARED / "of-bob"
    sh("mkdir", "-m", "0777", "-p", str(theirs), user="bob")
    made = ("ln", "-s", str(theirs)) if kind == "link" else ("mkdir", "-m", "0777")
    sh(*made, str(SHARED / NAME), user="bob")
    try:
        page = html.unescape(judy.spawn(gpus="0").text)
        page = page if "did not start" in page else eventually(partial(failure, judy), "the page tells the failure")
        check = looked_at()

        assert str(SHARED / NAME) in page
        assert ("not to you" if kind == "folder" else "is a link or a file") in page
        assert (check.what, check.result) == (f"files of {NAME}", "failed")
        assert str(SHARED / NAME) in check.found
        assert has_no_job(NAME)
        assert not list(theirs.rglob("*"))
        assert kind == "link" or not list((SHARED / NAME).iterdir())  # the kernel follows no such link
    finally:
        sh("rm", "-rf", str(SHARED / NAME), str(theirs))


def failure(person: Person) -> str:
    """The page of a start that failed, once it has."""
    if person.server().get("pending"):
        return ""
    page = html.unescape(person.http.get(f"/hub/spawn-pending/{person.name}").text)
    return page if "did not start" in page else ""
