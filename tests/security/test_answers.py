"""Every page and every answer of the REST interface, asked for by a stranger, a person and an administrator."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import pytest
from jupyterhub import apihandlers, handlers

from tests.hub.conftest import Hub, Person, self_signed

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
SCRIPT = re.compile(r"<script\b([^>]*)>")
EVERYWHERE = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-site",
    "strict-transport-security": "max-age=31536000",
}
DEEP = "[" * 970 + "]" * 970
NO_PAGE = ("/hub/static/", "/hub/dsportal/static/", "/hub/logo")


def addresses() -> list[str]:
    """An address for each handler that JupyterHub has; a name in one of them is alice's."""
    patterns = [rule[0] for rule in (*handlers.default_handlers, *apihandlers.default_handlers)]
    found = {re.sub(r"\((?:[^()]|\([^()]*\))*\)\??", "alice", pattern).replace("?", "") for pattern in patterns}
    ours = {"/login", "/logo", "/dsportal/static/js/portal.js", "/static/js/home.js", "/nowhere", "/api/nowhere"}
    stock = {re.sub(r"\\(.)", r"\1", path).rstrip("$/") for path in found if "static" not in path}
    return sorted(f"/hub{path}" for path in {*stock, *ours})


@pytest.fixture(scope="module")
def strict_hub() -> Iterator[Hub]:
    """A hub with HTTPS and a port that leads there."""
    files = self_signed(Path("/cluster/test-security-certificates"), "DNS:localhost", "IP:127.0.0.1")
    hub = Hub(Path("/cluster/test-security"), 18600, **files)
    hub.prepare()
    hub.site_file.write_text(hub.site_file.read_text().replace("[portal]\n", "[portal]\nredirect_port = 18699\n"))
    hub.start()
    yield hub
    hub.stop()


@pytest.fixture(scope="module")
def askers(strict_hub: Hub) -> Iterator[dict[str, Person]]:
    """A stranger, a person and an administrator."""
    found = {name: Person(name, strict_hub.url) for name in ("stranger", "alice", "carol")}
    for name, somebody in found.items():
        somebody.http.close()
        somebody.http = httpx.Client(base_url=strict_hub.url, timeout=30, trust_env=False, verify=False)  # noqa: S501
        assert name == "stranger" or somebody.login().status_code == 302
    yield found
    for somebody in found.values():
        somebody.http.close()


def faults(answer: httpx.Response) -> list[str]:
    """What is missing in the headers of an answer of the hub."""
    path = answer.request.url.path
    found = [f"{name}: {answer.headers.get(name)}" for name, v in EVERYWHERE.items() if answer.headers.get(name) != v]
    if answer.status_code >= 500:
        found.append(f"status {answer.status_code}")
    for cookie in answer.headers.get_list("set-cookie"):
        parts = {part.strip().partition("=")[0].lower() for part in cookie.split(";")[1:]}
        found += [f"{cookie[:30]}: no {part}" for part in ("secure", "httponly", "samesite") if part not in parts]
    if not path.startswith(NO_PAGE):
        found += [] if answer.headers.get("cache-control") == "no-store" else [f"{answer.headers.get('cache-control')}"]
        found += policy_faults(answer)
    return found


def policy_faults(answer: httpx.Response) -> list[str]:
    """Where a page's policy lets in more than its own scripts, or a script of its own stays out."""
    policy = answer.headers.get("content-security-policy", "")
    parts = dict(part.strip().partition(" ")[::2] for part in policy.split(";"))
    wanted = {"default-src": "'none'", "frame-ancestors": "'none'"}
    found = [f"{name} {parts.get(name)}" for name, value in wanted.items() if parts.get(name) != value]
    if not answer.headers.get("content-type", "").startswith("text/html") or answer.request.method == "HEAD":
        return found
    nonce = re.fullmatch(r"'nonce-([\w-]{20,})' 'strict-dynamic'", parts.get("script-src", ""))
    if parts.get("form-action") != "'self'" or parts.get("base-uri") != "'none'" or nonce is None:
        return [*found, policy]
    return [*found, *(tag for tag in SCRIPT.findall(answer.text) if f'nonce="{nonce[1]}"' not in tag)]


def ask(asker: Person, methods: Sequence[str]) -> list[str]:
    """The faults of all answers, by name, method and address."""
    paths = [path for path in addresses() if path != "/hub/logout"]
    answers = [asker.http.request(method, path) for method in methods for path in paths]
    told = {f"{asker.name}: {a.request.method} {a.request.url.path} {a.status_code}": faults(a) for a in answers}
    return [f"{answer}: {found}" for answer, found in told.items() if found]


def test_every_answer_of_the_hub_has_strict_headers_whoever_asks(askers: dict[str, Person]) -> None:
    assert len(addresses()) > 40

    assert [fault for asker in askers.values() for fault in ask(asker, ["GET"])] == []
    assert ask(askers["stranger"], METHODS) == []


def test_a_nonce_is_known_to_one_answer(askers: dict[str, Person]) -> None:
    policies = {askers["stranger"].http.get("/hub/login").headers["content-security-policy"] for _ in range(5)}

    assert len(policies) == 5


@pytest.mark.parametrize("path", ["/hub/login", "/hub/spawn", "/hub/home", "/hub/api/users/alice/tokens"])
def test_bytes_that_are_no_text_are_a_fault_of_the_request(askers: dict[str, Person], path: str) -> None:
    alice = askers["alice"].http
    form = {"Content-Type": "application/x-www-form-urlencoded"}

    assert alice.get(f"{path}?next=%ff").status_code == 400
    assert alice.post(path, content=b"username=%ff&password=%fe&gpus=%ff", headers=form).status_code == 400
    assert alice.get("/hub/%ff").status_code == 400


ELSEWHERE = [
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "same-origin", "Referer": "https://127.0.0.1:18600/user/bob/lab"},
]


@pytest.mark.parametrize("where", ELSEWHERE)
@pytest.mark.parametrize(("method", "path"), [("POST", "tokens"), ("POST", "server"), ("DELETE", "server")])
def test_a_change_comes_from_the_hubs_own_pages_or_with_a_token(
    askers: dict[str, Person], method: str, path: str, where: dict[str, str]
) -> None:
    alice = askers["alice"]
    token = {"X-XSRFToken": alice.xsrf}

    refused = alice.http.request(method, f"/hub/api/users/alice/{path}", headers={**token, **where})

    assert refused.status_code == 403
    assert "portal's own" in refused.json()["message"]


@pytest.mark.parametrize("where", ELSEWHERE)
def test_with_a_token_only_that_token_counts(askers: dict[str, Person], where: dict[str, str]) -> None:
    alice = askers["alice"]
    bogus = {**where, "Authorization": "token no", "X-XSRFToken": alice.xsrf}
    script = {**bogus, "Sec-Fetch-Dest": "empty"}

    made = alice.http.post("/hub/api/users/alice/tokens", headers=bogus)
    read = alice.http.get("/hub/api/user", headers=script)
    page = alice.http.get("/hub/home", headers=script)
    form = alice.http.post("/hub/login", headers=bogus, data={"username": "bob", "password": "bob-demo"})

    assert (made.status_code, read.status_code) == (403, 403), "it is wrong"
    assert (page.status_code, form.status_code) == (403, 403), "pages take none"


@pytest.mark.parametrize("scheme", ["Basic YTpi", "token", "token a b", "anything"])
def test_what_is_no_token_of_the_hub_opens_nothing(askers: dict[str, Person], scheme: str) -> None:
    alice = askers["alice"]
    headers = {**ELSEWHERE[2], "Authorization": scheme, "X-XSRFToken": alice.xsrf}

    made = alice.http.post("/hub/api/users/alice/tokens", headers=headers)
    page = alice.http.get("/hub/home", headers={**headers, "Sec-Fetch-Dest": "empty"})

    assert made.status_code == page.status_code == 403
    assert alice.http.get("/hub/home", headers={"Authorization": scheme}).status_code == 200, "a login in front"


def test_no_script_reads_a_page_and_none_that_it_is_answered_with_holds_a_token(
    askers: dict[str, Person],
) -> None:
    script = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}

    answers = [askers["alice"].http.get(path, headers=script) for path in addresses() if "/api/" not in path]

    assert {answer.status_code for answer in answers if answer.headers.get("content-type") == "text/html"} >= {403}
    assert not [
        answer.url for answer in answers if re.search(r'xsrf_token: "[^"]|name="_xsrf" value="[^"]', answer.text)
    ]


def test_plain_http_is_led_to_https(strict_hub: Hub) -> None:
    led = httpx.get("http://127.0.0.1:18699/hub/login?next=%2Fhub%2Fhome", trust_env=False)

    assert (led.status_code, led.headers["location"]) == (308, f"{strict_hub.url}/hub/login?next=%2Fhub%2Fhome")


def test_what_the_hub_would_keep_of_a_person_is_short(askers: dict[str, Person]) -> None:
    alice = askers["alice"]
    long = "x" * 500_000

    kept = alice.api("PATCH", "/users/alice/server", json={"user_options": {"partition": long}})
    started = alice.api("POST", "/users/alice/server", json={"partition": long})
    named = alice.api("POST", "/users/alice/servers/a", json={"display_name": long})
    token = alice.api("POST", "/users/alice/tokens", json={"note": long})

    assert [answer.status_code for answer in (kept, started, named, token)] == [413] * 4
    assert "at most 8192 bytes" in kept.json()["message"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/authorizations/token", "", 404),
        ("POST", "/authorizations/token/x", "{}", 404),
        ("GET", "/authorizations/token/x", "", 404),
        ("PATCH", "/users/alice/server", '{"state": {}}', 400),
        ("PATCH", "/users/alice/server", "[]", 400),
        ("PATCH", "/users/alice/server", f'{{"user_options": {DEEP}}}', 400),
        ("POST", "/users/alice/server", f'{{"gpus": {DEEP}}}', 400),
        ("DELETE", "/users/alice/server", "[1]", 400),
        ("PATCH", "/users/alice/server", '{"display_name": "\\ud800"}', 400),
        ("PATCH", "/users/alice/server", '{"user_options": {"gpus": 1e999}}', 400),
        ("PATCH", "/users/alice/server", '{"name": 5}', 400),
        ("PATCH", "/users/alice%00/server", '{"user_options": {}}', 400),
        ("POST", "/users/alice/tokens", '{"note": "\\ud800"}', 400),
        ("POST", "/users/alice/tokens", '{"note": "\\u0000"}', 400),
        ("POST", "/users/alice/tokens", '{"note": ["a"]}', 400),
        ("POST", "/users/alice/tokens", '{"note": {"a": 1}}', 400),
        ("POST", "/users/alice/tokens", f'{{"note": "{1024 * "x"}"}}', 400),
        ("POST", "/users/alice/tokens", '{"expires_in": 0}', 400),
        ("POST", "/users/alice/tokens", f'{{"expires_in": {2**62}}}', 400),
        ("POST", "/users/alice/tokens", f'{{"expires_in": {10**30}}}', 400),
    ],
)
def test_a_wrong_request_is_refused_without_a_fault_and_the_next_person_is_answered(
    askers: dict[str, Person], method: str, path: str, body: str, status: int
) -> None:
    alice = askers["alice"]
    answer = alice.http.request(method, f"/hub/api{path}", content=body, headers={"X-XSRFToken": alice.xsrf})
    assert (answer.status_code, bool(answer.json()["message"])) == (status, True)
    assert [askers[name].api("GET", f"/users/{name}").status_code for name in ("carol", "alice")] == [200, 200]


def test_a_person_has_so_many_tokens_at_a_time(askers: dict[str, Person]) -> None:
    carol = askers["carol"]
    made = [carol.api("POST", "/users/carol/tokens") for _ in range(101)]
    first = made[0].json()["id"]

    assert {answer.status_code for answer in made[:-10]} == {201}
    assert (made[-1].status_code, "revoke some first" in made[-1].json()["message"]) == (409, True)
    assert carol.api("DELETE", f"/users/carol/tokens/{first}").status_code == 204
    assert carol.api("POST", "/users/carol/tokens").status_code == 201
    for token in carol.api("GET", "/users/carol/tokens").json()["api_tokens"]:
        if token["oauth_client"] == "JupyterHub":
            carol.api("DELETE", f"/users/carol/tokens/{token['id']}")


def test_a_browser_that_was_left_open_makes_no_token_until_the_password_is_given_again(
    strict_hub: Hub, askers: dict[str, Person]
) -> None:
    alice = askers["alice"]
    assert alice.http.get("/hub/home").status_code == 200
    first = alice.api("POST", "/users/alice/tokens")
    assert first.status_code == 201, first.text
    strict_hub.end()  # a hub that comes back knows of no password
    strict_hub.start()

    assert alice.http.get("/hub/home").status_code == 200
    refused = alice.api("POST", "/users/alice/tokens")
    asked = alice.http.get("/hub/token")
    place = asked.headers["location"]
    wrong = alice.http.post(place, data={"_xsrf": alice.xsrf, "password": "no"})
    right = alice.http.post(place, data={"_xsrf": alice.xsrf, "password": "alice-demo"})

    assert (refused.status_code, "login once more" in refused.json()["message"]) == (403, True)
    assert (asked.status_code, place) == (302, "/hub/again?next=%2Fhub%2Ftoken")
    assert (wrong.status_code, "Wrong user name or password" in wrong.text) == (403, True)
    assert (right.status_code, right.headers["location"]) == (302, "/hub/token")
    assert alice.http.get("/hub/token").status_code == 200
    made = alice.api("POST", "/users/alice/tokens")
    assert made.status_code == 201
    token = {"Authorization": f"token {made.json()['token']}"}
    with httpx.Client(base_url=strict_hub.url, trust_env=False, verify=False) as program:  # noqa: S501
        assert program.post("/hub/api/users/alice/tokens", headers=token).status_code == 201, "a token is no browser's"
    assert askers["carol"].http.get("/hub/admin").headers["location"] == "/hub/again?next=%2Fhub%2Fadmin"
