"""The doctor's look at one person, on this host's own accounts; sudo is scripted."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from portal.doctor import report
from portal.doctor.person_checks import environments, person
from portal.site import Site, parse
from portal.slurm.runner import Result
from tests.unit.test_doctor import changed

REACHED = Result(0, '{"ok": false, "message": "portal-launch: the verbs are submit, finish and look"}', "")
LOOKED = Result(0, '{"ok": true, "folder": "/scratch/root/.dsportal"}', "")
FULL = Result(0, '{"ok": false, "message": "/scratch/root/.dsportal/sessions: Disk quota exceeded"}', "")
REFUSED = Result(1, "", "Sorry, user portal is not allowed to execute '/opt/portal-launch' as root on head.\n")
BROKEN = Result(1, "", "Traceback (most recent call last):\n")


class OnlySudo:
    """Answers sudo, and remembers how it was called."""

    def __init__(self, answer: Result) -> None:
        self.answer = answer
        self.ran: list[tuple[str, ...]] = []

    async def __call__(
        self, argv: Sequence[str], stdin: str = "", env: Mapping[str, str] | None = None, timeout_s: float = 10
    ) -> Result:
        self.ran.append(tuple(argv))
        return self.answer


@pytest.mark.parametrize(
    ("answer", "result", "said"),
    [
        (REACHED, "ok", "which answers"),
        (REFUSED, "failed", "is not allowed to execute"),
        (REFUSED, "failed", 'ALL=(%PEOPLE, !root, !#0) NOPASSWD: /opt/dsportal/bin/portal-launch ""'),
        (BROKEN, "failed", "echo '{}' | sudo -n -H -u root -- /opt/dsportal/bin/portal-launch"),
    ],
)
async def test_the_launcher_is_really_reached_as_the_person_and_does_nothing(
    monkeypatch: pytest.MonkeyPatch, answer: Result, result: str, said: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 961)

    has_account, acts, *_ = await person("root", Site(), OnlySudo(answer))

    assert (has_account.result, acts.result) == ("ok", result)
    assert said in f"{acts.found} {acts.repair}"


async def test_root_asks_as_the_owner_of_the_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    run = OnlySudo(REACHED)

    await person("root", changed(Site(), state_folder=str(tmp_path)), run)

    assert run.ran[0][:5] == ("runuser", "-u", getpass.getuser(), "--", "sudo")


async def test_who_has_no_account_here_is_told_where_one_comes_from(tmp_path: Path) -> None:
    (found,) = await person("nobody-of-this-name", Site(), OnlySudo(REACHED))

    assert found.result == "failed"
    assert "`getent passwd nobody-of-this-name` must answer here and on the nodes" in found.repair


async def test_the_person_has_lines_in_the_doctors_list_when_one_is_named(tmp_path: Path) -> None:
    checks = await report.examine(str(tmp_path / "none.toml"), OnlySudo(REACHED), person="walter")

    assert [check.found for check in checks if check.what == "person walter"] == ["not checked"]


@pytest.mark.parametrize(
    ("answer", "result", "said"),
    [
        (LOOKED, "ok", "/scratch/root/.dsportal can be written here"),
        (FULL, "failed", "/scratch/root/.dsportal/sessions: Disk quota exceeded"),
        (FULL, "failed", "Sessions keep their environment and log there (the home)"),
    ],
)
async def test_the_place_of_a_persons_private_files_is_written_to_as_the_person(
    monkeypatch: pytest.MonkeyPatch, answer: Result, result: str, said: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 961)

    *_, files = await person("root", Site(), OnlySudo(answer))

    assert (files.what, files.result) == ("files of root", result)
    assert said in f"{files.found} {files.repair}"


@pytest.mark.parametrize(
    ("folder", "result", "words"),
    [
        ("~/environments", "ok", "in ~/environments of each person"),
        ("/tmp/{user}/environments", "ok", "people can make /tmp/{user}/environments"),
        ("/usr/{user}/environments", "ok", "/usr is the site's: each person needs a folder there, theirs, mode 700"),
        ("/no-such/{user}/environments", "warning", "there is no folder /no-such on this host"),
    ],
)
def test_the_place_of_peoples_own_environments_is_looked_at(folder: str, result: str, words: str) -> None:
    (check,) = environments(parse({"environments": {"folder": folder}}))
    assert (check.result, words in check.found) == (result, True), check


def test_a_place_of_environments_that_others_can_change_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch").chmod(0o777)
    (check,) = environments(parse({"environments": {"folder": f"{tmp_path}/scratch/{{user}}"}}))
    assert (check.result, f"others than root can change {tmp_path}/scratch," in check.found) == ("failed", True)
