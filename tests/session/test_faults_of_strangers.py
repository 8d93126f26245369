"""Faults of Jupyter that whoever asks can cause leave those of the session its room in the log."""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator

import pytest

from tests.session.session_server import wait_for
from tests.session.stub_hub import PREFIX, StubHub
from tests.session.test_start import Session

ITS_OWN = "a fault of the session's own"
HERS = "a fault of what its person asks"
FAILS = f"""
import portal.singleuser.server as server
from jupyter_server.base.handlers import JupyterHandler
from tornado.ioloop import PeriodicCallback

class Fails(JupyterHandler):
    def get(self, which):
        raise ValueError({HERS!r} if self.current_user else "a stranger's")

complete = server.complete
def failing(app, settings):
    complete(app, settings)
    own = lambda: app.log.error({ITS_OWN!r}, exc_info=ValueError("no"))
    app.fails = PeriodicCallback(own, 1000)
    app.fails.start()
    app.web_app.add_handlers(".*$", [({PREFIX!r} + "fails(.*)", Fails)])
server.complete = failing
server.main()
"""
REQUESTS = 400  # more than there is room for


@pytest.fixture
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session that has a fault each second."""
    session = Session(tmp_path_factory.mktemp("session") / "its", StubHub(), ["-c", FAILS])
    assert session.ask("api")[0] == 200
    yield session
    session.away()
    session.hub.shutdown()
    session.hub.server_close()


def test_a_fault_of_a_session_is_in_its_log_after_any_number_of_strangers_requests(session: Session) -> None:
    for _ in range(REQUESTS):
        connection = http.client.HTTPConnection("127.0.0.1", session.port, timeout=5)
        connection.request("GET", f"{PREFIX}fails", headers={"Authorization": "token made-up"})
        assert connection.getresponse().status == 500
        connection.close()
    assert session.log.read_text().count("a stranger's") < REQUESTS, "there is no room left"
    seen = session.log.stat().st_size

    assert session.ask("fails")[0] == 500

    wait_for("the faults", lambda: all(one in after(session, seen) for one in (ITS_OWN, HERS)))


def after(session: Session, seen: int) -> str:
    """What the log has said since."""
    time.sleep(0.2)
    return session.log.read_bytes()[seen:].decode()
