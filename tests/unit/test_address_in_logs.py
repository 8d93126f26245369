"""The hub's log names who asks by the address that counts; what a sender claims of itself is in no line as one."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from portal.addresses import networks
from portal.guard import intake
from tests.unit.served_hub import ServedHub, served_hub

NODE = "127.0.0.2"  # another host than the hub's, on its own port
HUB = "127.0.0.1"
CLAIMED = "203.0.113.9"
PERSON = "203.0.113.10"
FRONT = "192.0.2.7"


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[ServedHub]:
    """A hub behind a proxy in front that the site names."""
    async with served_hub(tmp_path, tornado_settings={intake.PROXIES: networks([FRONT])}) as served:
        yield served


@pytest.mark.parametrize(
    ("peer", "headers", "address"),
    [
        (NODE, {"X-Real-Ip": CLAIMED}, NODE),
        (NODE, {"X-Forwarded-For": CLAIMED}, NODE),
        (HUB, {"X-Real-Ip": CLAIMED, "X-Forwarded-For": PERSON}, PERSON),
        (HUB, {"X-Forwarded-For": f"{CLAIMED}, {PERSON}"}, PERSON),
        (HUB, {"X-Forwarded-For": f"{CLAIMED}, {PERSON}, {FRONT}"}, PERSON),
        (HUB, {}, HUB),
    ],
)
async def test_a_line_names_the_address_that_is_believed(
    served: ServedHub, caplog: pytest.LogCaptureFixture, peer: str, headers: dict[str, str], address: str
) -> None:
    transport = httpx.AsyncHTTPTransport(local_address=peer)
    async with httpx.AsyncClient(transport=transport, base_url=served.url, timeout=30) as client:
        with caplog.at_level(logging.INFO):
            await client.get("/hub/login", headers=headers)
            await client.get("/hub/login")

    assert re.findall(r"GET /hub/login \(@([^)]*)\)", caplog.text) == [address, peer]
