"""Whose profiles TensorBoard's page *Profile* shows: those that the person alone can change, files included."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from werkzeug.exceptions import Forbidden

from portal.homes.held_place import is_own_all_the_way
from portal.tensorboard import profiles
from portal.tensorboard.profiles import fault


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """A profile of one's own, with a folder in it."""
    folder = tmp_path / "logs/plugins/profile/run1"
    folder.mkdir(parents=True)
    (folder / "kept").mkdir()
    (folder / "host.xplane.pb").touch(0o644)
    return folder


def test_ones_own_is_shown(profile: Path, tmp_path: Path) -> None:
    assert fault(profile, tmp_path) == ""


@pytest.mark.parametrize("name", ["host.xplane.pb", "kept"])
@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_a_file_or_a_folder_that_others_can_write_is_none_of_ones_own(
    profile: Path, tmp_path: Path, name: str, mode: int
) -> None:
    (profile / name).chmod(mode)
    assert fault(profile, tmp_path) == f"holds {name!r}, which can be changed by others"


def test_a_link_and_what_is_no_file_are_not_followed(profile: Path, tmp_path: Path) -> None:
    (profile / "a").symlink_to(tmp_path)
    assert fault(profile, tmp_path) == "holds a link"
    (profile / "a").unlink()
    os.mkfifo(profile / "a", 0o600)
    assert fault(profile, tmp_path) == "holds 'a', which is no file"
    assert fault(Path("/"), tmp_path) == "lies elsewhere"


def test_what_is_shown_is_what_was_looked_at(profile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody has the link on the way lead elsewhere once it was looked at."""
    (tmp_path / "theirs").mkdir()
    run = tmp_path / "logs/run"
    run.symlink_to(profile)
    usual = is_own_all_the_way

    def is_own(folder: Path) -> bool:
        if run.readlink() == profile:
            run.unlink()
            run.symlink_to(tmp_path / "theirs")
        return usual(folder)

    class ProfilePlugin:
        _run_dir: Any = lambda self, run, request: str(tmp_path / "logs" / run)

    monkeypatch.setattr(profiles, "is_own_all_the_way", is_own)
    monkeypatch.setitem(sys.modules, "xprof", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "xprof.profile_plugin", SimpleNamespace(ProfilePlugin=ProfilePlugin))
    profiles.show_own_alone(str(tmp_path))

    assert ProfilePlugin()._run_dir("run", None) == str(profile)


@pytest.mark.parametrize("how", ["chosen", "led", "led since it was opened"])
def test_none_is_shown_in_a_folder_to_which_others_have_led(
    profile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A copy of something of theirs, say: it belongs to the person."""

    class ProfilePlugin:
        _run_dir: Any = lambda self, run, request: str(profile)

    monkeypatch.setitem(sys.modules, "xprof", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "xprof.profile_plugin", SimpleNamespace(ProfilePlugin=ProfilePlugin))
    (tmp_path / "link").symlink_to(tmp_path / "logs")
    folder = tmp_path / ("link" if how == "led since it was opened" else "logs")
    profiles.show_own_alone(str(folder), is_chosen=how != "led")

    if how == "chosen":
        assert ProfilePlugin()._run_dir("run", None) == str(profile)
        return
    with pytest.raises(Forbidden) as refused:
        ProfilePlugin()._run_dir("run", None)
    assert f"Open TensorBoard for {tmp_path}/logs itself" in str(refused.value.description)
