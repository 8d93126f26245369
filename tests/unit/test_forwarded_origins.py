"""Whether a page of another origin sends a request, by what its browser says."""

from __future__ import annotations

import pytest
from tornado.httputil import HTTPHeaders

from portal.forwarding.origins import is_from_elsewhere, is_from_own_page

HOST = "alice.example:8000"
FIREFOX = {
    "Sec-Fetch-Site": "none",
    "User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
}
AHEAD = {"Sec-Fetch-Site": "none", "Sec-Purpose": "prefetch"}


@pytest.mark.parametrize(
    "given",
    [
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": ""},
        {"Sec-Fetch-Site": "cross-site", "Origin": f"http://{HOST}"},
        {"Origin": "http://bob.example:8000"},
        {"Origin": "http://alice.example"},
        {"Origin": f"http://{HOST}.evil"},
        {"Origin": f"http://evil@{HOST}"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://["},
        {"Origin": "http://\u2100.example"},
        {"Upgrade": "websocket", "Origin": "http://bob.example", "Sec-Fetch-Site": "same-origin"},
        {"Upgrade": "WebSocket", "Origin": "null"},
        {"Upgrade": "websocket", "Sec-Fetch-Site": "same-site"},
        {**FIREFOX, "Sec-Fetch-Dest": "document"},
        {**FIREFOX, "Sec-Fetch-Dest": "iframe"},
        {"Sec-Fetch-Site": "none", "Origin": "null"},
        {"Sec-Fetch-Site": "none", "Origin": "http://bob.example:8000"},
        AHEAD,
        {**AHEAD, "Referer": "http://bob.example:8000/"},
        {**AHEAD, "Referer": f"http://bob.example/{HOST}"},
    ],
)
def test_a_page_of_another_origin_is_known(given: dict[str, str]) -> None:
    assert is_from_elsewhere(HTTPHeaders({"Host": HOST, **given}))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
        {
            "Sec-Fetch-Site": "none",
            "Sec-Fetch-Dest": "document",
            "User-Agent": "Mozilla/5.0 Chrome/156.0 Safari/537.36",
        },
        {**FIREFOX, "Sec-Fetch-Dest": "image"},
        {**FIREFOX, "Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none", "Origin": f"http://{HOST}"},
        {"Origin": f"http://{HOST}"},
        {"Origin": f"https://{HOST.upper()}"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "http://behind-a-proxy.example"},
        {"Upgrade": "websocket", "Origin": f"http://{HOST}", "Sec-Fetch-Site": "cross-site"},
        {**AHEAD, "Referer": f"https://{HOST}/user/alice/lab"},
        {"Sec-Fetch-Site": "same-origin", "Sec-Purpose": "prefetch;prerender"},
    ],
)
def test_ones_own_page_and_a_program_are_not(given: dict[str, str]) -> None:
    assert not is_from_elsewhere(HTTPHeaders({"Host": HOST, **given}))


@pytest.mark.parametrize(
    ("given", "is_own"),
    [
        ({}, True),
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "same-origin", "Sec-Purpose": "prefetch;prerender"}, True),
        ({**AHEAD, "Referer": f"https://{HOST}/user/alice/lab"}, True),
        (AHEAD, False),
        ({"Sec-Fetch-Site": "none"}, False),
        ({"Sec-Fetch-Site": "none", "Referer": f"https://{HOST}/user/alice/lab"}, False),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Origin": "http://bob.example:8000"}, False),
    ],
)
def test_what_no_page_leads_to_is_not_from_ones_own(given: dict[str, str], is_own: bool) -> None:
    assert is_from_own_page(HTTPHeaders({"Host": HOST, **given})) is is_own
