"""What hub and sessions trust when they connect to each other: the hub's own authorities, and none of the host's."""

from __future__ import annotations

import importlib
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from jupyterhub import utils

from portal.internal_tls import contexts
from tests.unit.test_server import Authority

OF_BOTH = (*contexts.OF_HUB, *contexts.OF_SESSIONS)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ours")


@pytest.fixture
def known_to_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """One that this host takes for a public one."""
    made = Authority(tmp_path / "public")
    monkeypatch.setenv("SSL_CERT_FILE", str(made.ca))
    return made


@pytest.fixture(params=OF_BOTH)
def module(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of JupyterHub, which is afterwards as it was."""
    name = str(request.param)
    monkeypatch.setattr(importlib.import_module(name), "make_ssl_context", utils.make_ssl_context)
    return name


@contextmanager
def listening(with_certificate_of: Authority) -> Iterator[int]:
    """The port of a server that shows a certificate of an authority."""
    files = with_certificate_of.files("hub")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files["cert"], files["key"])
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            with suppress(OSError), context.wrap_socket(listener.accept()[0], server_side=True) as peer:
                peer.sendall(b"hello")

        threading.Thread(target=answer, daemon=True).start()
        yield listener.getsockname()[1]


def heard(port: int, context: ssl.SSLContext) -> bytes:
    """What a server says to whoever trusts it."""
    plain = socket.create_connection(("127.0.0.1", port), timeout=10)
    with context.wrap_socket(plain, server_hostname="localhost") as connection:
        return connection.recv(5)


def made_by(module: str, authority: Authority) -> ssl.SSLContext:
    """What a module of JupyterHub would connect with."""
    files = authority.files("alice")
    context = importlib.import_module(module).make_ssl_context(files["key"], files["cert"], cafile=str(authority.ca))
    assert isinstance(context, ssl.SSLContext)
    return context


def test_what_has_a_certificate_of_a_public_authority_is_neither_the_hub_nor_a_session(
    module: str, authority: Authority, known_to_the_host: Authority
) -> None:
    with listening(known_to_the_host) as port:
        assert heard(port, made_by(module, authority)) == b"hello", "JupyterHub's own way"

    contexts.trust_own_authorities(module)

    with listening(known_to_the_host) as port, pytest.raises(ssl.SSLCertVerificationError):
        heard(port, made_by(module, authority))
    with listening(authority) as port:
        assert heard(port, made_by(module, authority)) == b"hello"


def test_the_files_of_one_side_are_read_once(authority: Authority) -> None:
    files = authority.files("alice")
    first = contexts.own_context(files["key"], files["cert"], str(authority.ca))
    assert contexts.own_context(files["key"], files["cert"], str(authority.ca)) is first
    assert (first.check_hostname, first.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert len(first.get_ca_certs()) == 1


def test_without_a_certificate_there_is_no_tls_and_servers_are_jupyterhubs_own(authority: Authority) -> None:
    files = authority.files("hub")
    assert contexts.make_context("", "", cafile=str(authority.ca)) is None
    server = contexts.make_context(files["key"], files["cert"], str(authority.ca), purpose=ssl.Purpose.CLIENT_AUTH)
    assert server is not None
    assert not server.check_hostname


def test_a_hub_with_internal_tls_uses_it_and_no_module_of_jupyterhub_is_forgotten() -> None:
    used = {name for name in OF_BOTH if hasattr(importlib.import_module(name), "make_ssl_context")}
    assert used == set(OF_BOTH), "this release of JupyterHub connects elsewhere"
