"""An address for each person: what the setting may be, what the hub makes of it, and what the doctor looks at."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from traitlets.config import Config

from portal.assets.files import FOLDER, key_of
from portal.doctor import domain_checks
from portal.errors import SiteError
from portal.hub import config
from portal.site import Site, parse

PAIR = {"certificate": "/etc/dsportal/portal.crt", "key": "/etc/dsportal/portal.key"}


def site_with(**portal: object) -> Site:
    """A site with these lines in its table [portal]."""
    return parse({"portal": portal})


@pytest.mark.parametrize(
    ("lines", "url"),
    [
        ({}, ""),
        ({"domain": "portal.example.org"}, "http://portal.example.org:8000"),
        ({"domain": "portal.example.org", "port": 80}, "http://portal.example.org"),
        ({"domain": "portal.example.org", **PAIR}, "https://portal.example.org:8000"),
        ({"domain": "portal.example.org", "port": 443, **PAIR}, "https://portal.example.org"),
        ({"domain": "https://portal.example.org"}, "https://portal.example.org"),
        ({"domain": "https://portal.example.org:8443"}, "https://portal.example.org:8443"),
        ({"domain": "localhost:42765"}, "http://localhost:42765"),
    ],
)
def test_the_portals_address_is_made_of_its_domain_and_what_else_is_known(lines: dict[str, object], url: str) -> None:
    site = site_with(**lines)
    c = Config()
    config.addresses(c, site)

    assert site.portal.public_url == url
    assert c.JupyterHub.subdomain_host == url


@pytest.mark.parametrize(
    "domain",
    [
        "10.1.2.3",
        "Portal.example.org",
        "portal.example.org/",
        "*.example.org",
        "ftp://a.b",
        "a.b:0",
        "a.b:99999",
        "a b",
        "[::1]",
    ],
)
def test_a_domain_below_which_no_name_can_stand_is_refused(domain: str) -> None:
    with pytest.raises(SiteError, match=r"portal\.domain.*a name such as portal\.example\.org"):
        site_with(domain=domain)


# -- the doctor -----------------------------------------------------------------------------------------


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The names that resolve, with their addresses; ``*`` is any name below one."""
    names: dict[str, str] = {}

    def addresses(name: str, port: object) -> list[tuple[object, ...]]:
        found = names.get(name) or names.get(f"*.{name.partition('.')[2]}")
        if not found:
            raise socket.gaierror(-2, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (found, 0))]

    monkeypatch.setattr("portal.doctor.domain_checks.socket.getaddrinfo", addresses)
    return names


def test_a_site_without_a_domain_fails_and_is_told_what_that_means() -> None:
    (check,) = domain_checks.domain(site_with())

    assert (check.result, check.found) == ("failed", "not set: all sessions and the hub share one origin")
    assert "can act as whoever visits it" in check.repair


@pytest.mark.parametrize(
    ("names", "result", "words"),
    [
        (
            {"p.example.org": "10.0.0.1", "*.p.example.org": "10.0.0.1"},
            "ok",
            "sessions at NAME.p.example.org (10.0.0.1)",
        ),
        ({"p.example.org": "10.0.0.1"}, "failed", "*.p.example.org cannot be resolved"),
        ({}, "failed", "p.example.org cannot be resolved"),
        ({"p.example.org": "10.0.0.1", "*.p.example.org": "10.0.0.2"}, "warning", "names below it are 10.0.0.2"),
    ],
)
def test_the_name_and_any_name_below_it_lead_to_the_same_place(
    known: dict[str, str], names: dict[str, str], result: str, words: str
) -> None:
    known |= names

    (check,) = domain_checks.domain(site_with(domain="p.example.org"))

    assert check.result == result
    assert words in check.found


def test_localhost_needs_no_name_service(known: dict[str, str]) -> None:
    (check,) = domain_checks.domain(site_with(domain="localhost"))

    assert check.result == "ok"


def certificate_for(folder: Path, *names: str) -> dict[str, str]:
    """A certificate for these names, and its key, as the lines of [portal]."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "portal")])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(now - timedelta(1))
        .not_valid_after(now + timedelta(90))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(one) for one in names]), critical=False)
    )
    (folder / "crt").write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    kinds = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key").write_bytes(key.private_bytes(*kinds))
    return {"certificate": str(folder / "crt"), "key": str(folder / "key")}


@pytest.mark.parametrize(
    ("names", "result", "words"),
    [
        (["p.example.org", "*.p.example.org"], "ok", "it is for p.example.org and *.p.example.org"),
        (["p.example.org"], "failed", "it is not for *.p.example.org"),
        (["*.p.example.org"], "failed", "it is not for p.example.org"),
        (["*.example.org"], "failed", "it is not for *.p.example.org and p.example.org"),
    ],
)
def test_the_certificate_is_for_the_name_and_for_all_names_below_it(
    known: dict[str, str], tmp_path: Path, names: list[str], result: str, words: str
) -> None:
    known |= {"p.example.org": "10.0.0.1", "*.p.example.org": "10.0.0.1"}

    _, check = domain_checks.domain(site_with(domain="p.example.org", **certificate_for(tmp_path, *names)))

    assert (check.result, check.found) == (result, words)


@pytest.fixture
def server_in_front(tmp_path: Path) -> Iterator[int]:
    """The port of a server that speaks TLS with a certificate without a wildcard."""
    files = certificate_for(tmp_path, "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files["certificate"], files["key"])
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            connection, _ = listening.accept()
            context.wrap_socket(connection, server_side=True).close()

        threading.Thread(target=answer, daemon=True).start()
        yield listening.getsockname()[1]


def test_the_certificate_of_a_server_in_front_is_looked_at_as_browsers_get_it(
    server_in_front: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = socket.create_connection
    monkeypatch.setattr(
        "portal.doctor.domain_checks.socket.create_connection", lambda to, timeout: real(("127.0.0.1", to[1]), timeout)
    )

    _, check = domain_checks.domain(site_with(domain=f"https://localhost:{server_in_front}"))

    assert (check.result, check.found) == ("failed", "it is not for *.localhost")


def test_a_server_in_front_that_is_not_there_is_a_warning() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    _, check = domain_checks.domain(site_with(domain=f"https://localhost:{port}"))

    assert (check.result, "was not reached" in check.found) == ("warning", True)


@pytest.fixture
def in_front() -> Iterator[ThreadingHTTPServer]:
    """What hands out the hub's files, with the headers and the status that a test gives it."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_response(server.status)  # type: ignore[attr-defined]
            for value in server.allowed:  # type: ignore[attr-defined]
                self.send_header("Access-Control-Allow-Origin", value)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    seen: list[str] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        server.__dict__.update(status=200, allowed=["*"], seen=seen)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.parametrize(
    ("status", "allowed", "result", "words"),
    [
        (200, ["*"], "ok", "may load them from localhost:"),
        (200, [], "failed", "Access-Control-Allow-Origin: none, not *"),
        (200, ["*", "*"], "failed", "Access-Control-Allow-Origin: *, *, not *"),  # a browser takes no two
        (200, ["https://other.example.org"], "failed", "not *"),
        (404, [], "ok", "answers 404, as before the portal runs with this"),
        (502, [], "ok", "answers 502"),
    ],
)
def test_pages_of_sessions_may_load_jupyterlabs_files_through_what_stands_in_front(
    in_front: ThreadingHTTPServer, status: int, allowed: list[str], result: str, words: str
) -> None:
    in_front.__dict__.update(status=status, allowed=allowed)

    (check,) = domain_checks.lab_files(site_with(domain="localhost", port=in_front.server_address[1], base_url="/jl/"))

    assert (check.result, words in check.found) == (result, True), check
    assert in_front.__dict__["seen"] == [f"/jl/hub/dsportal/lab/{key_of(FOLDER)}/first.json"]
    assert not check.repair or "pass Access-Control-Allow-Origin of /jl/hub/dsportal/lab/ on as it is" in check.repair


def test_a_portal_that_does_not_run_is_asked_for_no_file() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    (check,) = domain_checks.lab_files(site_with(domain=f"https://localhost:{port}"))
    assert (check.result, "does not answer" in check.found) == ("ok", True)
    (check,) = domain_checks.lab_files(site_with())
    assert check.found == "of the same origin as everything else"


@pytest.mark.parametrize(
    ("lines", "closed"),
    [
        ({"domain": "https://portal.example.org"}, True),
        ({"domain": "portal.example.org", **PAIR}, True),
        ({"domain": "portal.example.org"}, False),  # browsers take the prefix from HTTPS alone
        ({**PAIR}, False),  # it would send the cookie of one session to all others
    ],
)
def test_no_other_host_can_set_the_cookie_of_a_login_where_browsers_can_help(
    lines: dict[str, object], closed: bool
) -> None:
    c = Config()
    config._sessions(c, site_with(**lines))

    assert c.JupyterHub.cookie_host_prefix_enabled is closed
