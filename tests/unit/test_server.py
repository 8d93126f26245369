"""The job side before Jupyter: the port, the word to the hub and the farewell, certificates between hub and node."""

from __future__ import annotations

import json
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from certipy import Certipy

from portal.forwarding import ports
from portal.homes import temporary
from portal.internal_tls import session_files
from portal.session_settings import HUB_ANSWER, TLS, SessionSettings
from portal.singleuser import server
from portal.singleuser.hub_token import token
from portal.singleuser.runtime import runtime_folder

TOKEN = "token-of-the-session"


class Hub(HTTPServer):
    """Answers each POST with the next of ``answers``, the last one for ever, and notes what was said to it."""

    def __init__(self, answers: list[int], tls: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.answers, self.heard = answers, list[tuple[str, str | None, object]]()
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def handle_error(self, *_: object) -> None:
        """A handshake that failed is what some tests want."""


class Answer(BaseHTTPRequestHandler):
    """One request of a session."""

    server: Hub

    def do_POST(self) -> None:
        """Note it and answer."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.heard.append((self.path, self.headers["Authorization"], body))
        answers = self.server.answers
        self.send_response(answers.pop(0) if len(answers) > 1 else answers[0])
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Silence."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Hub]]:
    """Starts hubs; the session's environment names the last one."""
    hubs: list[Hub] = []

    def start(*answers: int, tls: ssl.SSLContext | None = None) -> Hub:
        hubs.append(Hub(list(answers), tls))
        scheme = "https" if tls else "http"
        monkeypatch.setenv("JUPYTERHUB_API_URL", f"{scheme}://127.0.0.1:{hubs[-1].server_port}/hub/api")
        return hubs[-1]

    monkeypatch.setattr(token, "text", TOKEN)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # nobody listens there
    monkeypatch.setattr(server, "ANNOUNCE_WAIT_S", 0)
    for variable in (TLS, *session_files.TLS_FILES.values()):
        monkeypatch.setenv(variable, "")
        monkeypatch.delenv(variable)
    yield start
    for known in hubs:
        known.shutdown()
        known.server_close()


@pytest.mark.parametrize(
    ("url", "with_port"),
    [
        ("http://0.0.0.0:0/user/alice/", "http://0.0.0.0:41233/user/alice/"),
        ("https://0.0.0.0:0/user/alice/", "https://0.0.0.0:41233/user/alice/"),
        ("https://node1/user/b%40c/gpu/", "https://node1:41233/user/b%40c/gpu/"),
    ],
)
def test_only_the_port_of_the_address_changes(url: str, with_port: str) -> None:
    assert server.with_port(url, 41233) == with_port


def test_the_socket_listens_from_the_first_moment_on() -> None:
    """A request that comes before the server is there waits for it and is not refused."""
    with ports.listen("127.0.0.1") as listener, socket.create_connection(listener.getsockname(), 5) as early:
        early.sendall(b"GET")
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.recv(3) == b"GET"


def test_the_hub_hears_the_port_from_the_session_with_its_token(hub: Callable[..., Hub]) -> None:
    heard = hub(204).heard
    server.announce({"port": 41233, "restarts": 0})
    assert heard == [("/hub/api/dsportal/ready", f"token {TOKEN}", {"port": 41233, "restarts": 0})]


def test_a_port_is_said_again_and_again_and_soon_to_a_hub_that_was_away(
    hub: Callable[..., Hub], monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = hub(204, 502, 409, 204).heard
    hangs = iter([True, True, False, True, True])
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) > 5:
            raise EndOfTest

    monkeypatch.setattr("portal.singleuser.server.time.sleep", pause)
    monkeypatch.setattr("portal.singleuser.server.random.uniform", lambda low, high: 1.0)

    with pytest.raises(EndOfTest):
        server.repeat({"port": 41233, "restarts": 1}, lambda: next(hangs))

    assert [body for _, _, body in heard] == [{"port": 41233, "restarts": 1}] * 4, "a server that hangs says nothing"
    assert pauses == [10, 120, 10, 120, 10, 120], "the first one tells when the session ends"


class EndOfTest(Exception):
    """Ends what runs for ever."""


def test_a_hub_that_comes_back_needs_a_moment_to_know_the_session(
    hub: Callable[..., Hub], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "REFUSALS", 3)
    heard = hub(502, 503, 403, 500, 500, 500, 403, 204).heard
    server.announce({"port": 41233, "restarts": 0})
    assert len(heard) == 8


def test_a_hub_that_is_away_is_waited_for(
    hub: Callable[..., Hub], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = hub(204)
    away = iter([ConnectionRefusedError("away"), TimeoutError("silent")])
    real = session_files.connect

    def connect(*arguments: object) -> object:
        if error := next(away, None):
            raise error
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(server, "connect", connect)
    server.announce({"port": 41233, "restarts": 0})
    assert len(there.heard) == 1
    assert "the hub does not answer (silent)" in capsys.readouterr().out


def test_a_session_that_the_hub_refuses_for_good_ends(hub: Callable[..., Hub], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "REFUSALS", 3)
    heard = hub(409).heard
    asked: list[str] = []

    class Ending:
        def ask(self, why: str) -> None:
            asked.append(why)

    server.announce_or_end(41233, Ending())  # type: ignore[arg-type]
    assert asked == ["the hub refused this session: 409"]
    assert len(heard) == 3


@pytest.mark.parametrize("status", [204, 403, 404, 500])
def test_the_farewell_is_one_word_whatever_the_hub_answers(hub: Callable[..., Hub], status: int) -> None:
    heard = hub(status).heard
    server.farewell()
    assert heard == [("/hub/api/dsportal/ending", f"token {TOKEN}", {})]


def test_a_farewell_to_a_silent_hub_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "FAREWELL_TIMEOUT_S", 0.1)
    monkeypatch.setattr(token, "text", TOKEN)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("JUPYTERHUB_API_URL", f"http://127.0.0.1:{server.port_of(silent)}/hub/api")
        server.farewell()
    server.farewell()  # and to one that is gone


class Authority:
    """A certificate authority, and the certificates it gave: as JupyterHub's ``internal_ssl`` makes them."""

    def __init__(self, folder: Path) -> None:
        self.certipy = Certipy(store_dir=str(folder))
        self.ca = Path(self.certipy.create_ca("ca")["files"]["cert"])

    def files(self, name: str) -> dict[str, str]:
        """A key and its certificate, new each time."""
        names = ["IP:127.0.0.1", "DNS:localhost"]
        return dict(self.certipy.create_signed_pair(name, "ca", alt_names=names, overwrite=True)["files"])

    def given(self, name: str) -> dict[str, str]:
        """The three texts that a session gets."""
        files = self.files(name)
        texts = {"keyfile": files["key"], "certfile": files["cert"], "cafile": str(self.ca)}
        return {what: Path(file).read_text() for what, file in texts.items()}

    def hub_side(self) -> ssl.SSLContext:
        """A hub that wants to see a certificate of this authority."""
        files = self.files("hub")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self.ca))
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(files["cert"], files["key"])
        return context


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def test_the_certificates_become_private_files_and_leave_the_environment(
    hub: Callable[..., Hub], authority: Authority, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = authority.given("alice")
    monkeypatch.setenv(TLS, json.dumps(given))

    session_files.use_tls(tmp_path)

    assert TLS not in os.environ
    for name, variable in session_files.TLS_FILES.items():
        file = Path(os.environ[variable])
        assert (file.parent, file.stat().st_mode & 0o777, file.read_text()) == (tmp_path, 0o600, given[name])


def test_without_certificates_there_is_none(hub: Callable[..., Hub], tmp_path: Path) -> None:
    session_files.use_tls(tmp_path)
    assert not list(tmp_path.iterdir())
    assert not set(session_files.TLS_FILES.values()) & set(os.environ)


def test_a_session_shows_its_certificate_to_the_hub(
    hub: Callable[..., Hub], authority: Authority, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    known = hub(204, tls=authority.hub_side())
    monkeypatch.setenv(TLS, json.dumps(authority.given("alice")))
    session_files.use_tls(tmp_path)

    server.announce({"port": 41233, "restarts": 0})
    server.farewell()

    assert [path for path, _, _ in known.heard] == ["/hub/api/dsportal/ready", "/hub/api/dsportal/ending"]


def test_certificates_are_those_of_the_folder_that_was_made_whatever_has_its_name(
    hub: Callable[..., Hub], authority: Authority, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    known = hub(204, tls=authority.hub_side())
    monkeypatch.setenv(TLS, json.dumps(authority.given("alice")))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", "")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    runtime = runtime_folder()
    session_files.use_tls(temporary.held(runtime))
    runtime.rename(tmp_path / "taken")
    runtime.mkdir()

    server.announce({"port": 41233, "restarts": 0})

    assert [path for path, _, _ in known.heard] == ["/hub/api/dsportal/ready"]


@pytest.mark.parametrize("wrong", ["no certificate", "another authority's"])
def test_nothing_is_said_to_a_hub_that_is_not_ours_or_does_not_know_us(
    hub: Callable[..., Hub], authority: Authority, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wrong: str
) -> None:
    known = hub(204, tls=authority.hub_side())
    if wrong != "no certificate":
        (tmp_path / "runtime").mkdir()
        monkeypatch.setenv(TLS, json.dumps(Authority(tmp_path / "other").given("alice")))
        session_files.use_tls(tmp_path / "runtime")

    with pytest.raises(ssl.SSLCertVerificationError):
        server.post("ready", {"port": 41233}, 5)
    assert known.heard == []


@pytest.mark.parametrize(("given", "believed_s"), [("", 20), ("2", 2), ("0", 20), ("-1", 20), ("300", 20)])
def test_a_session_believes_the_hub_for_no_longer_than_it_should(
    monkeypatch: pytest.MonkeyPatch, given: str, believed_s: int
) -> None:
    if given:
        monkeypatch.setenv(HUB_ANSWER, given)

    assert server.configuration(SessionSettings())["HubAuth"]["cache_max_age"] == believed_s
