"""What the portal makes in a home is its person's alone, also where their umask lets a group write."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from portal import launch_rules, launcher
from portal.catalogue.specs import put_in_place
from portal.environments import notes as environment_notes
from portal.environments import place
from portal.environments.notes import EnvironmentNote, MakingState
from portal.environments.order import order_of
from portal.gallery.files import real_folder
from portal.homes import private_folder
from portal.homes.own_folder import close, make_own
from portal.jobs import notes
from portal.jobs.notes import Note
from portal.kernels import module_cache
from portal.session_settings import SessionSettings
from portal.singleuser import spare_home
from portal.singleuser.home import MANIFEST

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@pytest.fixture(autouse=True)
def loose() -> Iterator[None]:
    """As where one group has everybody, and all may write what is made."""
    before = os.umask(0)
    yield
    os.umask(before)


def job_noted(home: Path) -> None:
    """As `portal job submit` does."""
    notes.write(notes.folder_of({"HOME": str(home)}), Note("7", "a.py", "/a.py", 1))


def environment_noted(home: Path) -> None:
    """As `portal env new` does."""
    note = EnvironmentNote(order_of({"name": "own"}), "", MakingState.MAKING, 1)
    environment_notes.write(environment_notes.folder_of({"HOME": str(home)}), note)


def environments_place(home: Path) -> None:
    """As `portal env new` does."""
    place.prepared("~/made/environments", home)


def kernelspec(home: Path) -> None:
    """As `portal modules kernel` does."""
    put_in_place(home / ".local/share/jupyter/kernels/own", {"kernel.json": b"{}"})


def modules_cached(home: Path) -> None:
    """As all do that load modules."""
    assert module_cache.folder_of({"HOME": str(home)})


def session_submitted(home: Path) -> None:
    """As the launcher does, whose own umask a default access list of the home's takes the place of (acl(5))."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launcher, "_home", lambda: str(home))
        patch.setattr(launcher, "_slurm", lambda argv, _: subprocess.CompletedProcess(argv, 0, "42\n", ""))
        patch.setattr(launch_rules, "PLACES", (str(home / "site.toml"),))
        request = {"verb": "submit", "key": "0123456789abcdef", "options": ["--time=60"], "environment": {}}
        assert launcher.handle(request) == {"ok": True, "job_id": "42"}


def private_folder_looked_at(home: Path) -> None:
    """As `portal doctor --person` has the launcher do."""
    private_folder.write_and_remove(home / private_folder.IN_HOME / private_folder.SESSIONS)


def spare_home_taken(home: Path) -> None:
    """As a session does whose home does not work."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spare_home, "why_not", lambda _: "it is silent")
        spare_home.take(SessionSettings(), {private_folder.VARIABLE: str(home / "scratch/own")})


def templates_remembered(home: Path) -> None:
    """As each session does."""
    assert real_folder(home, MANIFEST.parent)


@pytest.mark.parametrize(
    "act",
    [
        job_noted,
        environment_noted,
        environments_place,
        kernelspec,
        modules_cached,
        session_submitted,
        private_folder_looked_at,
        spare_home_taken,
        templates_remembered,
    ],
)
def test_nobody_else_can_put_a_folder_in_the_place_of_one_that_the_portal_made(
    act: Callable[[Path], None], tmp_path: Path
) -> None:
    tmp_path.chmod(0o755)
    act(tmp_path)
    made = [path for path in tmp_path.rglob("*") if path.is_dir()]
    assert made
    assert {path.name for path in made if path.stat().st_mode & OTHERS_WRITE} == set()


def test_a_folder_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(mode=0o775)
    make_own(tmp_path / "a/b")
    make_own(tmp_path / "a/b")
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "a/b")] == [0o775, 0o700]


def test_one_that_was_left_open_is_closed(tmp_path: Path) -> None:
    tmp_path.chmod(0o2775)
    close(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o2755
    close(tmp_path / "missing")


def test_a_file_in_its_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(FileExistsError, match="taken"):
        make_own(tmp_path / "taken")
