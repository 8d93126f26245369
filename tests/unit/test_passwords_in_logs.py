"""A password is in no line of the hub's log: not where it was typed into the field of the name, nor in an address."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from jupyterhub.handlers.login import LoginHandler

from portal.errors import DirectoryUnavailable, LoginRefused, NotAllowed, PortalError
from portal.login.attempts import FAILURES, Refusal
from portal.login.auth import LDAPAuthenticator
from portal.login.directory import REFUSED
from tests.unit.served_hub import ServedHub, served_hub
from tests.unit.test_auth import FakeDirectory, authenticator, directory, handler, login

__all__ = ["authenticator", "directory"]
TYPED = "hunter2secret"  # spelled like a name
EVERY_ERROR = (LoginRefused(REFUSED), DirectoryUnavailable("Try again."))


async def no_login(authenticator: LDAPAuthenticator, asks: Any, name: str, word: str = "wrong") -> None:
    """A login that is refused."""
    with pytest.raises(Refusal):
        await authenticator.authenticate(asks, login(name, word))


@pytest.mark.parametrize("password", ["wrong", ""])
@pytest.mark.parametrize("error", EVERY_ERROR, ids=lambda error: type(error).__name__)
async def test_what_is_nobodys_name_here_is_not_logged(
    authenticator: LDAPAuthenticator,
    directory: FakeDirectory,
    caplog: pytest.LogCaptureFixture,
    error: PortalError,
    password: str,
) -> None:
    directory.error = error
    with caplog.at_level(logging.DEBUG):
        for _ in range(FAILURES + 1):  # the last one is too many
            await no_login(authenticator, handler(), TYPED, password)

    assert TYPED not in caplog.text
    assert "No login of a name that is not known here (13 characters) from 10.0.0.1" in caplog.text


async def test_the_name_of_who_has_been_here_is_logged(
    authenticator: LDAPAuthenticator, directory: FakeDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    directory.error = LoginRefused(REFUSED)
    asks = handler()
    asks.find_user = {"alice": SimpleNamespace(name="alice")}.get
    await no_login(authenticator, asks, "alice")

    assert "No login of alice from 10.0.0.1: login_refused" in caplog.text


async def test_a_name_that_the_directory_has_is_logged(
    authenticator: LDAPAuthenticator, directory: FakeDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    directory.error = NotAllowed("not you")
    await no_login(authenticator, handler(), "alice")

    directory.error = LoginRefused(REFUSED, is_somebody=True)
    await no_login(authenticator, handler(), "bob")

    assert "No login of alice from 10.0.0.1: not_allowed" in caplog.text
    assert "No login of bob from 10.0.0.1: login_refused" in caplog.text


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[ServedHub]:
    """A hub, whose log is read."""
    async with served_hub(tmp_path) as served:
        yield served


async def test_a_password_in_an_address_is_in_no_line(served: ServedHub, caplog: pytest.LogCaptureFixture) -> None:
    browser = await served.browser()
    with caplog.at_level(logging.DEBUG):
        await browser.get("/hub/login?username=alice&password=hunter2")
        await browser.get("/hub/nowhere?passwd=hunter2")
        await browser.get("/hub/nowhere?Password=hunter2&pwd=hunter2")

    lines = [line for line in caplog.text.splitlines() if "PortalHub" in line or "portal.guard" in line]
    assert any("username=alice&password=[secret]" in line for line in lines)
    assert any("/hub/nowhere?passwd=[secret]" in line for line in lines)
    assert not [line for line in lines if "hunter2" in line]


async def test_a_fault_is_logged_without_the_query_of_the_page_before(
    served: ServedHub, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(_handler: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr(LoginHandler, "get", fails)
    headers = {"Referer": f"{served.url}/hub/login?password=hunter2"}
    async with httpx.AsyncClient(base_url=served.url, timeout=30) as client:
        assert (await client.get("/hub/login", headers=headers)).status_code == 500

    (told,) = [line for line in caplog.text.splitlines() if line.strip().startswith('"Referer"')]
    assert told.rstrip(",").endswith('/hub/login"')
