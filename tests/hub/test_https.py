"""HTTPS on the portal's own port, from two lines of the settings file."""

from __future__ import annotations

import shutil
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.hub.conftest import Hub
from tests.inside import sh

FOLDER = Path("/cluster/test-hub-https")


@pytest.fixture(scope="module")
def https_hub() -> Iterator[Hub]:
    """A hub with a certificate that it signed itself."""
    certificates = Path("/cluster/test-certificates")
    shutil.rmtree(certificates, ignore_errors=True)
    certificates.mkdir()
    key, certificate = certificates / "key.pem", certificates / "certificate.pem"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names]
    sh(*command, "-keyout", str(key), "-out", str(certificate))
    shutil.chown(key, "portal")
    hub = Hub(FOLDER, 18200, certificate=str(certificate), key=str(key))
    hub.prepare()
    hub.start()
    yield hub
    hub.stop()


def test_the_page_is_served_with_the_sites_certificate_and_secure_cookies(https_hub: Hub) -> None:
    trusted = ssl.create_default_context(cafile=https_hub.settings["certificate"])
    answer = httpx.get(f"{https_hub.url}/hub/login", trust_env=False, verify=trusted)

    assert answer.status_code == 200
    cookies = answer.headers.get_list("set-cookie")
    assert cookies
    assert all("secure" in cookie.lower() and "samesite=lax" in cookie.lower() for cookie in cookies)


def test_plain_http_is_not_answered_on_that_port(https_hub: Hub) -> None:
    with pytest.raises(httpx.HTTPError):
        httpx.get(https_hub.url.replace("https", "http"), trust_env=False)


def test_without_a_certificate_the_portal_warns_and_with_one_it_does_not(hub: Hub, https_hub: Hub) -> None:
    assert "no certificate is set" in hub.log()
    assert "no certificate is set" not in https_hub.log()
