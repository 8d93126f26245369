"""A person's private folder outside the home: whose it must be, what in its way is refused, and who is told where."""

from __future__ import annotations

import json
import os
import pwd
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from portal import launch_rules, launcher
from portal.errors import SiteError
from portal.homes import private_folder
from portal.homes.private_folder import PrivateFolderRefused
from portal.kernels import module_cache
from portal.session_settings import OURS, SessionSettings
from portal.singleuser import spare_home
from portal.site import parse

ME = pwd.getpwuid(os.getuid())
KEY = "0123456789abcdef"


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """A folder in which everybody may make their own, as sites have it."""
    tmp_path.chmod(0o1777)
    return tmp_path


def made(scratch: Path, form: str = "{user}/.dsportal") -> Path:
    """The folder below it."""
    return private_folder.made(f"{scratch}/{form}", ME.pw_name, ME.pw_uid)


@pytest.mark.parametrize(
    "value",
    ["/scratch", "scratch/{user}", "/scratch/x{user}", "/scratch/{user}/../x", "/s/{home}", "/s/{user}/%j",
     "/s/{user}/", "/s//{user}", "/s/{user}/a b", "/{user}\n"],
)  # fmt: skip
def test_a_form_that_would_share_a_folder_or_lead_elsewhere_is_refused_by_the_settings_and_by_the_launcher(
    value: str,
) -> None:
    with pytest.raises(SiteError, match=r"one whole part is \{user\} or \{uid\}"):
        parse({"session": {"private_folder": value}})
    with pytest.raises(PrivateFolderRefused, match="one whole part is"):
        private_folder.made(value, ME.pw_name, ME.pw_uid)


@pytest.mark.parametrize("value", ["/scratch/{user}", "/run/user-like/{uid}/dsportal", "/a/{user}/b-c/.d_e"])
def test_a_form_with_a_part_for_each_person_is_taken_by_both(value: str) -> None:
    assert parse({"session": {"private_folder": value}}).session.private_folder == value
    assert private_folder.fault(value) == ""


@pytest.mark.parametrize("name", ["../root", "a%j", "a/b", "..", "a b", ""])
def test_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(PrivateFolderRefused, match="cannot be made for somebody called"):
        private_folder.path_of("/scratch/{user}", name, 1)


def test_it_is_made_with_its_parents_for_the_person_alone_whatever_the_umask(scratch: Path) -> None:
    before = os.umask(0)
    try:
        folder = made(scratch)
    finally:
        os.umask(before)

    assert folder == scratch / ME.pw_name / ".dsportal"
    assert [stat.S_IMODE(one.stat().st_mode) for one in (folder, folder.parent)] == [0o700, 0o700]
    assert made(scratch) == folder, "a second time it is there"
    folder.chmod(0o755)
    assert stat.S_IMODE(made(scratch).stat().st_mode) == 0o700
    assert made(scratch, "{uid}") == scratch / str(ME.pw_uid)


def in_the_way(kind: str, place: Path) -> None:
    """What a neighbour, or the person, may have put there."""
    if kind == "link":
        (place.parent / "elsewhere").mkdir()
        place.symlink_to(place.parent / "elsewhere")
    elif kind == "file":
        place.touch()
    elif kind == "pipe":
        os.mkfifo(place)


@pytest.mark.parametrize("kind", ["link", "file", "pipe"])
@pytest.mark.parametrize("form", ["{user}", "{user}/.dsportal"])
def test_what_is_no_folder_is_refused_and_no_link_is_followed(scratch: Path, kind: str, form: str) -> None:
    place = scratch / form.replace("{user}", ME.pw_name)
    place.parent.mkdir(exist_ok=True)
    in_the_way(kind, place)

    with pytest.raises(PrivateFolderRefused, match="is a link or a file, where your own folder should be") as fault:
        made(scratch, form)

    assert fault.value.filename == str(place)
    assert not list((place.parent / "elsewhere").rglob("*"))


@pytest.mark.parametrize("mode", [0o775, 0o707, 0o1777])
def test_a_persons_part_that_others_can_write_is_refused(scratch: Path, mode: int) -> None:
    (scratch / ME.pw_name).mkdir()
    (scratch / ME.pw_name).chmod(mode)

    with pytest.raises(PrivateFolderRefused, match=rf"others can write there.*mode {mode:04o}.*chmod go-w"):
        made(scratch)


def test_a_sites_part_that_others_can_write_is_refused_unless_it_is_sticky(scratch: Path) -> None:
    assert made(scratch)

    scratch.chmod(0o777)

    with pytest.raises(PrivateFolderRefused, match="others can write there"):
        made(scratch)


def test_a_sites_part_may_be_a_link_and_must_be_there(scratch: Path) -> None:
    (scratch / "lustre").mkdir(mode=0o755)
    (scratch / "link").symlink_to("lustre")

    assert made(scratch, "link/{user}") == scratch / "lustre" / ME.pw_name
    with pytest.raises(PrivateFolderRefused, match="is not there, on which session"):
        made(scratch, "none/{user}")


def test_a_folder_of_somebody_else_is_refused_with_the_number(scratch: Path) -> None:
    made(scratch)

    with pytest.raises(PrivateFolderRefused, match="not to you"):
        private_folder.made(f"{scratch}/{{user}}/.dsportal", ME.pw_name, ME.pw_uid + 12345)


@pytest.fixture
def submitted(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, object]]:
    """The launcher with a settings file that names the folder, and a home that is not there."""
    site = scratch / "site.toml"
    tables = {"session": {"private_folder": f"{scratch}/{{user}}/.dsportal"}}
    monkeypatch.setattr(launch_rules, "PLACES", (str(site),))
    monkeypatch.setattr(launch_rules, "read", lambda: launch_rules.Settings(tables, place=str(site)))
    monkeypatch.setattr(launch_rules, "fault", lambda *_: "")
    monkeypatch.setattr(launcher, "_home", lambda: "/nowhere/alice")
    calls: list[list[str]] = []

    def run(argv: list[str], _environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        calls.append(list(argv))
        return subprocess.CompletedProcess(argv, 0, "42\n", "")

    monkeypatch.setattr(launcher, "_slurm", run)

    def ask(verb: str, **more: object) -> dict[str, object]:
        return {**launcher.handle({"verb": verb, "key": KEY, **more}), "argv": calls[-1] if calls else []}

    return ask


def test_with_the_setting_the_launcher_needs_no_home_from_the_submission_to_the_end(
    scratch: Path, submitted: Callable[..., dict[str, object]]
) -> None:
    answer = submitted("submit", options=[], environment={"JUPYTERHUB_API_TOKEN": "secret"})

    folder = scratch / ME.pw_name / ".dsportal"
    session = folder / "sessions" / KEY
    given = json.loads((session / launcher.ENVIRONMENT_FILE).read_text())
    assert answer["ok"]
    assert f"--output={session / launcher.LOG_FILE}" in str(answer["argv"])
    assert given == {"JUPYTERHUB_API_TOKEN": "secret", private_folder.VARIABLE: str(folder)}
    assert submitted("look")["folder"] == str(folder)
    assert sorted(path.name for path in (folder / "sessions").iterdir()) == [KEY], "a look leaves nothing"

    (session / launcher.LOG_FILE).write_text("last words")
    assert submitted("finish", job_id="42")["log"] == "last words"
    assert not (session / launcher.ENVIRONMENT_FILE).exists()


def test_a_session_of_before_the_setting_is_finished_where_it_is(
    scratch: Path, submitted: Callable[..., dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher, "_home", lambda: str(scratch))
    session = scratch / launcher.SESSIONS / KEY
    session.mkdir(parents=True)
    (session / launcher.ENVIRONMENT_FILE).touch()
    (session / launcher.LOG_FILE).write_text("in the home")

    assert submitted("finish", job_id="42")["log"] == "in the home"
    assert not (session / launcher.ENVIRONMENT_FILE).exists()


def test_a_session_in_the_home_is_finished_there_whatever_somebody_put_in_the_new_place(
    scratch: Path, submitted: Callable[..., dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher, "_home", lambda: str(scratch))
    session = scratch / launcher.SESSIONS / KEY
    theirs = scratch / ME.pw_name / ".dsportal" / "sessions" / KEY
    for folder, words in ((session, "in the home"), (theirs, "theirs")):
        folder.mkdir(parents=True)
        (folder / launcher.ENVIRONMENT_FILE).touch()
        (folder / launcher.LOG_FILE).write_text(words)
    theirs.chmod(0o777)

    assert submitted("finish", job_id="42")["log"] == "in the home"
    assert not (session / launcher.ENVIRONMENT_FILE).exists()


def test_a_link_that_somebody_put_in_the_new_place_leads_to_no_folder_of_the_persons_own(
    scratch: Path, submitted: Callable[..., dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher, "_home", lambda: str(scratch))
    session = scratch / launcher.SESSIONS / KEY
    project = scratch / "project"
    for folder, words in ((session, "in the home"), (project, "my own notes")):
        folder.mkdir(parents=True)
        (folder / launcher.ENVIRONMENT_FILE).touch()
        (folder / launcher.LOG_FILE).write_text(words)
    theirs = scratch / ME.pw_name / ".dsportal" / "sessions"
    theirs.mkdir(parents=True)
    theirs.chmod(0o777)
    (theirs / KEY).symlink_to(project)

    assert submitted("finish", job_id="42")["log"] == "in the home"
    assert (project / launcher.ENVIRONMENT_FILE).exists()
    assert not (session / launcher.ENVIRONMENT_FILE).exists()


def test_without_the_setting_a_request_names_no_folder_either(
    tmp_path: Path, submitted: Callable[..., dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch_rules, "read", lambda: launch_rules.Settings({}))
    monkeypatch.setattr(launcher, "_home", lambda: str(tmp_path))

    assert private_folder.VARIABLE in OURS, "nor does an administrator's c.Spawner.environment"
    submitted("submit", options=[], environment={private_folder.VARIABLE: "/tmp/theirs"})

    assert json.loads((tmp_path / launcher.SESSIONS / KEY / launcher.ENVIRONMENT_FILE).read_text()) == {}


def test_a_request_cannot_name_the_folder() -> None:
    with pytest.raises(launcher.RequestRefused, match="submit, finish, look and test"):
        launcher.parse_request({"verb": "elsewhere", "folder": "/root"})
    assert launcher.parse_request({"verb": "look", "folder": "/root"}) == launcher.parse_request({"verb": "look"})


# -- the session -----------------------------------------------------------------------------------------


def test_a_home_that_works_is_used_as_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = SessionSettings()
    environ = {private_folder.VARIABLE: str(tmp_path / "private")}

    assert spare_home.take(settings, environ) is settings
    assert list(environ) == [private_folder.VARIABLE]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("home", ["missing", "a file"])
def test_where_the_home_does_not_work_jupyter_and_files_have_another_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: str
) -> None:
    if home == "a file":
        (tmp_path / "home").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    private = tmp_path / "private"
    environ = {private_folder.VARIABLE: str(private)}

    settings = spare_home.take(SessionSettings(title="Ours"), environ)

    assert (settings.title, settings.files) == ("Ours", str(private / "files"))
    assert environ["JUPYTER_CONFIG_DIR"] == str(private / "jupyter/config")
    assert all(Path(folder).is_dir() for folder in environ.values())
    assert "Your home does not work here" in capsys.readouterr().out
    assert spare_home.take(SessionSettings(), {}) == SessionSettings(), "without the setting nothing is another"


def test_the_cache_of_modules_lies_in_the_private_folder_where_there_is_one(tmp_path: Path) -> None:
    environ = {"HOME": "/nowhere", private_folder.VARIABLE: str(tmp_path)}

    assert module_cache.folder_of(environ) == f"{tmp_path}/modules"
    assert stat.S_IMODE((tmp_path / "modules").stat().st_mode) == 0o700
