"""A name that is given to somebody else: the login of before goes on with nothing, on a served hub."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest
from jupyterhub.authenticators.shared import SharedPasswordAuthenticator

from portal.login.other import SiteRules
from portal.quotas.figures import Quota
from portal.testing.behaviours import PendingForever
from tests.unit.served_hub import PASSWORD, ServedHub, eventually, served_hub
from tests.unit.test_several_sessions import user_of

FIELDS = {"partition": "sxm2", "gpus": "1", "hours": "2"}
numbers = {"alice": "1001"}


class Own(SiteRules, SharedPasswordAuthenticator):  # type: ignore[misc]
    """A site's own login, on a host whose accounts are those of ``numbers``."""

    @staticmethod
    async def number_of(name: str) -> str | None:
        return numbers.get(name)

    number_beside = number_of

    @staticmethod
    async def account_of(name: str) -> str | None:
        return name


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[ServedHub]:
    numbers["alice"] = "1001"

    def prepare(hub: Any) -> None:
        hub.config.Own.user_password = PASSWORD
        hub.config.Own.state_folder = str(tmp_path)
        hub.config.Own.auth_refresh_age = 3600  # what stands behind each door must not need the next look

    async with served_hub(tmp_path, prepare, authenticator_class=Own) as hub:
        hub.hub.proxy.delete_user = AsyncMock()
        yield hub


@pytest.fixture
async def alice(served: ServedHub) -> httpx.AsyncClient:
    """The browser of who had the name; her session waits."""
    browser = await served.browser("alice")
    served.slurm.next_job(PendingForever())
    await browser.post("/hub/spawn", data=FIELDS | {"_xsrf": browser.cookies["_xsrf"]})
    assert [job.user for job, _ in served.slurm.known()] == ["alice"]
    numbers["alice"] = "2002"
    return browser


async def test_no_request_of_before_is_changed_into_a_job_of_who_has_the_name_now(
    served: ServedHub, alice: httpx.AsyncClient
) -> None:
    served.slurm.next_job(PendingForever())
    data = FIELDS | {"gpus": "2", "_xsrf": alice.cookies["_xsrf"]}

    answer = await alice.post("/hub/dsportal/change/alice", data=data)

    assert answer.status_code == 403
    assert "belongs to somebody else than at the last login" in answer.text
    assert [job.id for job, _ in served.slurm.known()] == ["1"]


async def looked(authenticator: Any, user: Any) -> None:
    """Half a minute later the account was looked at, beside a page."""
    authenticator._looks._begun.clear()
    await authenticator.refresh_user(user)
    await asyncio.gather(*authenticator._looks._under_way)


async def test_who_logs_in_with_a_new_number_goes_on(served: ServedHub, alice: httpx.AsyncClient) -> None:
    authenticator: Any = served.hub.authenticator
    await looked(authenticator, user_of(served))
    await user_of(served).spawner.stop()
    served.hub.users.delete(user_of(served))

    await served.browser("alice")

    assert await authenticator.refresh_user(user_of(served)) is True


async def test_the_next_look_at_a_login_of_before_ends_it(served: ServedHub, alice: httpx.AsyncClient) -> None:
    authenticator: Any = served.hub.authenticator
    user = user_of(served)

    await looked(authenticator, user)
    assert await authenticator.refresh_user(user) is False
    numbers["alice"] = "1001"
    await looked(authenticator, user)
    assert await authenticator.refresh_user(user) is True
    numbers["alice"] = "2002"
    await looked(authenticator, user)
    del numbers["alice"]
    await looked(authenticator, user)
    assert await authenticator.refresh_user(user) is False, "a name service that is silent says nothing else"
    assert await authenticator.is_of_before("alice") is False


async def test_whose_login_has_ended_is_led_to_the_login_page_and_starts_nothing(
    served: ServedHub, alice: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    authenticator: Any = served.hub.authenticator
    user = user_of(served)
    await user.spawner.stop()
    await eventually(lambda: not user.spawner.pending)
    await looked(authenticator, user)

    refused = await alice.post("/hub/spawn", data=FIELDS | {"_xsrf": alice.cookies["_xsrf"]})
    user._auth_refreshed = None
    page = await alice.get("/hub/home")

    assert refused.status_code == 403
    assert page.url.path == "/hub/login"
    assert [
        record for record in caplog.records if record.exc_info and "AttributeError" in str(record.exc_info[1])
    ] == []


async def test_figures_of_one_are_not_those_of_the_other(
    served: ServedHub, alice: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []

    async def of(_site: object, person: str, record: str) -> tuple[Quota, ...]:
        asked.append((person, record))
        return ()

    monkeypatch.setattr(served.hub.context.quotas, "of", of)
    await user_of(served).spawner.quotas()
    served.hub.users.delete(user_of(served))
    await served.browser("alice")
    await user_of(served).spawner.quotas()

    assert [name for name, _ in asked] == ["alice", "alice"]
    assert len({record for _, record in asked}) == 2


async def test_who_logs_out_and_in_again_has_the_figures_of_before(
    served: ServedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def of(_site: object, _person: str, record: str) -> tuple[Quota, ...]:
        asked.append(record)
        return ()

    monkeypatch.setattr(served.hub.context.quotas, "of", of)
    for _ in range(2):
        browser = await served.browser("alice")
        await user_of(served).spawner.quotas()
        await browser.post("/hub/logout", data={"_xsrf": browser.cookies["_xsrf"]})
    await served.browser("alice")

    assert len(asked) == 2
    assert len(set(asked)) == 1
