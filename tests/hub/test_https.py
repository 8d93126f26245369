"""HTTPS on the portal's own port, from two lines of the settings file."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.hub.conftest import Hub, self_signed

FOLDER = Path("/cluster/test-hub-https")


@pytest.fixture(scope="module")
def https_hub() -> Iterator[Hub]:
    """A hub with a certificate that it signed itself."""
    files = self_signed(Path("/cluster/test-certificates"), "DNS:localhost", "IP:127.0.0.1")
    hub = Hub(FOLDER, 18200, **files)
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
