"""Who has no login to a session holds few of its files, and leaves little in its log: its person is answered."""

from __future__ import annotations

import contextlib
import http.client
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tornado.web import create_signed_value

from portal.session_pages.questions import OTHERS_AT_ONCE
from tests.session.session_server import wait_for
from tests.session.stub_hub import PERSON, PREFIX, StubHub
from tests.session.test_start import COMMAND, Session

FILES = 400
SOON_S = 10.0
LOG_MOST = 2**19
LIMITED = (
    "import os, resource, sys;"
    f"resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES}));"
    f"os.execv(sys.executable, [sys.executable, *{COMMAND!r}, *sys.argv[1:]])"
)
SECRET = b"s" * 32
KNOWN = f"""
from portal.singleuser import server
complete = server.complete
def with_secret(app, settings):
    complete(app, settings)
    app.web_app.settings["cookie_secret"] = {SECRET!r}
server.complete = with_secret
server.main()
"""
HEADS = {
    "nothing": "",
    "a part of a head": f"GET {PREFIX}lab HTTP/1.1\r\n",
    "no body": f"POST {PREFIX}lab HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n",
    "no request that can be read": f"GET {PREFIX}api?{'&'.join('a' * 1200)} HTTP/1.1\r\nHost: x\r\n\r\n",
    "answers that nobody reads": f"GET {PREFIX}static/lab/SCRIPT HTTP/1.1\r\nHost: x\r\n\r\n",
}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session whose server may open few files."""
    session = Session(tmp_path_factory.mktemp("session"), StubHub(), ["-c", LIMITED])
    assert session.ask("api")[0] == 200
    yield session
    session.away()
    session.hub.shutdown()
    session.hub.server_close()


def large_script() -> str:
    """The name of the largest file that every page of JupyterLab may load."""
    from jupyterlab.commands import get_app_dir

    folder = Path(get_app_dir()) / "static"
    return max(folder.glob("*.js"), key=lambda file: file.stat().st_size).name


@pytest.mark.parametrize("head", HEADS)
def test_a_session_answers_its_person_whatever_strangers_hold(session: Session, head: str) -> None:
    before = session.log.stat().st_size
    sent = HEADS[head].replace("SCRIPT", large_script()).encode()
    with contextlib.ExitStack() as held:
        for _ in range(FILES + 100):
            one = held.enter_context(socket.socket())
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.connect(("127.0.0.1", session.port))
            with contextlib.suppress(ConnectionError):
                one.sendall(sent)
        time.sleep(1)
        begun = time.monotonic()

        assert session.ask("api/contents")[0] == 200

        assert time.monotonic() - begun < SOON_S
    assert session.log.stat().st_size - before < LOG_MOST


OTHERS = {"one token with many numbers": "late", "many tokens": "late-{}"}


@pytest.fixture
def known(tmp_path: Path) -> Iterator[Session]:
    """A session whose cookies can be signed here, at a hub that may be late."""
    hub = StubHub()
    session = Session(tmp_path, hub, ["-c", KNOWN])
    try:
        assert session.ask("api")[0] == 200
        yield session
    finally:
        hub.may_answer.set()
        session.away()
        hub.shutdown()
        hub.server_close()


@pytest.mark.parametrize("token", OTHERS.values(), ids=OTHERS)
def test_a_login_is_asked_for_while_the_hub_is_late_with_what_others_ask_about(known: Session, token: str) -> None:
    """Such an answer waits at the hub for what else its person asks there."""
    known.hub.logins.add("hers")
    at_once = 1 if token == "late" else OTHERS_AT_ONCE
    with contextlib.ExitStack() as held:
        for number in range(150):
            one = held.enter_context(socket.create_connection(("127.0.0.1", known.port)))
            sender = f"Authorization: token {token.format(number)}\r\nCookie: jupyterhub-session-id={number}"
            one.sendall(f"GET {PREFIX}api/contents HTTP/1.1\r\nHost: x\r\n{sender}\r\n\r\n".encode())
        wait_for("the questions", lambda: sum(one.startswith("late") for one in known.hub.asked) >= at_once)
        cookie = create_signed_value(SECRET, f"jupyterhub-user-{PERSON}", "hers").decode()
        connection = http.client.HTTPConnection("127.0.0.1", known.port, timeout=30)
        held.callback(connection.close)
        connection.request("GET", f"{PREFIX}api/contents", headers={"Cookie": f"jupyterhub-user-{PERSON}={cookie}"})

        assert connection.getresponse().status == 200
        assert sum(one.startswith("late") for one in known.hub.asked) == at_once
