"""What a person sees who logs in: a real hub in front of a real slapd."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from portal.login.directory import REFUSED
from tests.directory.slapd import GROUPS, LDAP, PASSWORDS, PEOPLE, WAITING, Authority, Slapd
from tests.hub.conftest import FOLDER, URL, Hub, Person
from tests.inside import eventually


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, good_certificate: tuple[Path, Path]) -> Iterator[Slapd]:
    """A slapd that these tests may stop."""
    made = Slapd(tmp_path_factory.mktemp("page") / "slapd", good_certificate).start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def hub(server: Slapd, authority: Authority) -> Iterator[Hub]:
    """A hub that asks it."""
    ours = Hub()
    ours.prepare()
    shutil.copy(authority.file, FOLDER / "ca.crt")
    (FOLDER / "ca.crt").chmod(0o644)
    settings = LDAP.format(url=server.url, folder=FOLDER, people=PEOPLE, groups=GROUPS)
    settings += 'login_domains = ["cluster.example"]\n'
    ours.site_file.write_text(ours.site_file.read_text().partition("[ldap]")[0] + settings)
    ours.start()
    yield ours
    ours.stop()


Browser = Callable[[str], Person]


@pytest.fixture
def browser(hub: Hub) -> Iterator[Browser]:
    """New browsers, each of somebody who has not logged in."""
    made: list[Person] = []

    def start(name: str) -> Person:
        made.append(Person(name))
        return made[-1]

    yield start
    for person in made:
        person.http.close()


@pytest.fixture
def alice(browser: Browser) -> Person:
    """Alice, not logged in."""
    return browser("alice")


def shown(page: httpx.Response) -> str:
    """The page as plain text, as far as these tests need it."""
    return page.text.replace("&#39;", "'").replace("&#34;", '"').replace("&quot;", '"').replace("’", "'")


def test_a_right_password_opens_the_hub_with_name_and_groups(alice: Person) -> None:
    page = alice.login(PASSWORDS["alice"])

    assert page.status_code == 200
    assert "/hub/login" not in str(page.url)
    model = alice.api("GET", "/user").json()
    assert (model["name"], model["groups"], model["admin"]) == ("alice", ["jupyter"], False)


def test_a_wrong_password_and_a_wrong_name_see_the_same_page(browser: Browser) -> None:
    for name in ("alice", "nobody"):
        page = browser(name).login("wr0ng-pass")

        assert page.status_code == 403
        assert REFUSED in shown(page)
        assert f'value="{name}"' in page.text
        assert "wr0ng-pass" not in page.text
        assert 'name="password"' in page.text


def test_who_is_not_allowed_is_told_that_the_password_is_right(browser: Browser) -> None:
    page = browser("mallory").login(PASSWORDS["mallory"])

    assert page.status_code == 403
    assert "Your password is right" in shown(page)
    assert "the group jupyter" in shown(page)
    bob = browser("bob")  # an administrator
    assert bob.login(PASSWORDS["bob"]).status_code == 200
    assert "mallory" not in {user["name"] for user in bob.api("GET", "/users").json()}


@pytest.mark.parametrize(
    ("name", "password", "words"),
    [
        ("reset", WAITING["reset"], "Your password is right, but it must be changed"),
        ("expired", WAITING["expired"], "Your password is right, but it has expired"),
        ("no-account-here", "right-pw", "there is no account no-account-here on this cluster"),
    ],
)
def test_a_right_password_that_is_not_enough_says_why(browser: Browser, name: str, password: str, words: str) -> None:
    page = browser(name).login(password)

    assert page.status_code == 403
    assert words in shown(page)
    assert browser(name).login("wrong").text.count(REFUSED.partition(".")[0]) == 1


def test_a_name_with_the_sites_domain_is_the_same_person_and_confirms_the_password_later(browser: Browser) -> None:
    person = browser("alice@cluster.example")

    assert person.login(PASSWORDS["alice"]).status_code == 200

    assert person.api("GET", "/user").json()["name"] == "alice"
    for password, status in (("wrong", 403), (PASSWORDS["alice"], 302)):
        answer = person.http.post(
            "/hub/again", params={"_xsrf": person.xsrf}, data={"password": password}, follow_redirects=False
        )
        assert answer.status_code == status
    assert browser("alice@other.example").login(PASSWORDS["alice"]).status_code == 403


def test_a_login_service_that_does_not_answer_is_no_fault_of_the_person(server: Slapd, alice: Person) -> None:
    server.stop()
    try:
        page = alice.login(PASSWORDS["alice"])
    finally:
        server.start()

    assert page.status_code == 503
    assert "Nothing is wrong with your password" in shown(page)
    assert 'value="alice"' in page.text
    assert alice.login(PASSWORDS["alice"]).status_code == 200


@pytest.mark.parametrize("spelling", ["Alice", " alice", "alice ", "alice\n", "ALICE", "ａlice", "alice\u200b"])
def test_no_other_spelling_opens_a_session_of_alice(browser: Browser, server: Slapd, spelling: str) -> None:
    before = server.logins

    page = browser(spelling).login(PASSWORDS["alice"])

    assert page.status_code == 403
    assert REFUSED in shown(page)
    assert server.logins == before


def test_a_name_with_what_is_no_text_is_refused_before_anybody_is_asked(browser: Browser, server: Slapd) -> None:
    before = server.logins

    page = browser("alice\0").login(PASSWORDS["alice"])

    assert page.status_code == 400
    assert "what is no text" in shown(page)
    assert server.logins == before


def test_fields_that_are_missing_or_sent_twice_are_refused(alice: Person) -> None:
    alice.http.get("/hub/login")
    for form in ({}, {"username": ["mallory", "alice"], "password": "alice-pw"}, {"username": "alice"}):
        assert alice.http.post("/hub/login", params={"_xsrf": alice.xsrf}, data=form).status_code == 403


def test_a_login_form_of_another_site_is_refused(alice: Person) -> None:
    form = {"username": "alice", "password": PASSWORDS["alice"]}

    page = alice.http.post("/hub/login", data=form)

    assert page.status_code == 403
    assert "Login form invalid or expired. Try again." in shown(page)
    assert alice.api("GET", "/user").status_code == 403


@pytest.mark.parametrize(
    ("wanted", "reached"),
    [("/hub/token", "/hub/token")]
    + [(evil, None) for evil in ("//evil.example", "/\\evil.example", "https://evil.example/hub", "/%09/evil.example")],
)
def test_after_the_login_the_browser_stays_on_this_host(alice: Person, wanted: str, reached: str | None) -> None:
    alice.http.get("/hub/login")
    form = {"username": "alice", "password": PASSWORDS["alice"]}
    params = {"_xsrf": alice.xsrf, "next": wanted}

    answer = alice.http.post("/hub/login", params=params, data=form, follow_redirects=False)

    assert answer.status_code == 302
    target = httpx.URL(URL).join(answer.headers["Location"])
    assert target.host == "127.0.0.1"
    assert reached is None or target.path == reached


def test_the_log_holds_no_password_and_no_novel(hub: Hub, browser: Browser) -> None:
    before = len(hub.log())
    browser("x" * 300_000).login("s3cret-pass")
    browser("typed-Pa55word").login("s3cret-pass")
    browser("alice").login(PASSWORDS["alice"])

    eventually(lambda: "not spelled like one (300000 characters)" in hub.log(), "the log tells")
    told = hub.log()[before:]
    assert "s3cret-pass" not in told
    assert "typed-Pa55word" not in told
    assert PASSWORDS["alice"] not in told
    assert len(told) < 20_000


def test_guesses_are_slowed_down_for_one_name_from_one_address_only(browser: Browser, server: Slapd) -> None:
    before = server.logins
    statuses = [browser("locked").login(f"guess{number}").status_code for number in range(12)]

    assert statuses == [403] * 10 + [429] * 2
    assert server.logins == before + 10
    pretends = browser("locked")
    pretends.http.headers.update({"X-Real-Ip": "198.51.100.9", "X-Forwarded-For": "198.51.100.9"})
    assert pretends.login("guess").status_code == 429
    assert browser("alice").login(PASSWORDS["alice"]).status_code == 200


def test_a_token_asked_for_with_a_password_passes_the_same_check(alice: Person) -> None:
    def ask(password: str) -> int:
        body = {"auth": {"username": "alice", "password": password}, "expires_in": 60}
        return httpx.post(f"{URL}/hub/api/users/alice/tokens", json=body, trust_env=False).status_code

    alice.login(PASSWORDS["alice"])
    assert ask(PASSWORDS["alice"]) == 201
    assert ask("wrong") == 403
