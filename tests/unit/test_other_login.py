"""Another authenticator: its names become UNIX names of this host, or nobody is let in; the doctor knows of it."""

from __future__ import annotations

import asyncio
import io
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest.mock import AsyncMock, Mock

import pytest
from jupyterhub.auth import Authenticator, DummyAuthenticator, LocalAuthenticator
from tornado import web

from portal import cli
from portal.doctor.site_checks import other_authenticator
from portal.login import system_accounts
from portal.login.attempts import Refusal
from portal.login.other import SiteRules
from portal.login.system_accounts import account_of, check_account


class SiteDummy(SiteRules, DummyAuthenticator):  # type: ignore[misc]
    """JupyterHub's own, which takes every name."""


class Groupful(Authenticator):  # type: ignore[misc]
    """Answers what an identity provider would."""

    async def authenticate(self, handler: Any, data: Any) -> dict[str, Any]:
        return {"name": data["username"], "groups": [data["password"]], "admin": None}

    async def refresh_user(self, user: Any, handler: Any = None, **more: Any) -> dict[str, Any]:
        return {"name": user.said, "groups": ["jupyter"]}

    def check_allowed(self, username: str, authentication: Any = None) -> bool:
        return "jupyter" in authentication["groups"]


class SiteGroupful(SiteRules, Groupful):
    """The same, behind the site's rules."""


async def only_alice(name: str) -> str:
    """This host has one account."""
    return name if name == "alice" else ""


async def log_in(kind: type[SiteRules], name: str, group: str = "none", **settings: Any) -> Any:
    """What JupyterHub gets."""
    made = kind(log=logging.getLogger("test.other"), **settings)
    made.account_of = only_alice
    handler = SimpleNamespace(request=None)
    return await made.get_authenticated_user(handler, {"username": name, "password": group})


async def test_a_name_of_another_authenticator_becomes_the_unix_name() -> None:
    rule: dict[str, Any] = {"login_domains": ["corp.example"], "capitals": "lower", "allow_all": True}

    for typed in ("alice", "Alice", "alice@corp.example"):
        assert (await log_in(SiteDummy, typed, **rule))["name"] == "alice"


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("Alice", "cannot be the name"),
        ("alice@corp.example", "cannot be"),
        ("../alice", "cannot be"),
        ("bob", "no account bob"),
    ],
)
async def test_who_has_no_unix_name_on_this_host_is_refused_in_words(typed: str, words: str) -> None:
    with pytest.raises(Refusal) as caught:
        await log_in(SiteDummy, typed, allow_all=True)

    assert caught.value.status_code == 403
    assert words in caught.value.jupyterhub_message


async def test_the_groups_of_the_authenticator_are_kept_and_decide() -> None:
    found = await log_in(SiteGroupful, "alice", "jupyter", manage_groups=True)

    assert found["groups"] == ["jupyter"]
    assert await log_in(SiteGroupful, "alice", "others", manage_groups=True) is None


@pytest.mark.parametrize(("said", "name"), [("alice@corp.example", "alice"), ("alice", "alice"), ("bob", None)])
async def test_who_is_logged_in_keeps_the_unix_name_and_ends_without_one(said: str, name: str | None) -> None:
    made = SiteGroupful(log=logging.getLogger("test.other"), login_domains=["corp.example"])
    made.account_of = only_alice

    answer = await made.refresh_user(SimpleNamespace(name="alice", said=said, groups=[]))

    assert (answer["name"] if answer else None) == name


class Local(SiteRules, LocalAuthenticator):  # type: ignore[misc]
    """One that asks this host for groups, as PAM's does."""

    async def authenticate(self, handler: Any, data: Any = None, **more: Any) -> str:
        return str(data["username"])

    def _getpwnam(self, name: str) -> Any:
        return SimpleNamespace(pw_gid=1)

    def _getgrnam(self, name: str) -> Any:
        return SimpleNamespace(gr_gid=7)

    def _getgrouplist(self, name: str, group: int) -> list[int]:
        return self.numbers

    numbers: ClassVar[list[int]] = []


def going_on(kind: type[SiteRules], name: str = "alice", **settings: Any) -> Any:
    """What JupyterHub gets of somebody who is logged in."""
    made = kind(log=logging.getLogger("test.other"), **settings)
    made.account_of = only_alice
    return made.refresh_user(SimpleNamespace(name=name, said=name, groups=[]))


async def test_who_is_in_no_allowed_group_of_the_provider_any_more_has_left() -> None:
    class Out(SiteGroupful):
        async def refresh_user(self, user: Any, handler: Any = None, **more: Any) -> Any:
            return await super().refresh_user(user, handler, **more)

        def check_allowed(self, username: str, authentication: Any = None) -> bool:
            return "another" in authentication["groups"]

    assert await going_on(Out) is False
    assert (await going_on(SiteGroupful))["groups"] == ["jupyter"]
    assert await going_on(SiteGroupful, blocked_users={"alice"}) is False


async def test_who_is_in_no_allowed_group_of_this_host_any_more_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Local, "numbers", [1, 7])
    assert await going_on(Local, allowed_groups={"jupyter"}) is True
    monkeypatch.setattr(Local, "numbers", [1])
    assert await going_on(Local, allowed_groups={"jupyter"}) is False
    assert await going_on(Local, allowed_users={"alice"}) is True


async def test_an_account_that_this_host_has_no_more_has_left_though_the_authenticator_says_nothing() -> None:
    assert await going_on(SiteDummy, allow_all=True) is True
    assert await going_on(SiteDummy, "bob", allow_all=True) is False


async def test_who_is_blocked_since_has_left_though_the_authenticator_says_nothing() -> None:
    assert await going_on(SiteDummy, allow_all=True, blocked_users={"alice"}) is False
    assert await going_on(SiteDummy, allow_all=True, blocked_users={"bob"}) is True


async def test_a_provider_that_is_silent_sends_nobody_away_and_one_with_another_name_does() -> None:
    class Silent(Groupful):
        async def refresh_user(self, user: Any, handler: Any = None, **more: Any) -> Any:
            raise ConnectionRefusedError("no provider")

    class Site(SiteRules, Silent):
        pass

    class Other(SiteGroupful):
        async def _unix_name(self, name: str) -> str:
            return "bob"

    assert await going_on(Site) is True
    assert await going_on(Other) is False


@pytest.mark.parametrize(("status", "goes_on"), [(403, False), (401, False), (500, True), (503, True)])
async def test_a_refusal_of_the_authenticator_is_one_and_a_fault_of_the_provider_is_none(
    status: int, goes_on: bool
) -> None:
    class Refusing(Groupful):
        async def refresh_user(self, user: Any, handler: Any = None, **more: Any) -> Any:
            raise web.HTTPError(status, "words")

    class Site(SiteRules, Refusing):
        pass

    assert await going_on(Site) is goes_on


class Numbered:
    """A login of Alice, whose account has a number, and JupyterHub's person of that name."""

    def __init__(self, folder: Path, *, runs: bool = False) -> None:
        spawner = SimpleNamespace(name="", active=runs)
        self.person = SimpleNamespace(
            name="alice", spawners={"": spawner}, orm_user=SimpleNamespace(_orm_spawners=[spawner])
        )
        self.person.delete_spawners = AsyncMock()
        self.deleted = Mock()
        self.folder = folder

    async def log_in(self, number: str | None) -> Any:
        """Begin a new hub, and log in."""
        made = SiteDummy(log=logging.getLogger("test.other"), allow_all=True, state_folder=str(self.folder))
        made.account_of = only_alice
        made.number_of = AsyncMock(return_value=number)
        users = SimpleNamespace(delete=self.deleted)
        made.allowed_users = {"alice"}
        handler = SimpleNamespace(request=None, users=users, find_user=lambda name: self.person)
        return await made.get_authenticated_user(handler, {"username": "alice", "password": ""})


async def test_an_account_with_another_number_begins_as_somebody_new(tmp_path: Path) -> None:
    alice = Numbered(tmp_path)
    for number in ("5001", "5001", None, "", "5001"):  # a name service that is silent, or half away, proves nothing
        assert (await alice.log_in(number))["name"] == "alice"
    alice.deleted.assert_not_called()

    for _ in range(2):
        assert (await alice.log_in("6001"))["name"] == "alice"

    alice.deleted.assert_called_once_with(alice.person)
    alice.person.delete_spawners.assert_awaited_once()


async def test_nobody_comes_in_beside_a_session_of_the_account_of_before(tmp_path: Path) -> None:
    alice = Numbered(tmp_path, runs=True)
    await alice.log_in("5001")
    for _ in range(2):
        with pytest.raises(Refusal) as refused:
            await alice.log_in("6001")
    assert "a session of before still runs" in refused.value.jupyterhub_message
    alice.deleted.assert_not_called()


def test_an_account_is_the_very_name_and_a_silent_name_service_keeps_nobody_out() -> None:
    check_account("alice", "alice")
    check_account("alice", None)
    with pytest.raises(Exception, match="there is no account alice on this cluster"):
        check_account("alice", "")
    with pytest.raises(Exception, match="this cluster calls your account Alice, and the directory calls it alice"):
        check_account("alice", "Alice")


async def test_the_name_service_is_asked_in_a_thread_and_not_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await account_of("root") == "root"
    assert await account_of("nobody-of-this-name") == ""
    answered = asyncio.Event()
    loop = asyncio.get_running_loop()

    def silent(name: str) -> str:
        asyncio.run_coroutine_threadsafe(answered.wait(), loop).result()
        return name

    monkeypatch.setattr(system_accounts, "WITHIN_S", 0.05)
    monkeypatch.setattr(system_accounts, "spelling_on_host", silent)

    assert await account_of("alice") is None
    answered.set()


def test_a_login_cannot_be_tried_without_ldap_and_one_without_a_server_says_what_the_page_would(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "site.toml"
    file.write_text("")
    assert cli.main(["ldap", "try", "alice", "--site", str(file)]) == 1
    assert "no table [ldap]" in capsys.readouterr().err

    file.write_text('[ldap]\nservers = ["ldap://127.0.0.1:9"]\nca_file = "/missing"\nuser_dn = "uid={username},dc=x"\n')
    monkeypatch.setattr("sys.stdin", io.StringIO("secret-word\n"))
    assert cli.main(["ldap", "try", "alice", "--site", str(file)]) == 1
    shown = capsys.readouterr().out
    assert "The page would say:\n  The cluster's login service does not answer." in shown
    assert "directory_unavailable: ldap://127.0.0.1:9" in shown
    assert "secret-word" not in shown

    assert cli.main(["ldap", "try", "alice", "--no-password", "--site", str(file)]) == 0
    assert "uid=alice,dc=x (made by user_dn; no server was asked)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "result", "words"),
    [
        (None, "failed", "the settings name no server"),
        ("c.JupyterHub.ip = '1'\n# c.JupyterHub.authenticator_class = 'pam'\n", "failed", "names no server"),
        ("c.JupyterHub.authenticator_class = 'pam'\n", "warning", "no name is checked against the accounts"),
        (
            "from portal.login.other import SiteRules\nc.JupyterHub.authenticator_class = X\n",
            "ok",
            "sets another authenticator",
        ),
    ],
)
def test_the_doctor_knows_when_another_authenticator_stands_for_ldap(
    tmp_path: Path, text: str | None, result: str, words: str
) -> None:
    if text:
        (tmp_path / "login.py").write_text(text)

    found = other_authenticator(str(tmp_path) if text else "")

    assert found.result == result
    assert words.replace("names no", "name no") in found.found
