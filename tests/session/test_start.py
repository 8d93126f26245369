"""The start and the end of a session's server as the batch script runs it, with a hub that only listens.

What the quick start leaves out is compared with the stock start; the unit tests look at each lever.
"""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from certipy import Certipy

from portal import data
from portal.session_settings import ENDS_AT
from tests.forms import LONG, of_long_form
from tests.session.session_server import DEADLINE_S, wait_for
from tests.session.stub_hub import PERSON, PREFIX, TOKEN, StubHub

IN_ITS_FILE = ("DSPORTAL_TLS", "DSPORTAL_SESSION")
COMMAND = ["-I", "-m", "portal.singleuser.server"]
SIGNALLED = 128 + signal.SIGTERM
ASKED = (
    "api",
    "api/status",
    "api/me",
    "api/contents",
    "api/contents/notes.txt",
    "api/contents/missing.txt",
    "api/kernelspecs",
    "api/kernels",
    "api/sessions",
    "api/terminals",
    "api/config/notebook",
    "api/metrics/v1",
    "api/nbconvert",
    "api/spec.yaml",
    "dsportal/api/session",
    "dsportal/api/time",
    "files/notes.txt",
    "lab",
    "lab/api/extensions",
    "lab/api/licenses",
    "lab/api/settings",
    "lab/api/settings/@jupyterlab/apputils-extension:themes",
    "lab/api/themes/@jupyterlab/theme-light-extension/index.css",
    "lab/api/translations",
    "lab/api/translations/en",
    "lab/api/workspaces/default",
    "lsp/status",
    "metrics",
    "nbconvert/html/notes.txt",
    "oauth_callback",
    "proxy/8080/",
    "server-proxy/servers-info",
    "tree",
    "view/notes.txt",
)
Start = Callable[..., "Session"]


class Session:
    """A running ``portal.singleuser.server``, started as templates/job/session.sh does."""

    def __init__(self, folder: Path, hub: StubHub, command: list[str], **environment: str) -> None:
        self.folder, self.hub, self.home, self.log = folder, hub, folder / "home", folder / "session.log"
        self.temporary = Path(tempfile.mkdtemp(prefix="dsp-test-"))
        self.tls: ssl.SSLContext | None = None
        self.home.mkdir(parents=True)
        (self.home / "notes.txt").write_text("a file")
        settings = {"title": "Test", "notebooks": str(data.folder("notebooks"))}
        given = {**hub.environment(), "DSPORTAL_SESSION": json.dumps(settings)}
        given |= {name: environment.pop(name) for name in list(environment) if name in IN_ITS_FILE}
        file = folder / "environment.json"
        file.touch(mode=0o600)
        file.write_text(json.dumps(given))
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, *command, str(folder)],
                env={"HOME": str(self.home), "USER": PERSON, "PATH": "/usr/local/bin:/usr/bin:/bin",
                     "LANG": "C.UTF-8", "TMPDIR": str(self.temporary), **environment},
                cwd=self.home, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    @property
    def port(self) -> int:
        """The port that the hub was told."""
        wait_for("port", lambda: self.hub.bodies("ready") or not self._is_alive())
        return int(self.hub.bodies("ready")[0]["port"])

    def _is_alive(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        return True

    def ask(self, path: str, method: str = "GET", token: str = TOKEN, body: object = None) -> tuple[int, str]:
        """Status and text of an answer; a server that does not serve yet is waited for."""
        kind: Any = http.client.HTTPSConnection if self.tls else http.client.HTTPConnection
        more = {"context": self.tls} if self.tls else {}
        connection = kind("127.0.0.1", self.port, timeout=DEADLINE_S, **more)
        try:
            headers = {"Authorization": f"token {token}"} if token else {}
            connection.request(method, PREFIX + path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(errors="replace")
        finally:
            connection.close()

    def end(self) -> int:
        """Ask the session to end as Slurm does."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(DEADLINE_S)

    def away(self) -> None:
        """End whatever is left."""
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.temporary, ignore_errors=True)


@pytest.fixture(scope="module")
def start_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts sessions, each with a hub of its own; those that are left at the end are ended."""
    started: list[Session] = []

    def start(command: list[str] = COMMAND, hub: StubHub | None = None, **environment: str) -> Session:
        session = Session(tmp_path_factory.mktemp("session"), hub or StubHub(), command, **environment)
        started.append(session)
        return session

    yield start
    for session in started:
        session.away()
        session.hub.shutdown()
        session.hub.server_close()


@pytest.fixture(scope="module")
def quick(start_session: Start) -> Session:
    """One session for the tests that leave it as it was."""
    return start_session()


def test_the_quick_start_answers_what_the_stock_start_answers(quick: Session, start_session: Start) -> None:
    stock = start_session(DSPORTAL_QUICK="0")
    answers = {name: {path: s.ask(path)[0] for path in ASKED} for name, s in (("stock", stock), ("quick", quick))}
    assert answers["quick"] == answers["stock"]
    assert {answers["quick"][path] for path in ("api/contents", "lab", "tree", "api/terminals", "metrics")} == {200}
    for token in ("", "wrong"):
        assert quick.ask("api/contents", token=token)[0] == stock.ask("api/contents", token=token)[0] == 403
    assert series(quick) == series(stock)
    assert "quick start" not in quick.log.read_text()


def test_the_portals_own_command_is_the_last_thing_in_the_path_of_kernels(quick: Session) -> None:
    status, kernel = quick.ask("api/kernels", "POST")
    assert status == 201, kernel
    (process,) = wait_for("the kernel", lambda: kernels(quick))
    environment = (process / "environ").read_bytes().decode().split("\0")
    *_, last = next(line for line in environment if line.startswith("PATH=")).split(":")

    assert [file.name for file in Path(last).iterdir()] == ["portal"], "nothing else is hidden or offered by it"
    listed = subprocess.run([Path(last) / "portal", "notebooks", "list"], capture_output=True, text=True, check=True)
    assert "tensorflow/mnist" in listed.stdout
    quick.ask(f"api/kernels/{json.loads(kernel)['id']}", "DELETE")


def children(session: Session) -> list[str]:
    """The processes that a session's server has started."""
    return Path(f"/proc/{session.process.pid}/task/{session.process.pid}/children").read_text().split()


def kernels(session: Session) -> list[Path]:
    """The kernels among them."""
    processes = map(Path("/proc").joinpath, children(session))
    return [one for one in processes if b"ipykernel" in (one / "cmdline").read_bytes()]


def series(session: Session) -> set[str]:
    """The names of the metrics that a server shows."""
    text = session.ask("metrics")[1]
    return {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")}


def test_the_hub_hears_the_port_before_the_server_is_there_and_its_first_question_waits(start_session: Start) -> None:
    """The hub asks once: what comes early waits in the socket that the server takes over."""
    session = start_session(["-I", "-c", SLOW, "portal.singleuser.server"])
    with socket.create_connection(("127.0.0.1", session.port), DEADLINE_S) as early:
        early.sendall(f"GET {PREFIX}api HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n".encode())
        assert not (session.folder / "go").exists()
        (session.folder / "go").touch()
        assert early.recv(12) == b"HTTP/1.1 200"
    assert (session.home / "templates").is_dir(), "the home is ready when the server answers"
    assert session.hub.bodies("ready")[0] == {"port": session.port, "restarts": 0}


SLOW = """
import pathlib, sys, time
from portal.singleuser import quick_start
from portal.singleuser import server
del sys.argv[1]
load = quick_start.load
def load_slowly():
    while not pathlib.Path(sys.argv[1], "go").exists():
        time.sleep(0.01)
    load()
quick_start.load = load_slowly
server.main()
"""
SURPRISE = """
import pathlib, sys
from portal.singleuser import quick_start
from portal.singleuser import server
del sys.argv[1]
first = pathlib.Path(sys.argv[1], "first")
if not first.exists():
    first.touch()
    {surprise}
server.main()
"""


LATE = (
    "load = quick_start.load; "
    "quick_start.load = lambda: (load(), setattr(sys.modules[{0!r}], {1!r}, lambda *_, **__: 1 / 0))"
)


@pytest.mark.parametrize(
    ("surprise", "error"),
    [
        ("quick_start.load = lambda: 1 / 0", "ZeroDivisionError"),
        of_long_form("quick_start.load = lambda: sys.exit(1)", "SystemExit"),
        of_long_form("quick_start._of_jupyterhub = lambda: [quick_start.StandIn('traitlets')]", "ImportError"),
        of_long_form(LATE.format("jupyterlab.labapp", "LabApp"), "ZeroDivisionError"),
        (LATE.format("jupyter_server.serverapp", "ServerWebApplication"), "ZeroDivisionError"),
    ],
)
def test_after_a_surprise_the_stock_start_follows_on_the_same_port(
    start_session: Start, surprise: str, error: str
) -> None:
    session = start_session(["-I", "-c", SURPRISE.format(surprise=surprise), "portal.singleuser.server"])
    assert session.ask("api/status")[0] == 200
    assert f"[portal] The quick start failed ({error}" in session.log.read_text()
    assert session.ask("dsportal/api/session")[0] == 200
    assert {body["port"] for body in session.hub.bodies("ready")} == {session.port}
    assert len(list(session.temporary.glob("dsp-*"))) == 1, "the first runtime folder is gone"
    assert session.end() == 0
    assert len(session.hub.bodies("ending")) == 1


def test_a_stock_start_that_fails_is_not_tried_for_ever(start_session: Start) -> None:
    session = start_session(
        ["-I", "-c", "import portal.singleuser.server as s; s.configuration = lambda _: 1 / 0; s.main()"]
    )
    assert session.process.wait(DEADLINE_S) == 1
    log = session.log.read_text()
    assert log.count("The quick start failed (ZeroDivisionError") == 1
    assert "ZeroDivisionError" in log.splitlines()[-1]
    assert len(session.hub.bodies("ending")) == 1
    assert not list(session.temporary.glob("dsp-*"))


def test_slurms_signal_ends_it_in_good_order_and_the_hub_hears_of_it_once(start_session: Start) -> None:
    session = start_session()
    assert session.ask("api")[0] == 200
    assert session.end() == 0
    assert session.hub.bodies("ending") == [{}]
    assert "[portal] This session ends: SIGTERM" in session.log.read_text()
    assert not list(session.temporary.glob("dsp-*"))


def test_a_session_that_its_person_shuts_down_tells_the_hub_too(start_session: Start) -> None:
    session = start_session()
    assert session.ask("api/shutdown", "POST")[0] == 200
    assert session.process.wait(DEADLINE_S) == 0
    assert session.hub.bodies("ending") == [{}]


def test_a_session_learns_its_end_from_the_hub_and_until_then_from_its_job(start_session: Start) -> None:
    hub = StubHub()
    silent = start_session(SLURM_JOB_END_TIME="1700000000")
    hub.says[ENDS_AT] = "1700003600"
    told = start_session(hub=hub, SLURM_JOB_END_TIME="1700000000")

    assert json.loads(silent.ask("dsportal/api/time")[1])["ends_at"] == 1700000000
    wait_for("the hub's end", lambda: json.loads(told.ask("dsportal/api/time")[1])["ends_at"] == 1700003600)
    assert silent.ask("dsportal/api/time", token="")[0] == 403


def test_a_session_that_the_hub_refuses_ends(start_session: Start) -> None:
    hub = StubHub()
    hub.refuses["ready"] = 409
    few = "import portal.singleuser.server as s; s.REFUSALS, s.ANNOUNCE_WAIT_S = 2, 0.1; s.main()"
    session = start_session(["-I", "-c", few], hub)
    session.process.wait(DEADLINE_S)
    assert "[portal] This session ends: the hub refused this session: 409" in session.log.read_text()
    assert hub.bodies("ending") == [{}]


def test_the_stop_signal_is_never_lost_however_busy_the_log_is(start_session: Start) -> None:
    """Requests from several sides while the signal comes: each of them is a write to the log."""
    for _ in range(12 if LONG else 5):
        session = start_session()
        assert session.ask("api")[0] == 200
        stop = threading.Event()
        askers = [threading.Thread(target=keep_asking, args=(session, stop)) for _ in range(4)]
        for asker in askers:
            asker.start()
        wait_for("busy log", partial(has_a_busy_log, session))
        try:
            assert session.end() == 0
        finally:
            stop.set()
        for asker in askers:
            asker.join()
        assert session.hub.bodies("ending") == [{}]


def has_a_busy_log(session: Session) -> bool:
    return session.log.read_text().count("GET /user/person/api ") > 20


def keep_asking(session: Session, stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            session.ask("api")
        except (OSError, http.client.HTTPException):
            return


@pytest.mark.parametrize("after_s", [0.0, 0.05, 0.1, 0.2, 0.3, 0.4])
def test_a_signal_during_the_start_ends_it_at_once(start_session: Start, after_s: float) -> None:
    session = start_session()
    assert session.port
    deadline = time.monotonic() + after_s
    wait_for("moment", lambda: time.monotonic() >= deadline)
    assert session.end() in (0, SIGNALLED)
    assert session.hub.bodies("ending") == [{}]
    assert not list(session.temporary.glob("dsp-*"))


def test_between_hub_and_node_everything_is_tls_with_both_sides_known(start_session: Start, tmp_path: Path) -> None:
    store = Certipy(store_dir=str(tmp_path))
    ca = store.create_ca("ca")["files"]["cert"]
    side = {name: store.create_signed_pair(name, "ca", alt_names=["IP:127.0.0.1"])["files"] for name in ("hub", PERSON)}
    asks_for_client = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=ca)
    asks_for_client.verify_mode = ssl.CERT_REQUIRED
    asks_for_client.load_cert_chain(side["hub"]["cert"], side["hub"]["key"])
    given = {"keyfile": side[PERSON]["key"], "certfile": side[PERSON]["cert"], "cafile": ca}
    texts = {name: Path(file).read_text() for name, file in given.items()}
    session = start_session(hub=StubHub(asks_for_client), DSPORTAL_TLS=json.dumps(texts))

    session.tls = ssl.create_default_context(cafile=ca)
    session.tls.load_cert_chain(side["hub"]["cert"], side["hub"]["key"])
    assert session.ask("api/status")[0] == 200, "it asked the hub who we are, with its own certificate"

    session.tls = ssl.create_default_context(cafile=ca)
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
        session.ask("api")
    (runtime,) = session.temporary.glob("dsp-*")
    assert runtime.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in runtime.glob("*.pem")} == {0o600}
    assert session.end() == 0
    assert session.hub.bodies("ending") == [{}]
    assert not runtime.exists()
