"""Each address of a session's server answers who has no login within seconds, whatever the method."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.session.stub_hub import PREFIX, StubHub
from tests.session.test_start import Session

METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")
WITHIN_S = 5
LEAST = 90  # addresses; fewer would be no session's server
PUBLIC = re.compile(PREFIX + r"(api|login|logout|oauth_callback|(static|custom|kernelspecs|lab/extensions)/.*)")
TOLD = """
import json, os, sys
import portal.singleuser.server as server

def patterns(router):
    for rule in router.rules:
        if hasattr(rule.target, "rules"):
            yield from patterns(rule.target)
        elif hasattr(rule.matcher, "regex"):
            yield rule.matcher.regex.pattern

complete = server.complete
def told(app, settings):
    complete(app, settings)
    with open(os.environ["RULES"], "w") as file:
        json.dump(list(patterns(app.web_app.default_router)), file)
server.complete = told
server.main()
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Session, list[str]]]:
    """A session, and an address of each rule of its server."""
    folder = tmp_path_factory.mktemp("session")
    rules = folder / "rules.json"
    session = Session(folder / "its", StubHub(), ["-c", TOLD], RULES=str(rules))
    assert session.ask("api")[0] == 200
    yield session, addresses(rules)
    session.away()
    session.hub.shutdown()
    session.hub.server_close()


def addresses(rules: Path) -> list[str]:
    """One of each rule, and both of those that Jupyter serves out of a folder."""
    of_rules = {one for pattern in json.loads(rules.read_text()) if (one := address(pattern)).startswith(PREFIX)}
    return sorted(of_rules | {f"{PREFIX}robots.txt", f"{PREFIX}favicon.ico", f"{PREFIX}lab/api/licenses/"})


def address(pattern: str) -> str:
    """One that a pattern is of: the first of what may stand at each place."""
    text = re.sub(r"\(\?P<\w+>", "(", pattern.lstrip("^").rstrip("$"))
    before = ""
    while before != text:
        before = text
        text = re.sub(r"\((?:\?:)?([^()]*)\)[?*]?", lambda group: group[1].split("|")[0], text)
    text = text.replace(r"\w+(-\w+)+", "abcd1234-1111-2222-3333-444455556666").replace(r"\d+", "1")
    text = re.sub(r"\[[^\]]*\][+*]?(\{\d+,?\d*\})?", "x", text).replace(r"\w+", "html")
    return re.sub(r"\.[*+]", "notes.txt", text).replace("\\", "").replace("?", "")


def ask(session: Session, method: str, path: str) -> int | str:
    """The status of an answer to a request without a login, or why there is none."""
    connection = http.client.HTTPConnection("127.0.0.1", session.port, timeout=WITHIN_S)
    try:
        body = b"{}" if method in ("POST", "PUT", "PATCH") else None
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
    except (OSError, http.client.HTTPException) as error:
        return repr(error)
    else:
        return answer.status
    finally:
        connection.close()


def test_each_address_answers_whoever_asks(served: tuple[Session, list[str]]) -> None:
    session, asked = served
    assert len(asked) >= LEAST

    got = {(method, path): ask(session, method, path) for path in asked for method in METHODS}

    assert {which: what for which, what in got.items() if not isinstance(what, int) or what >= 500} == {}
    given = {path for (method, path), what in got.items() if (method, what) == ("GET", 200)}
    assert {path for path in given if not PUBLIC.fullmatch(path)} == set()


def test_the_page_of_licences_answers_who_has_a_login_as_before(served: tuple[Session, list[str]]) -> None:
    status, text = served[0].ask("lab/api/licenses/")

    assert status == 200
    assert "bundles" in json.loads(text)
    assert served[0].ask("lab/api/licenses/?format=csv")[1].startswith("bundle,name,")
