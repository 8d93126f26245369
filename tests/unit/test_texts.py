"""What is no text, or no number that a database keeps: refused before anything is done, and nobody else notices."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import nullcontext
from typing import Any
from unittest import mock

import pytest
import pytest_asyncio
from jupyterhub import orm
from tornado import web
from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine

from portal.guard import pages, texts
from tests.unit.served_hub import ServedHub, served_hub

HALF = '"\\ud800"'  # as JSON can write it
NEVER_KEPT = [
    HALF,
    '"\\u0000"',
    str(10**30),
    str(-(2**63) - 1),
    "NaN",
    "-Infinity",
    "1e999",
    f"{{{HALF}: 1}}",
    f"[[{HALF}]]",
]
KEPT = ['"\\ud83d\\ude00"', '"ü"', str(2**63 - 1), "1.5", "null", "true", '{"a": [1, {"b": "c"}]}']


ON_ONE_LOOP = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServedHub]:
    """One hub for all: after each call it goes on as before."""
    async with served_hub(tmp_path_factory.mktemp("hub"), allow_named_servers=True) as hub:
        yield hub


def is_refused(value: Any) -> bool:
    try:
        texts.check_json(value)
    except web.HTTPError as error:
        return error.status_code == 400
    return False


@pytest.mark.parametrize("written", NEVER_KEPT)
def test_what_json_can_write_and_no_database_can_keep_is_refused_however_deep(written: str) -> None:
    assert is_refused(json.loads(written))
    assert is_refused({"a": [0, {"b": json.loads(written)}]})


@pytest.mark.parametrize("written", KEPT)
def test_what_can_be_kept_is_not(written: str) -> None:
    assert not is_refused(json.loads(written))


def test_a_depth_that_no_call_could_follow_is_looked_at_too() -> None:
    deep: list[Any] = ["\ud800"]
    for _ in range(100_000):
        deep = [deep]

    assert is_refused(deep)


async def call(hub: ServedHub, method: str, path: str, body: str | bytes) -> int:
    """The status of a call of Alice's; after it the hub answers, and nothing of the call was kept."""
    alice, bob = hub.clients or [await hub.browser("alice"), await hub.browser("bob")]
    token = hub.token("alice")
    headers = {"Authorization": f"token {token}", "Accept": "application/json"}
    answer = await alice.request(method, f"/hub/api{path}", content=body, headers=headers)
    next_one = await bob.get("/hub/home")
    own = await alice.get("/hub/api/users/alice", headers=headers)
    hub.hub.db.delete(orm.APIToken.find(hub.hub.db, token))  # a person has a hundred at a time
    hub.hub.db.commit()
    assert (next_one.status_code, own.status_code) == (200, 200)
    assert "ud800" not in own.text
    if answer.status_code == 400:
        assert answer.json()["message"]
    return answer.status_code


@ON_ONE_LOOP
@pytest.mark.parametrize("value", [*NEVER_KEPT[:7], '"\xff"'])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", "/users/alice/server", '{{"display_name": {0}}}'),
        ("PATCH", "/users/alice/server", '{{"user_options": {{"partition": {0}}}}}'),
        ("PATCH", "/users/alice/server", '{{"name": {0}}}'),
        ("PUT", "/users/alice/servers/a", '{{"display_name": {0}}}'),
        ("POST", "/users/alice/servers/a", '{{"display_name": {0}}}'),
        ("POST", "/users/alice/server", '{{"partition": {0}}}'),
        ("POST", "/users/alice/tokens", '{{"note": {0}}}'),
        ("POST", "/users/alice/tokens", '{{"expires_in": {0}}}'),
        ("DELETE", "/users/alice/server", '{{"remove": {0}}}'),
    ],
)
async def test_a_body_that_no_database_keeps_is_refused_and_the_next_person_is_answered(
    served: ServedHub, method: str, path: str, body: str, value: str
) -> None:
    assert await call(served, method, path, body.format(value).encode("latin-1")) == 400


@ON_ONE_LOOP
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", "/users/alice/server", '{"name": 5}'),
        ("PATCH", "/users/alice/server", '{"name": []}'),
        ("PATCH", "/users/alice/server", '{"name": {}}'),
        ("PATCH", "/users/alice/server", '{"display_name": 5}'),
        ("PATCH", "/users/alice/server", '{"display_name": "two\\nlines"}'),
        ("PATCH", "/users/alice/server", json.dumps({"display_name": "x" * 5000})),
        ("PATCH", "/users/alice/server", '{"name": "b", "display_name": null}'),
        ("DELETE", "/users/alice/server", "[1]"),
    ],
)
async def test_a_body_of_another_kind_is_refused_in_words_and_not_with_a_fault(
    served: ServedHub, method: str, path: str, body: str
) -> None:
    assert await call(served, method, path, body) == 400


DEEP = f"[{','.join(['[' * 900 + ']' * 900] * 500)}]"
WIDE = f"[{'1,' * 400_000}1]"
NAMED = json.dumps(dict.fromkeys(map(str, range(80_000)), 0))


@ON_ONE_LOOP
@pytest.mark.parametrize("body", [DEEP, WIDE, NAMED], ids=["deep", "wide", "named"])
async def test_a_body_of_very_many_parts_is_refused_before_it_is_read(served: ServedHub, body: str) -> None:
    """Each keeps the hub from all others for as long as that takes, and its length is allowed."""
    for method, path in (("POST", "/users/alice/activity"), ("PATCH", "/users/alice/server")):
        with mock.patch.object(pages, "check_json", side_effect=AssertionError("it was read")):
            assert await call(served, method, path, body) == 400


@ON_ONE_LOOP
async def test_a_session_is_known_before_its_body_is_read(served: ServedHub) -> None:
    assert await call(served, "POST", "/dsportal/ready", DEEP) == 403
    nobody = await served.browser()
    assert (await nobody.post("/hub/api/dsportal/ready", content=DEEP)).status_code == 403
    await nobody.aclose()
    served.clients.remove(nobody)


def test_a_body_of_many_names_is_none_of_those() -> None:
    texts.check_body(json.dumps({"usernames": [f"person{number}" for number in range(15_000)]}).encode())


@ON_ONE_LOOP
async def test_an_address_that_is_no_text_is_refused(served: ServedHub) -> None:
    for path in ("/users/%ED%A0%80", "/users/a%00", "/users/alice/servers/%FF"):
        assert await call(served, "GET", path, "") == 400


@ON_ONE_LOOP
@pytest.mark.parametrize("number", [str(2**63), "9" * 400, "9" * 5000, "%2B" + "9" * 30, "%D9%A9" * 30])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/users/alice/shared?offset={0}"),
        ("GET", "/shares/alice?offset={0}"),
        ("GET", "/users/alice/tokens/a{0}"),
        ("DELETE", "/users/alice/tokens/a{0}"),
    ],
)
async def test_a_number_in_an_address_that_no_database_knows_is_refused(
    served: ServedHub, method: str, path: str, number: str
) -> None:
    assert await call(served, method, path.format(number), "") == 400


@pytest.mark.parametrize(("length", "is_kept"), [(43, True), (128, True), (129, False), (5000, False)])
def test_what_a_login_into_a_session_has_the_hub_keep_is_short(length: int, is_kept: bool) -> None:
    line = RequestStartLine("GET", f"/hub/api/oauth2/authorize?code_challenge={length * 'x'}", "HTTP/1.1")
    request = HTTPServerRequest(start_line=line, headers=HTTPHeaders({"Host": "x"}))

    with nullcontext() if is_kept else pytest.raises(web.HTTPError, match="400"):
        texts.check_address(request)


@ON_ONE_LOOP
async def test_what_is_text_goes_through(served: ServedHub) -> None:
    assert (
        await call(served, "POST", "/users/alice/tokens", '{"note": "für später \\ud83d\\ude00", "expires_in": 60}')
        == 201
    )
    assert await call(served, "PATCH", "/users/alice/server", '{"display_name": "Mein Training"}') == 200
