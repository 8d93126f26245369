"""Names that are no plain small letters, from the login to a session: a real hub, real slapd and real Slurm."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from deploy.demo.people import GROUP_ID
from tests.directory.shapes import SCHEMA, SERVICE_PASSWORD, recipe, tree
from tests.directory.slapd import Authority, Slapd
from tests.hub.conftest import FOLDER, Hub, Person
from tests.inside import accounts, eventually, has_no_job, jobs_of, sh

ACCOUNTS = {"ASmith": 39001, "4711x": 39002}
HOMES = Path("/home")


@pytest.fixture(scope="module")
def people() -> Iterator[None]:
    """Accounts of these names on all hosts of the cluster, for these tests."""
    lines = [f"{name}:x:{uid}:{GROUP_ID}::{HOMES / name}:/bin/bash" for name, uid in ACCOUNTS.items()]
    with accounts(*lines):
        for name, uid in ACCOUNTS.items():
            (HOMES / name).mkdir(mode=0o700)
            shutil.chown(HOMES / name, uid, GROUP_ID)
        yield
        for name in ACCOUNTS:
            sh("scancel", f"--user={name}")
            eventually(partial(has_no_job, name), "no job is left")
            shutil.rmtree(HOMES / name)


@pytest.fixture(scope="module")
def hub(
    tmp_path_factory: pytest.TempPathFactory, good_certificate: tuple[Path, Path], authority: Authority, people: None
) -> Iterator[Hub]:
    """A hub with the recipe for Active Directory, that keeps capitals."""
    place = tmp_path_factory.mktemp("live") / "slapd"
    server = Slapd(place, good_certificate, tree=tree(), schema=SCHEMA).start()
    ours = Hub()
    ours.prepare()
    shutil.copy(authority.file, FOLDER / "ca.crt")
    (FOLDER / "ca.crt").chmod(0o644)
    secret = FOLDER / "bind_password"
    secret.touch(mode=0o600)
    secret.write_text(f"{SERVICE_PASSWORD}\n")
    shutil.chown(secret, "portal", "portal")
    here = {"servers": [server.url], "ca_file": f"{FOLDER}/ca.crt", "bind_password_file": str(secret)}
    table = {**recipe("Active Directory"), **here, "capitals": "keep"}
    lines = [f"{key} = {toml(value)}\n" for key, value in table.items()]
    ours.site_file.write_text(ours.site_file.read_text().partition("[ldap]")[0] + "".join(["[ldap]\n", *lines]))
    ours.start()
    yield ours
    ours.stop()
    server.stop()


def toml(value: object) -> str:
    """A value as a settings file writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml, value))}]"
    return f"'{value}'"


def test_names_with_capitals_or_a_digit_first_reach_their_own_sessions(hub: Hub) -> None:
    people = {name: Person(typed) for typed, name in (("CORP\\asmith", "ASmith"), ("4711X@corp.example", "4711x"))}
    for name, person in people.items():
        assert person.login("right-pw").status_code == 200
        assert person.api("GET", "/user").json()["name"] == name
        person.name = name
        assert person.spawn(gpus="0").status_code == 200

    for name, person in people.items():
        eventually(person.is_ready, f"the session of {name} is ready", within_s=240)  # the ring beside silences Slurm
        (job_id,) = jobs_of(name)
        assert f"UserId={name}({ACCOUNTS[name]})" in sh("scontrol", "show", "job", job_id)
        answer = person.http.put(
            f"/user/{name}/api/contents/mine.txt",
            json={"type": "file", "format": "text", "content": "mine"},
            headers={"X-XSRFToken": xsrf(person, name)},
        )
        assert answer.status_code == 201
        assert (HOMES / name / "mine.txt").stat().st_uid == ACCOUNTS[name]
    assert people["ASmith"].http.get("/user/4711x/api/contents").status_code == 403
    for person in people.values():
        person.http.close()


def xsrf(person: Person, name: str) -> str:
    """The token of the session's own pages."""
    paths = [cookie for cookie in person.http.cookies.jar if cookie.name == "_xsrf" and name in cookie.path]
    return next(cookie.value or "" for cookie in paths)
