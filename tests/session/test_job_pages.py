"""One's own jobs over HTTP, in a session whose Slurm is real."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.inside import jobs_of, sh
from tests.session.session_server import HUB_SECRET, TOKEN, Server, wait_for

JOBS = "dsportal/api/jobs"


@pytest.fixture
def folder(server: Server) -> Iterator[Path]:
    """A folder of the file browser; no job is left in the end."""
    folder = server.home / "jobs of mine"
    folder.mkdir(exist_ok=True)
    yield folder
    for job_id in jobs_of("root"):
        sh("scancel", job_id)


def submitted(server: Server, **order: object) -> dict[str, Any]:
    status, text = server.ask(JOBS, "POST", order)
    assert status == 201, text
    return dict(json.loads(text))


def ended(server: Server, job_id: str) -> dict[str, Any]:
    """A job, as soon as it is over."""
    return wait_for("end of the job", lambda: _ended(server.json(f"{JOBS}/{job_id}")))


def _ended(job: dict[str, Any]) -> dict[str, Any]:
    return job if job["phase"] == "ended" else {}


def refused(server: Server, **order: object) -> tuple[int, str]:
    status, text = server.ask(JOBS, "POST", order)
    return status, json.loads(text)["message"]


def test_a_notebook_runs_as_a_job_and_its_output_can_be_opened(server: Server, folder: Path) -> None:
    kernel = {"name": "plain", "display_name": "Python 3", "language": "python"}
    cell = nbformat.v4.new_code_cell("import os\nprint('in job', os.environ['SLURM_JOB_ID'])")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell], metadata={"kernelspec": kernel}), folder / "a.ipynb")

    job = submitted(server, file="jobs of mine/a.ipynb", hours=0.5, partition="sxm2")
    end = ended(server, job["id"])

    assert (end["state"], end["words"], end["partition"]) == ("COMPLETED", "done", "sxm2")
    assert end["output_path"] == f"jobs of mine/a-{job['id']}.ipynb"
    assert f"in job {job['id']}" in server.ask(f"api/contents/jobs%20of%20mine/a-{job['id']}.ipynb")[1]


@pytest.mark.parametrize("name", ["a.sh", "a.py"])
def test_what_was_opened_is_submitted_and_not_what_somebody_has_put_there_since(
    server: Server, folder: Path, name: str
) -> None:
    (folder / name).write_text("#!/bin/sh\n")
    assert server.ask(f"api/contents/jobs%20of%20mine/{name}")[0] == 200
    (folder / "theirs").write_text("#!/bin/sh\n")
    os.chown(folder / "theirs", 54321, 54321)
    (folder / "theirs").rename(folder / name)

    status, words = refused(server, file=f"jobs of mine/{name}")

    assert (status, "another one is there by now" in words) == (400, True)
    assert server.ask(f"api/contents/jobs%20of%20mine/{name}")[0] == 200
    submitted(server, file=f"jobs of mine/{name}", shown=["#!/bin/sh\n"])


def test_an_export_is_no_opening(server: Server, folder: Path) -> None:
    """A page goes on showing what it has read."""
    nbformat.write(nbformat.v4.new_notebook(), folder / "a.ipynb")
    assert server.ask("api/contents/jobs%20of%20mine/a.ipynb")[0] == 200
    nbformat.write(nbformat.v4.new_notebook(), folder / "theirs.ipynb")
    os.chown(folder / "theirs.ipynb", 54321, 54321)
    (folder / "theirs.ipynb").rename(folder / "a.ipynb")

    assert server.ask("nbconvert/html/jobs%20of%20mine/a.ipynb")[0] == 200

    status, words = refused(server, file="jobs of mine/a.ipynb", shown=[{"cells": []}])
    assert (status, "another one is there by now" in words) == (400, True)


def test_a_page_that_is_older_than_the_session_submits_nothing_that_others_may_have_exchanged(
    server: Server, folder: Path
) -> None:
    (folder / "before.sh").write_text("#!/bin/sh\n")
    folder.chmod(0o777)

    status, words = refused(server, file="jobs of mine/before.sh", shown=["#!/bin/sh\n"])

    assert (status, "this page is older than your session" in words) == (400, True)
    folder.chmod(0o755)
    submitted(server, file="jobs of mine/before.sh", shown=["#!/bin/sh\n"])


def test_a_log_is_followed_from_where_one_was(server: Server, folder: Path) -> None:
    (folder / "a.sh").write_text("#!/bin/sh\necho one\nenv\n")
    job = submitted(server, file="jobs of mine/a.sh", arguments=["x"])
    ended(server, job["id"])

    first = server.json(f"{JOBS}/{job['id']}/log")
    assert first["text"].startswith("one\n")
    assert first["is_over"]
    assert first["path"] == str(folder / f"slurm-{job['id']}.out")
    assert HUB_SECRET not in first["text"]
    rest = server.json(f"{JOBS}/{job['id']}/log?from=4")
    assert rest["text"] == first["text"][4:]
    assert rest["next"] == first["next"]


def test_a_job_that_waits_is_listed_with_its_reason_and_cancelled(server: Server, folder: Path) -> None:
    (folder / "later.sh").write_text("#!/bin/sh\n#SBATCH --begin=now+1hour\nsleep 600\n")
    job_id = submitted(server, file="jobs of mine/later.sh", name="later on")["id"]

    job = next(one for one in server.json(JOBS)["jobs"] if one["id"] == job_id)
    assert (job["name"], job["phase"], job["words"]) == ("later on", "waiting", "waits: it was put off until then")
    assert job["starts_at"] > job["submitted_at"]
    assert server.ask(f"{JOBS}/{job_id}", "DELETE") == (204, "")
    assert server.json(f"{JOBS}/{job_id}")["state"] == "CANCELLED"


def test_what_is_not_allowed_is_refused_in_words(server: Server, folder: Path) -> None:
    (folder / "a.sh").write_text("#!/bin/sh\n")
    file = "jobs of mine/a.sh"

    assert refused(server, file="../a.sh")[0] == 400
    assert refused(server, file="none.sh") == (
        400,
        f"file: '{server.home}/none.sh' is not possible here. Allowed: a notebook, program or script that is there.",
    )
    assert "Allowed: the options arguments, modules, nodes" in refused(server, file=file, wrap="x")[1]
    assert "nodes: '2' is not possible here" in refused(server, file=file, nodes="2")[1]
    assert "There is no such partition" in refused(server, file=file, partition="nope")[1]
    assert server.ask(f"{JOBS}/99999999")[0] == 404
    assert server.ask(f"{JOBS}/99999999", "DELETE")[0] == 404
    assert server.ask(f"{JOBS}/1/log?from=-1")[0] == 400


def test_only_who_may_use_the_session_has_its_jobs(server: Server) -> None:
    for path, method in ((JOBS, "GET"), (JOBS, "POST"), (f"{JOBS}/1", "DELETE"), (f"{JOBS}/1/log", "GET")):
        assert server.ask(path, method, token="")[0] in (302, 403), path


def test_a_job_is_not_submitted_by_a_page_of_somebody_else(server: Server, folder: Path) -> None:
    """A cookie alone does nothing: the page must know the session's XSRF token."""
    (folder / "a.sh").write_text("#!/bin/sh\n")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor())
    opener.open(f"{server.url}login?token={TOKEN}", timeout=30).close()
    before = jobs_of("root")

    request = urllib.request.Request(  # noqa: S310  the server of this test
        f"{server.url}{JOBS}", json.dumps({"file": "jobs of mine/a.sh"}).encode()
    )
    with pytest.raises(urllib.error.HTTPError) as refusal:
        opener.open(request, timeout=30)
    with refusal.value:
        assert refusal.value.code == 403
    assert jobs_of("root") == before
