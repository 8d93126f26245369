"""What a terminal of a session finds: a shell of the person's, and no word of the session's token."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import websocket

from tests.session.session_server import DEADLINE_S, wait_for
from tests.session.stub_hub import PREFIX, TOKEN, StubHub
from tests.session.test_start import COMMAND, Session, children

LOOK = "env > env.txt; cat /proc/self/environ > environ.txt; cat /proc/$$/environ > shell.txt; touch done.txt"
SUBMIT = "sbatch --export=ALL --output=/dev/null --wrap 'env > job.unfinished; mv job.unfinished job.txt'"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session of these tests; its home is where Slurm's nodes can write."""
    folder = tmp_path_factory.mktemp("session")
    session = Session(folder, StubHub(), COMMAND)
    assert session.ask("api")[0] == 200
    yield session
    session.away()
    session.hub.shutdown()
    session.hub.server_close()


def type_into_terminal(session: Session, line: str) -> None:
    """Open a terminal, type a line and Return, and leave it open."""
    name = json.loads(session.ask("api/terminals", "POST")[1])["name"]
    address = f"ws://127.0.0.1:{session.port}{PREFIX}terminals/websocket/{name}"
    headers = {"Authorization": f"token {TOKEN}"}
    connection = websocket.create_connection(address, timeout=DEADLINE_S, header=headers)
    connection.send(json.dumps(["stdin", f"{line}\r"]))
    connection.close()


def written(file: Path) -> str:
    """The text of a file, as soon as it is there."""
    wait_for(file.name, file.is_file)
    return file.read_text()


def test_a_terminal_and_what_it_starts_do_not_have_the_token(session: Session) -> None:
    type_into_terminal(session, LOOK)
    written(session.home / "done.txt")

    for name in ("env.txt", "environ.txt", "shell.txt"):
        text = (session.home / name).read_text()
        assert f"HOME={session.home}" in text, "it is the terminal's own environment"
        assert TOKEN not in text, name
        assert "API_TOKEN" not in text, name
        assert "JUPYTER_RUNTIME_DIR" not in text, "a job of Jupyter's would put its files there, on another node"
        assert "PORTAL_RUNTIME_DIR=/" in text, "lessons look whose it is"


def test_no_child_of_the_server_has_the_token(session: Session) -> None:
    session.ask("api/terminals", "POST")
    session.ask("api/kernels", "POST")
    wait_for("two children", lambda: len(children(session)) >= 2)

    for process in children(session):
        assert TOKEN.encode() not in Path("/proc", process, "environ").read_bytes()


def test_a_job_that_is_submitted_in_a_terminal_does_not_take_the_token_along(session: Session) -> None:
    folder = Path("/cluster/test-terminal")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    type_into_terminal(session, f"cd {folder} && {SUBMIT}")

    text = wait_for("job", partial(finished_job, folder / "job.txt"))

    assert "SLURM_JOB_ID=" in text
    assert f"HOME={session.home}" in text, "the job has the terminal's environment"
    assert TOKEN not in text
    shutil.rmtree(folder)


def finished_job(file: Path) -> str:
    return file.read_text() if file.is_file() else ""


def test_the_server_itself_still_knows_its_token(session: Session) -> None:
    assert session.ask("api/contents")[0] == 200, "it asks the hub who we are"
    assert session.ask("api/contents", token="wrong")[0] == 403
    assert TOKEN not in session.log.read_text()
