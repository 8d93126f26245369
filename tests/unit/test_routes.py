"""The proxy of a hub that comes back."""

from __future__ import annotations

import asyncio
import logging

import pytest

from portal.hub import restart


@pytest.mark.parametrize(
    ("fails_with", "logged"),
    [(None, "3 sessions were looked at"), (OSError("no sudo"), "Not all sessions could be looked at")],
)
async def test_the_routes_are_brought_back_although_the_proxy_or_a_session_fails(
    fails_with: OSError | None, logged: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restart, "ROUTES_EVERY_S", 0.01)
    sessions: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    if fails_with:
        sessions.set_exception(fails_with)
    else:
        sessions.set_result(3)
    answers = iter([ConnectionError("the proxy is not there yet"), None])

    async def check_routes() -> None:
        if error := next(answers):
            raise error

    with caplog.at_level(logging.INFO):
        await restart.bring_back(check_routes, sessions, logging.getLogger("hub"))

    first, last = caplog.records
    assert first.getMessage() == "The routes of the sessions: tried again"
    assert last.getMessage() == logged
    assert (last.exc_info[1] if last.exc_info else None) is fails_with
