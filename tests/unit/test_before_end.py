"""A person's script that runs before the session ends: when, with what, and what is told of it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from portal.homes import held_place
from portal.session_usage import before_end
from portal.session_usage.before_end import BEFORE_S, LOG, SCRIPT, STOPPED_BEFORE_S, BeforeEnd, fault_of
from portal.session_usage.end_time import EndTime

END = 1_800_000_000
ENVIRON = {"PATH": "/usr/bin:/bin", "JUPYTERHUB_API_TOKEN": "secret", "SLURM_JOB_ID": "4711"}


class Story:
    """A home, and a session that ends; each look at the clock takes no time unless ``step_s`` says so."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(home))
        home.chmod(0o700)
        self.home = home
        self.left_s = float(BEFORE_S)
        self.step_s = 0.0
        self.end = EndTime({})
        self.end.hear(str(END))
        self.before_end = BeforeEnd(home, ENVIRON, self.end, self._now)

    def _now(self) -> float:
        self.left_s -= self.step_s
        return END - self.left_s

    def write(self, text: str, mode: int = 0o700) -> Path:
        script = self.home / SCRIPT
        script.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        script.write_text(text)
        script.chmod(mode)
        return script

    async def after_a_look(self, left_s: float) -> str:
        """The state, so long before the end."""
        self.left_s = left_s
        await self.before_end.look()
        return self.before_end.run.state if self.before_end.run else ""

    @property
    def words(self) -> str:
        assert self.before_end.run is not None
        return self.before_end.run.words


@pytest.fixture
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Story:
    """A session with a home of its own."""
    home = tmp_path / "home"
    home.mkdir()
    return Story(home, monkeypatch)


async def test_it_runs_once_five_minutes_before_the_end_and_what_it_says_is_told(story: Story) -> None:
    story.write("#!/bin/sh\necho $DSPORTAL_ENDS_AT >> times; echo kept ${JUPYTERHUB_API_TOKEN-nothing secret}\n")

    assert await story.after_a_look(BEFORE_S + 1) == ""
    assert await story.after_a_look(BEFORE_S - 1) == "done"
    assert await story.after_a_look(BEFORE_S - 60) == "done"

    assert story.words == "~/.config/dsportal/before-end has finished. It said: kept nothing secret"
    assert (story.home / "times").read_text() == f"{END}\n"
    assert (story.home / LOG).stat().st_mode & 0o777 == 0o600


async def test_it_runs_again_where_the_session_got_more_time(story: Story) -> None:
    story.write("#!/bin/sh\necho run >> times\n")

    for left_s in (BEFORE_S - 1, 3600, BEFORE_S - 1):
        await story.after_a_look(left_s)

    assert (story.home / "times").read_text() == "run\nrun\n"


async def test_a_failure_is_told_with_its_last_words(story: Story) -> None:
    story.write("#!/bin/sh\necho no space left >&2\nexit 3\n")
    assert await story.after_a_look(200) == "failed"
    assert story.words.endswith(
        "failed with exit status 3; all that it wrote is in ~/.local/share/dsportal/before-end.log. "
        "It said: no space left"
    )


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "hard link", "read by somebody"])
async def test_its_log_goes_through_nothing_that_somebody_else_put_in_its_place(story: Story, kind: str) -> None:
    story.write("#!/bin/sh\necho no space left\nexit 3\n")
    mine = story.home / "mine"
    mine.write_text("my work\n")
    log = story.home / LOG
    log.parent.mkdir(parents=True)
    log.parent.chmod(0o777)
    if kind == "link":
        log.symlink_to(mine)
    elif kind == "dangling link":
        log.symlink_to(story.home / "new")
    elif kind == "hard link":
        log.hardlink_to(mine)
    elif kind == "pipe":
        os.mkfifo(log)
    else:
        log.write_text("")
    reading = os.open(log, os.O_RDONLY | os.O_NONBLOCK) if kind in ("pipe", "read by somebody") else None

    async with asyncio.timeout(10):
        assert await story.after_a_look(200) == "failed"

    assert story.words.endswith("It said: no space left")
    assert mine.read_text() == "my work\n"
    assert not (story.home / "new").exists()
    assert log.read_text() == "no space left\n"
    assert not log.is_symlink()
    if reading is not None:
        assert os.read(reading, 100) == b""
        os.close(reading)


async def test_where_its_log_cannot_be_made_it_runs_and_its_last_words_are_told(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = story.home / "theirs"
    theirs.mkdir()
    (story.home / LOG).parent.parent.mkdir(parents=True)
    (story.home / LOG).parent.symlink_to(theirs)
    (story.home / LOG).parent.parent.chmod(0o777)
    monkeypatch.setattr(held_place, "is_of_others", lambda _: True)
    story.write("#!/bin/sh\necho kept\nexit 3\n")
    monkeypatch.setattr(before_end, "fault_of", lambda _: None)

    assert await story.after_a_look(200) == "failed"

    assert "its log could not be made (dsportal: is somebody else's link" in story.words
    assert story.words.endswith("It said: kept")
    assert list(theirs.iterdir()) == []


async def test_of_much_that_it_wrote_the_end_is_read(story: Story) -> None:
    story.write("#!/bin/sh\nhead --bytes=20000000 /dev/zero\necho; echo the end\n")

    assert await story.after_a_look(200) == "done"

    assert story.words.endswith("the end")
    assert len(story.words) < 700


async def test_one_that_takes_too_long_is_stopped_with_what_it_started(story: Story) -> None:
    story.write("#!/bin/sh\necho begun\nsleep 1000 | sleep 1000\n")
    story.step_s = 50
    assert await story.after_a_look(STOPPED_BEFORE_S + 120) == "stopped"
    assert story.words.endswith("because the session ends now. It said: begun")


async def test_without_a_script_or_without_an_end_nothing_happens(story: Story) -> None:
    assert await story.after_a_look(200) == ""
    story.write("#!/bin/sh\ntouch run\n")
    assert await story.after_a_look(STOPPED_BEFORE_S - 1) == "", "it is too late to begin"
    endless = BeforeEnd(story.home, ENVIRON, EndTime({}))
    await endless.look()
    assert endless.run is None
    assert not (story.home / "run").exists()


@pytest.mark.parametrize(
    ("mode", "words"),
    [(0o600, "chmod u+x"), (0o720, "is not yours alone"), (0o702, "is not yours alone")],
)
async def test_one_that_others_may_change_or_that_is_no_program_is_refused(story: Story, mode: int, words: str) -> None:
    story.write("#!/bin/sh\ntouch run\n", mode)
    assert await story.after_a_look(200) == "refused"
    assert words in story.words
    assert not (story.home / "run").exists()


async def test_a_folder_that_others_may_change_is_refused_too(story: Story) -> None:
    script = story.write("#!/bin/sh\n")
    assert fault_of(script) is None
    script.parent.chmod(0o770)
    assert "is not yours alone" in str(fault_of(script))


async def test_one_without_its_first_line_says_so(story: Story) -> None:
    story.write("#!/no/such/shell\n")
    assert await story.after_a_look(200) == "refused"
    assert "No such file or directory. Does its first line name a shell?" in story.words


@pytest.mark.parametrize("mode", [0o755, 0o777])
def test_a_link_to_a_script_is_looked_at_where_it_leads(story: Story, mode: int) -> None:
    folder = story.home / "project"
    folder.mkdir()
    elsewhere = folder / "save"
    elsewhere.write_text("#!/bin/sh\n")
    elsewhere.chmod(0o700)
    folder.chmod(mode)
    script = story.home / SCRIPT
    script.parent.mkdir(mode=0o700, parents=True)
    script.symlink_to(elsewhere)

    assert bool(fault_of(script)) == (mode == 0o777), "others can put something else in its place"


@pytest.mark.parametrize("mode", [0o755, 0o777])
def test_each_link_on_the_way_to_a_script_is_looked_at(story: Story, mode: int) -> None:
    target = story.home / "own/save"
    target.parent.mkdir(mode=0o700)
    target.write_text("#!/bin/sh\n")
    target.chmod(0o700)
    project = story.home / "project"
    project.mkdir()
    (project / "save").symlink_to(target)
    project.chmod(mode)
    script = story.home / SCRIPT
    script.parent.mkdir(mode=0o700, parents=True)
    script.symlink_to(project / "save")

    assert bool(fault_of(script)) == (mode == 0o777), "others can have the second link lead elsewhere"
