"""What a session still sends with a login that has ended is broken off by its real server; another's goes on."""

from __future__ import annotations

import contextlib
import http.client
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from portal.session_settings import HUB_ANSWER
from tests.session.session_server import DEADLINE_S, wait_for
from tests.session.stub_hub import PREFIX, TOKEN, StubHub
from tests.session.test_start import COMMAND, Session

SIZE = 200 * 2**20  # more than is read here in the time, and no compression makes it less
PART = 2**20


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session that asks its hub often, with a large file in a folder."""
    session = Session(tmp_path_factory.mktemp("session"), StubHub(), COMMAND, **{HUB_ANSWER: "1"})
    large(session.home / "slow")
    assert session.ask("api")[0] == 200
    yield session
    session.away()
    session.hub.shutdown()
    session.hub.server_close()


def large(folder: Path) -> None:
    """Make it, with a large file in it."""
    folder.mkdir()
    with (folder / "large.bin").open("wb") as file:
        for _ in range(SIZE // PART):
            file.write(os.urandom(PART))


@contextlib.contextmanager
def begun(session: Session, path: str, token: str) -> Iterator[http.client.HTTPResponse]:
    """An answer of which a part is read."""
    connection = http.client.HTTPConnection("127.0.0.1", session.port, timeout=DEADLINE_S)
    connection.request("GET", PREFIX + path, headers={"Authorization": f"token {token}"})
    with contextlib.closing(connection), connection.getresponse() as answer:
        assert answer.status == 200
        assert len(answer.read(PART)) == PART
        yield answer


def is_broken_off(answer: http.client.HTTPResponse, parts: list[int]) -> bool:
    """Whether there is nothing more to read."""
    try:
        parts.append(len(answer.read(PART)))
    except (ConnectionError, http.client.IncompleteRead):
        return True
    return parts[-1] == 0


@pytest.mark.parametrize("path", ["files/slow/large.bin", "dsportal/api/archive?path=slow"])
def test_a_download_ends_with_its_login_and_that_of_another_goes_on(session: Session, path: str) -> None:
    login = secrets.token_hex()
    session.hub.logins.add(login)
    with begun(session, path, login) as mine, begun(session, path, TOKEN) as other:
        session.hub.logins.clear()
        parts: list[int] = []

        wait_for("end of the download", lambda: is_broken_off(mine, parts))

        assert sum(parts) < SIZE - 2 * PART
        rest = 0
        while part := other.read(PART):
            rest += len(part)
        assert rest >= SIZE - PART
