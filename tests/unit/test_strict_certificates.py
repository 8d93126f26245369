"""Certificates with faults of form, which Python 3.13 began to refuse: the same answer on every Python, and words."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from certipy import Certipy

from portal.doctor.site_checks import in_form
from portal.hub.certificates import TrustedCertificates, signed
from portal.settings.ldap_table import LdapTable
from tests.directory.slapd import Authority

HERE = "127.0.0.1"


@contextmanager
def server(certificate: Path, key: Path) -> Iterator[int]:
    """The port of a server that makes TLS with whoever comes, and hangs up."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def serve() -> None:
        while True:
            try:
                taken, _ = listening.accept()
            except OSError:
                return
            try:
                context.wrap_socket(taken, server_side=True).close()
            except OSError:
                taken.close()

    with socket.create_server((HERE, 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def shake_hands(context: ssl.SSLContext, port: int, name: str = HERE) -> None:
    """Raise :class:`ssl.SSLError` when the server is not trusted."""
    with socket.create_connection((HERE, port)) as plain, context.wrap_socket(plain, server_hostname=name):
        pass


@pytest.fixture
def old_authority(tmp_path: Path) -> Authority:
    """One without keyUsage, as openssl makes it when nothing is asked for."""
    return Authority(tmp_path / "old", "Old CA")


@pytest.fixture
def as_python_313(monkeypatch: pytest.MonkeyPatch) -> None:
    """The flags that `ssl.create_default_context` has since Python 3.13, on whatever Python this is."""
    made = ssl.create_default_context

    def strict(*arguments: ssl.Purpose, cafile: str | None = None) -> ssl.SSLContext:
        context = made(*arguments, cafile=cafile)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)


@pytest.mark.usefixtures("as_python_313")
def test_an_authority_without_key_usage_is_trusted_on_every_python(old_authority: Authority) -> None:
    with server(*old_authority.certificate("ldap", f"IP:{HERE}")) as port:
        shake_hands(TrustedCertificates(str(old_authority.file)).context(), port)


@pytest.mark.usefixtures("as_python_313")
def test_who_is_somebody_else_is_refused_all_the_same(old_authority: Authority, tmp_path: Path) -> None:
    with server(*old_authority.certificate("ldap", "DNS:other.example.org")) as port:
        with pytest.raises(ssl.SSLError, match="IP address mismatch"):
            shake_hands(TrustedCertificates(str(old_authority.file)).context(), port)
        other = Authority(tmp_path / "other", "Other CA")
        with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
            shake_hands(TrustedCertificates(str(other.file)).context(), port)


def test_the_doctor_names_the_fault_of_form_and_how_to_mend_it(old_authority: Authority) -> None:
    with server(*old_authority.certificate("ldap", f"IP:{HERE}")) as port:
        url = f"ldaps://{HERE}:{port}"
        settings = LdapTable(servers=(url,), ca_file=str(old_authority.file), user_dn="uid={username},dc=x")

        check = in_form(settings, url)

    assert check is not None
    assert (check.what, check.result) == (f"LDAP {url}", "warning")
    assert "key" in check.found
    assert "_ssl" not in check.found
    assert "keyUsage" in check.repair
    assert "docs/howto/ldap.md" in check.repair


def test_what_the_hub_itself_signs_is_in_form(tmp_path: Path) -> None:
    """JupyterHub's own contexts are strict on Python 3.13: its internal TLS would end."""
    Certipy(store_dir=str(tmp_path)).create_ca("notebooks-ca")
    key, certificate = signed(tmp_path, "notebooks-ca", "user-alice", [f"IP:{HERE}"])
    files = (tmp_path / "one.crt", tmp_path / "one.key")
    for file, text in zip(files, (certificate, key), strict=True):
        file.write_text(text)
    authority = tmp_path / "notebooks-ca" / "notebooks-ca.crt"

    with server(*files) as port:
        shake_hands(TrustedCertificates(str(authority), is_strict=True).context(), port)
