"""``portal notebooks`` with the templates of a site, and with copies of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from portal.cli import main
from portal.session_settings import SETTINGS, SessionSettings
from tests.lessons import lesson, ran, write


@pytest.fixture
def site_file(tmp_path: Path) -> Path:
    """Settings with a folder of templates of the site's own."""
    write(tmp_path / "own/first/steps.ipynb", lesson("import tool"))
    write(tmp_path / "own/first/tool.py", "t = 1\n")
    return write(tmp_path / "site.toml", f'[notebooks]\nfolders = ["{tmp_path}/own"]\n')


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a person works."""
    folder = tmp_path / "home/projects"
    folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(folder)
    return folder


def test_the_sites_own_templates_are_listed_and_checked_beside_the_portals(
    site_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["notebooks", "list", "--site", str(site_file)]) == 0
    listed = capsys.readouterr().out
    assert "first/steps" in listed
    assert "tensorflow/mnist" in listed
    assert main(["notebooks", "check", "first/steps", "--site", str(site_file)]) == 1
    assert "first/steps: 0 cells have the tag 'parameters'" in capsys.readouterr().out


def test_a_template_that_hides_behind_one_of_the_portals_is_a_fault(
    site_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(site_file.parent / "own/r/mnist.ipynb", lesson("1"))
    assert main(["notebooks", "check", "--site", str(site_file)]) == 1
    assert "own/r/mnist.ipynb is not shown" in capsys.readouterr().out


def test_what_others_put_into_a_folder_of_templates_keeps_no_check_from_its_end_and_steers_no_terminal(
    site_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("portal.notebooks.run.refuse_root", lambda: None)  # these tests may run as root
    others = site_file.parent / "own/first"
    (others / "a\x1b[31mfolder.ipynb").mkdir()
    os.mkfifo(others / "pipe.ipynb")
    (others / "nowhere.ipynb").symlink_to("nothing")
    write(others / "odd.ipynb", '{"cells": {"a": 1}, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')

    assert main(["notebooks", "check", "--folder", str(others.parent)]) == 1
    said = capsys.readouterr()
    assert main(["notebooks", "run", "first/none", "--folder", str(others.parent)]) == 1
    assert "\x1b" not in said.out + said.err + capsys.readouterr().err
    for name in ("a?[31mfolder", "pipe", "nowhere", "odd"):
        assert f"first/{name}: not a notebook: " in said.out
    assert "first/steps: 0 cells have the tag 'parameters'" in said.out


def test_a_session_knows_the_folders_of_its_site_without_the_settings_file(
    site_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = SessionSettings(site_notebooks=(str(site_file.parent / "own"),))
    monkeypatch.setenv(SETTINGS, settings.to_text())
    assert main(["notebooks", "list"]) == 0
    assert "first/steps" in capsys.readouterr().out


def test_a_copy_is_made_looked_at_compared_and_brought_up_to_date(
    site_file: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def portal(*words: str) -> tuple[int, str]:
        status = main(["notebooks", *words, "--folder", str(site_file.parent / "own")])
        captured = capsys.readouterr()
        return status, captured.out + captured.err

    assert portal("copy", "first/steps") == (0, "written: first-steps\n")
    assert portal("state", "first-steps") == (0, "first/steps: as the template is now\n")
    assert portal("compare", "first-steps") == (0, "")
    ran(here / "first-steps/steps.ipynb", "mine = 1")
    write(site_file.parent / "own/first/tool.py", "t = 2\n")
    assert portal("state", "first-steps")[1].splitlines() == [
        "first/steps: changed by you, and the template is newer",
        "  steps.ipynb: changed by you",
        "  tool.py: the template is newer",
    ]
    status, text = portal("compare", "first-steps")
    assert status == 1
    assert "-mine = 1" in text
    assert portal("update", "first-steps") == (0, "As the template now: tool.py.\n")
    status, text = portal("reset", "first-steps")
    assert text.startswith("As the template now: steps.ipynb.\nWhat was there before is kept as steps-kept-")
    assert portal("update", "first-steps")[1].startswith("Nothing was to be done")


@pytest.mark.parametrize(
    ("words", "said"),
    {
        "a name that is none": (["copy", "first/none"], "There is no template 'first/none'; there are first/steps."),
        "a folder that is none": (["copy", "first/steps", "--into", "none"], "There is no folder "),
        "no copy": (["reset", "."], "is no copy of a template"),
        "nothing at all": (["state", "none"], "It cannot be done: No such file or directory"),
        "in the catalogue": (["copy", "first/steps", "--into", "../templates"], "is in the catalogue"),
    }.values(),
)
def test_what_cannot_be_done_is_said(
    words: list[str], said: str, site_file: Path, here: Path, caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (here.parent / "templates").mkdir()
    assert main(["notebooks", *words, "--folder", str(site_file.parent / "own")]) == 1
    assert said in capsys.readouterr().err + caplog.text
