"""The quotas of folders: asked of the site's command as argv, bounded in every way, and never waited for."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from tornado import web

from portal.doctor import quota_checks
from portal.errors import SiteError
from portal.history import pages
from portal.quotas import asked
from portal.quotas.asked import Quotas
from portal.quotas.figures import GIB, Quota, parse
from portal.settings.quota_table import QuotaTable
from portal.site import Site
from portal.site import parse as parse_site
from portal.slurm.runner import Result, RunError, run_bounded
from tests.unit.served_hub import served_hub
from tests.unit.test_history import HOSTILE, asked_by, home
from tests.unit.test_runner import is_over

COMMAND = ["/usr/local/bin/quota-of", "{user}", "{folder}"]
SCRATCH = [{"name": "scratch", "path": "/scratch"}]


def site_with(command: list[str], storage: list[dict[str, str]] | None = None) -> Site:
    return parse_site({"partition": [{"name": "gpu"}], "quota": {"command": command}, "storage": storage or []})


class Command:
    """Stands for the site's command: answers by folder, or fails, or hangs until it is told not to."""

    def __init__(self, answers: Mapping[str, str | Exception | int]) -> None:
        self.answers = answers
        self.asked: list[Sequence[str]] = []
        self.at_once = self.most_at_once = 0
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    async def __call__(self, argv: Sequence[str], env: Mapping[str, str], timeout_s: float, most_bytes: int) -> Result:
        self.asked.append(argv)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.goes_on.wait()
            answer = self.answers[argv[-1]]
        finally:
            self.at_once -= 1
        if isinstance(answer, Exception):
            raise answer
        return Result(answer, "", "no") if isinstance(answer, int) else Result(0, answer, "")


# -- the settings ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        (["quota-of", "{user}"], "absolute path"),
        (["/bin/quota-of"], "{user} as one of its words"),
        (["/bin/quota-of", "--user={user}"], "{user} as one of its words"),
        (["/bin/quota-of", "{user}", "--folder={folder}"], "words of their own"),
        (["/bin/quota-of", "{user}", "{home}"], "words of their own"),
        (["/bin/quota-of", "{user}", ""], ""),
        (["/bin/quota-of", "{user}", "a\nb"], ""),
        (["/bin/quota-of", "{user}", *["x"] * 40], ""),
    ],
)
def test_a_command_that_cannot_be_filled_in_safely_is_refused(command: list[str], fault: str) -> None:
    with pytest.raises(SiteError) as refused:
        site_with(command)

    assert "quota.command" in str(refused.value)
    assert fault in str(refused.value)


def test_what_is_filled_in_is_one_word_each_whatever_it_holds() -> None:
    table = QuotaTable(command=("/bin/quota-of", "-x", "{user}", "{folder}"))

    assert table.argv("a; rm {folder}", "/a b/$(c)") == ("/bin/quota-of", "-x", "a; rm {folder}", "/a b/$(c)")


# -- what it prints -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("printed", "quota"),
    [
        ("5 10\n", Quota("home", 5, 10)),
        ("5\t10", Quota("home", 5, 10)),
        ("5 0", Quota("home", 5, 0)),
        ("5 -", Quota("home", 5, 0)),
        ("0 10", Quota("home", 0, 10)),
        ("", None),
        ("\n", None),
    ],
)
def test_one_line_with_two_numbers_is_a_quota(printed: str, quota: Quota | None) -> None:
    assert parse("home", printed) == quota


@pytest.mark.parametrize(
    "printed", ["5", "5 10 15", "5 10\n6 11", "-5 10", "5.5 10", "5G 10G", "x", "9" * 19 + " 1", HOSTILE]
)
def test_anything_else_is_refused_with_what_is_allowed(printed: str) -> None:
    with pytest.raises(ValueError, match="allowed"):
        parse("home", printed)


def test_the_words_and_when_it_is_nearly_full() -> None:
    quotas = [Quota("a", 45 * GIB, 100 * GIB), Quota("a", GIB, 0), Quota("a"), Quota("a", 95 * GIB, 2048 * GIB)]

    assert [one.words for one in quotas] == [
        "45 GB of 100 GB",
        "1.0 GB, without a limit",
        "not known",
        "95 GB of 2.0 TB",
    ]
    assert [Quota("a", used, 10).is_nearly_full for used in (8, 9, 12)] == [False, True, True]
    assert not Quota("a", 9, 0).is_nearly_full


# -- asking ---------------------------------------------------------------------------------------------


async def test_home_and_storage_are_asked_for_and_kept_for_a_while() -> None:
    now = [0.0]
    command = Command({"home": "5 10", "/scratch": ""})
    quotas = Quotas(command, lambda: now[0])
    site = site_with(COMMAND, SCRATCH)

    first = await quotas.of(site, "alice")
    now[0] = asked.KEPT_S - 1
    assert await quotas.of(site, "alice") == first == (Quota("home", 5, 10),)
    assert command.asked == [
        ("/usr/local/bin/quota-of", "alice", "home"),
        ("/usr/local/bin/quota-of", "alice", "/scratch"),
    ]
    now[0] = asked.KEPT_S
    await quotas.of(site, "alice")
    assert len(command.asked) == 4


async def test_a_command_without_the_folder_is_asked_for_the_home_alone() -> None:
    command = Command({"alice": "5 10"})

    assert await Quotas(command).of(site_with(COMMAND[:2], SCRATCH), "alice") == (Quota("home", 5, 10),)


async def test_a_site_without_a_command_asks_nobody_and_no_name_is_an_option() -> None:
    command = Command({})

    assert await Quotas(command).of(site_with([]), "alice") == ()
    assert await Quotas(command).of(site_with(COMMAND), "--help") == ()
    assert command.asked == []


@pytest.mark.parametrize("answer", [RunError("it did not answer within 10 s"), 1, "garbage"])
async def test_a_command_that_fails_is_not_known_is_said_once_and_asked_again_soon(
    answer: str | int | Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Mock(spec=logging.Logger)
    monkeypatch.setattr(asked, "LOG", log)
    now = [0.0]
    answers: dict[str, str | int | Exception] = {"home": answer, "/scratch": "5 10"}
    quotas = Quotas(Command(answers), lambda: now[0])
    site = site_with(COMMAND, SCRATCH)

    for person in ("alice", "bob"):
        assert await quotas.of(site, person) == (Quota("home"), Quota("scratch", 5, 10))
    log.warning.assert_called_once()
    answers["home"] = "1 2"
    now[0] = asked.KEPT_UNKNOWN_S
    assert await quotas.of(site, "alice") == (Quota("home", 1, 2), Quota("scratch", 5, 10))
    answers["home"] = answer
    now[0] = 2 * asked.KEPT_S
    await quotas.of(site, "alice")
    assert log.warning.call_count == 2


async def test_a_command_that_hangs_holds_nobody_up_and_its_answer_is_there_for_who_comes_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asked, "PAGE_WAITS_S", 0.01)
    command = Command({"home": "5 10"})
    command.goes_on.clear()
    quotas = Quotas(command)
    site = site_with(COMMAND)

    async with asyncio.timeout(5):
        found = await asyncio.gather(*(quotas.of(site, "alice") for _ in range(10)))
    assert set(found) == {(Quota("home"),)}
    assert len(command.asked) == 1, "one question for ten pages"
    command.goes_on.set()
    await asyncio.sleep(0)
    assert await quotas.of(site, "alice") == (Quota("home", 5, 10),)


async def test_a_thousand_people_start_two_commands_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked, "PAGE_WAITS_S", 0.01)
    command = Command({"home": "5 10"})
    command.goes_on.clear()
    quotas = Quotas(command)
    site = site_with(COMMAND)

    await asyncio.gather(*(quotas.of(site, f"p{number}") for number in range(1000)))
    assert len(quotas._asking) == asked.PEOPLE_AT_ONCE
    command.goes_on.set()
    await asyncio.gather(*quotas._asking.values())

    assert command.most_at_once == asked.AT_ONCE
    assert len(command.asked) == asked.PEOPLE_AT_ONCE


async def test_one_name_is_asked_about_once_at_a_time_whoever_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked, "PAGE_WAITS_S", 0.01)
    command = Command({"home": "5 10"})
    command.goes_on.clear()
    quotas = Quotas(command)
    site = site_with(COMMAND)

    for record in map(str, range(2 * asked.PEOPLE_AT_ONCE)):
        assert await quotas.of(site, "mallory", record) == (Quota("home"),)
    await quotas.of(site, "bob")

    assert [argv[1] for argv in command.asked] == ["mallory", "bob"]
    command.goes_on.set()
    await asyncio.gather(*quotas._asking.values())
    assert await quotas.of(site, "bob") == await quotas.of(site, "mallory", "0") == (Quota("home", 5, 10),)
    assert await quotas.of(site, "mallory", "1") == (Quota("home", 5, 10),)
    assert len(command.asked) == 3, "nobody is shown the figures of who had the name before"


# -- a real command -------------------------------------------------------------------------------------


def script(folder: Path, text: str) -> str:
    file = folder / "quota-of"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file)


async def test_the_command_gets_words_no_shell_and_nothing_of_the_hubs_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONFIGPROXY_AUTH_TOKEN", "s3cret")
    monkeypatch.setattr(asked, "PAGE_WAITS_S", 10)
    command = script(tmp_path, f'printf "%s\\n" "$@" > {tmp_path}/argv; env > {tmp_path}/env; echo 5 10')

    found = await Quotas().of(site_with([command, "{user}", "{folder}"]), "$(touch x); a b")

    assert found == (Quota("home", 5, 10),)
    assert (tmp_path / "argv").read_text() == "$(touch x); a b\nhome\n"
    assert "s3cret" not in (tmp_path / "env").read_text()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("exec yes", "printed more than 100 bytes"),
        ("exec yes >&2", "printed more than 100 bytes"),
        ("exec sleep 60", "did not answer within 0.5 s"),
        ("exec >&- 2>&-; exec sleep 60", "did not answer within 0.5 s"),
    ],
)
async def test_a_command_that_floods_or_hangs_is_ended(tmp_path: Path, text: str, said: str) -> None:
    command = script(tmp_path, f"echo $$ > {tmp_path}/pid; {text}")

    with pytest.raises(RunError, match=said):
        await run_bounded((command, "alice"), {"PATH": os.defpath}, 0.5, 100)

    await is_over(int((tmp_path / "pid").read_text()))


async def test_a_command_that_is_not_there_is_not_known(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot be started"):
        await run_bounded((f"{tmp_path}/none", "alice"), {}, 5, 4096)


def test_the_doctor_says_what_is_wrong_with_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loose: list[str] = []
    monkeypatch.setattr(quota_checks, "loose_on_the_way", lambda _: loose)
    program = script(tmp_path, "echo 1 2")
    link = tmp_path / "link"
    link.symlink_to(program)

    def found(path: object) -> tuple[str, str]:
        (check,) = quota_checks.command(site_with([str(path), "{user}"]))
        return check.result, check.found

    assert quota_checks.command(site_with([])) == []
    assert found(program) == ("ok", f"{program}, changed by root only")
    assert found(link)[0] == "ok"
    assert found(tmp_path / "none") == ("failed", f"{tmp_path}/none: No such file or directory")
    assert found(tmp_path) == ("failed", f"{tmp_path} is not a program that may be run")
    Path(program).chmod(0o644)
    assert found(program)[1].endswith("is not a program that may be run")
    Path(program).chmod(0o755)
    loose.append("x")
    assert found(link) == ("failed", "others than root can change x")


# -- what a person reads --------------------------------------------------------------------------------


def test_my_server_shows_a_bar_for_each_folder_with_words_beside_it() -> None:
    quotas = [Quota("home", 95 * GIB, 100 * GIB), Quota("scratch", GIB, 0), Quota(HOSTILE)]

    page = home([], quotas=quotas)

    words = " ".join(page.words.split())
    assert "95 GB of 100 GB: nearly full" in words
    assert "scratch 1.0 GB, without a limit" in words
    assert f"{HOSTILE} not known" in words
    (meter,) = [attrs for tag, attrs in page.tags if tag == "meter"]
    assert (meter["value"], meter["max"], meter["high"]) == (str(95 * GIB), str(100 * GIB), str(90 * GIB))
    assert meter["aria-labelledby"] == "quota-1"
    assert "My storage" not in home([], quotas=()).words


async def test_rest_tells_a_person_her_own_quotas() -> None:
    async def quotas() -> tuple[Quota, ...]:
        return Quota("home", 5, 10), Quota("scratch", 5, 0), Quota("data")

    person = Mock(kind="user", spawner=SimpleNamespace(quotas=quotas))
    person.name = "alice"
    written: list[Any] = []
    handler = asked_by(person, {"read:servers"}, pages.QuotasHandler)
    handler.write = written.append

    await handler.get()

    assert written == [
        {
            "folders": [
                {"name": "home", "used_bytes": 5, "limit_bytes": 10, "is_known": True},
                {"name": "scratch", "used_bytes": 5, "limit_bytes": None, "is_known": True},
                {"name": "data", "used_bytes": None, "limit_bytes": None, "is_known": False},
            ]
        }
    ]
    with pytest.raises(web.HTTPError) as refused:
        await asked_by(person, set(), pages.QuotasHandler).get()
    assert refused.value.status_code == 403


async def test_a_hub_serves_the_quotas_on_its_home_page_and_by_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asked, "PAGE_WAITS_S", 10)
    command = script(tmp_path, "echo 48318382080 107374182400")
    settings = tmp_path / "site.toml"
    settings.write_text(f'partition = [{{name = "gpu"}}]\n[quota]\ncommand = ["{command}", "{{user}}"]\n')

    def prepare(hub: Any) -> None:
        hub.config.SlurmSessionSpawner.site_file = str(settings)

    async with served_hub(tmp_path, prepare) as served:
        browser = await served.browser("alice")
        page = (await browser.get("/hub/home")).text
        headers = {"Referer": f"{browser.base_url}/hub/home"}
        told = (await browser.get("/hub/api/dsportal/quotas", headers=headers)).json()

    assert "45 GB of 100 GB" in page
    assert told["folders"] == [
        {"name": "home", "used_bytes": 48318382080, "limit_bytes": 107374182400, "is_known": True}
    ]
