"""The recipe for OpenID Connect: a real hub with oauthenticator, and a real provider."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from portal.doctor import site_checks
from tests.directories.logins import FOLDER, block, prepared, secret
from tests.hub.conftest import Hub
from tests.inside import VENV_BIN, eventually
from tests.ports import held_port

SHARE = VENV_BIN.parent / "share" / "dsportal" / "oidc"
PORT = 18300
SECRET = "a-secret-of-the-provider"
PEOPLE = {
    "first": {"preferred_username": "Alice@corp.example", "groups": ["jupyter", "iq"]},
    "second": {"preferred_username": "bob", "groups": ["others"]},
    "third": {"preferred_username": "nobody-here", "groups": ["jupyter"]},
    "fourth": {"preferred_username": "carol@other.example", "groups": ["jupyter"]},
}


class Provider:
    """The provider; what it says of people is in a file."""

    def __init__(self, folder: Path) -> None:
        self.port, self.accounts = held_port(), folder / "accounts.json"
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / "provider.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.says(PEOPLE)

    def says(self, people: dict[str, Any]) -> None:
        self.accounts.write_text(json.dumps(people))

    def start(self) -> None:
        script = str(Path(__file__).with_name("provider.mjs"))
        told = [str(SHARE), str(self.port), str(self.accounts), f"http://127.0.0.1:{PORT}/hub/oauth_callback"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(VENV_BIN / "node"), script, *told], stdout=log, stderr=log, start_new_session=True
            )
        eventually(self._answers, "the provider answers")

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/.well-known/openid-configuration", trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False

    def stop(self) -> None:
        if self._process:
            os.killpg(self._process.pid, signal.SIGTERM)  # node of the environment is a program that starts another
            self._process.wait(timeout=10)
            self._process = None


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    """It runs through all tests."""
    made = Provider(tmp_path_factory.mktemp("provider"))
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def hub(provider: Provider) -> Iterator[Hub]:
    """The recipe, with this provider's addresses and files of the tests; people are looked at each second."""
    text = block("With OpenID Connect", "python")
    text = text.replace("https://id.example.org", provider.url)
    text = text.replace("https://portal.example.org", f"http://127.0.0.1:{PORT}")
    text = text.replace("/etc/dsportal/", f"{FOLDER}/").replace("auth_refresh_age = 60", "auth_refresh_age = 1")
    ours = prepared(PORT, f"import sys\nsys.path.append({str(SHARE / 'python')!r})\n{text}")
    secret("oidc_secret", SECRET)
    secret("auth_state_key", secrets.token_hex(32))
    ours.start()
    yield ours
    ours.stop()
    shutil.rmtree(FOLDER, ignore_errors=True)


Browser = Callable[[], httpx.Client]


@pytest.fixture
def browser(hub: Hub, provider: Provider) -> Iterator[Browser]:
    """New browsers; everybody is again who they were."""
    made: list[httpx.Client] = []

    def start() -> httpx.Client:
        made.append(httpx.Client(base_url=hub.url, follow_redirects=True, timeout=30, trust_env=False))
        return made[-1]

    provider.says(PEOPLE)
    yield start
    for client in made:
        client.close()


def log_in(browser: httpx.Client, account: str) -> httpx.Response:
    """As a person does it: the hub's button, the provider's two pages, and back."""
    page = browser.get("/hub/oauth_login")
    for form in ({"prompt": "login", "login": account, "password": "any"}, {"prompt": "consent"}):
        assert "/interaction/" in str(page.url), page.text
        action = re.search(r'action="([^"]+)"', page.text)
        assert action
        page = browser.post(action[1], data=form)
    return page


def may_go_on(browser: httpx.Client) -> bool:
    """Whether the hub still takes this browser for somebody."""
    return browser.get("/hub/api/user").status_code == 200


def test_a_name_of_the_provider_becomes_the_unix_name_with_the_groups_of_the_token(browser: Browser) -> None:
    alice = browser()

    assert log_in(alice, "first").status_code == 200

    model = alice.get("/hub/api/user").json()
    assert (model["name"], sorted(model["groups"]), model["admin"]) == ("alice", ["iq", "jupyter"], False)


@pytest.mark.parametrize(
    ("account", "words"),
    [
        ("second", ""),
        ("third", "there is no account nobody-here on this cluster"),
        ("fourth", "cannot be the name of an account on this cluster"),
    ],
)
def test_who_is_in_no_allowed_group_or_has_no_account_is_refused(browser: Browser, account: str, words: str) -> None:
    person = browser()

    page = log_in(person, account)

    assert page.status_code == 403
    assert words in page.text
    assert not may_go_on(person)


def test_who_leaves_the_group_is_out_and_who_is_back_may_log_in_again(browser: Browser, provider: Provider) -> None:
    alice = browser()
    log_in(alice, "first")
    assert may_go_on(alice)

    provider.says({**PEOPLE, "first": {**PEOPLE["first"], "groups": ["others"]}})
    eventually(lambda: not may_go_on(alice), "alice is out")

    provider.says(PEOPLE)
    assert log_in(browser(), "first").status_code == 200


def test_who_is_called_differently_now_or_is_gone_is_out(browser: Browser, provider: Provider) -> None:
    for people in ({**PEOPLE, "first": PEOPLE["fourth"]}, {}):
        provider.says(PEOPLE)
        alice = browser()
        log_in(alice, "first")
        assert may_go_on(alice)
        provider.says(people)
        eventually(lambda: not may_go_on(alice), "alice is out")  # noqa: B023  called at once


def test_a_provider_that_does_not_answer_sends_nobody_away_and_its_secret_is_nowhere(
    browser: Browser, provider: Provider, hub: Hub
) -> None:
    alice = browser()
    log_in(alice, "first")

    provider.stop()
    try:
        eventually(lambda: may_go_on(alice) and "Nobody says whether alice may go on" in hub.log(), "it is said")
        assert may_go_on(alice)
    finally:
        provider.start()
    assert SECRET not in hub.log()


def test_the_doctor_knows_the_recipe(hub: Hub) -> None:
    check = site_checks.other_authenticator(str(FOLDER / "extra"))

    assert check.result == "ok"
    assert "login.py sets another authenticator" in check.found
