"""What goes to systemd's journal begins with its level, line by line; what goes elsewhere is as it was."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from portal.session_pages.strangers import bound_logs

HUB = """
import logging, sys
from portal.hub.app import PortalHub
hub = PortalHub()
hub.init_logging()
hub.log.warning("two\\nlines")
hub.log.error("it failed")
logging.getLogger("portal.slurm").info("a module's words")
hub.log.warning("said: %s", "{sent}")
try:
    raise ValueError("{sent}")
except ValueError:
    hub.log.error("failed", exc_info=True, stack_info=True)
""".replace("{sent}", r"a\n[W] b\r[W] c\x1b[2Jd\u2028[W] e\u202ef\u200eg\t100%")

AS_TEXT = r"    [W] b\r[W] c\x1b[2Jd\u2028[W] e\u202ef\u200eg" + "\t100%"


def said(argv: list[str], stream: str | None) -> list[str]:
    """The lines of a program's standard error, which is the journal when ``stream`` is None."""
    reading, writing = os.pipe()
    there = os.fstat(writing)
    variables = {**os.environ, "JOURNAL_STREAM": f"{there.st_dev}:{there.st_ino}" if stream is None else stream}
    with os.fdopen(reading) as pipe:
        subprocess.run([sys.executable, *argv], stderr=writing, env=variables, check=False)
        os.close(writing)
        return pipe.read().splitlines()


@pytest.fixture(scope="module")
def lines_of_hub() -> dict[str, list[str]]:
    """What a hub says, into the journal and elsewhere."""
    return {"journal": said(["-c", HUB], None), "elsewhere": said(["-c", HUB], "1:2")}


def test_in_the_journal_each_line_of_the_hub_has_its_level(lines_of_hub: dict[str, list[str]]) -> None:
    lines = lines_of_hub["journal"][:4]

    assert [line[:4] for line in lines] == ["<4>[", "<4> ", "<3>[", "<6>["]
    assert lines[1].endswith(" lines")


def test_elsewhere_no_line_is_changed(lines_of_hub: dict[str, list[str]]) -> None:
    assert [line[:1] for line in lines_of_hub["elsewhere"][:4]] == ["[", " ", "[", "["]


@pytest.mark.parametrize("stream", ["journal", "elsewhere"])
def test_what_others_have_sent_begins_no_line_and_steers_no_terminal(
    lines_of_hub: dict[str, list[str]], stream: str
) -> None:
    first, second, *traceback = lines_of_hub[stream][4:]

    assert first.endswith(" said: a")
    assert second.removeprefix("<4>") == AS_TEXT
    assert [line.removeprefix("<3>") for line in traceback[-3:-1]] == ["    ValueError: a", AS_TEXT]
    assert traceback[0].endswith(" failed")
    assert len(traceback) > 4, "its lines' ends stay"


def test_why_a_command_ended_is_an_error_in_the_journal(tmp_path: Path) -> None:
    argv = ["-m", "portal.cli", "up", "--site", str(tmp_path / "absent.toml")]

    lines = said(argv, None)

    assert lines
    assert all(line.startswith("<3>") for line in lines)


def test_a_traceback_and_a_stack_are_text_whatever_shows_them() -> None:
    """As a session's log has them, and what is told to nobody else."""
    shown = io.StringIO()
    log = logging.Logger("some")
    log.addHandler(logging.StreamHandler(shown))
    bound_logs([log])
    try:
        raise ValueError("a\r[W] b\x1b[2J\x9b2J")
    except ValueError:
        log.exception("failed", stack_info=True)
    log.handle(
        logging.makeLogRecord(
            {"msg": "kept", "levelno": 40, "exc_text": "of before\x1b[2J", "stack_info": "a stack\x1b[2J"}
        )
    )

    lines = shown.getvalue().split("\n")
    assert r"ValueError: a\r[W] b\x1b[2J\x9b2J" in lines
    assert lines[-4:] == ["kept", r"of before\x1b[2J", r"a stack\x1b[2J", ""]
    assert not any(set("\r\x1b\x9b") & set(line) for line in lines)


def test_of_a_very_long_traceback_a_log_has_how_it_begins_and_ends() -> None:
    shown = io.StringIO()
    log = logging.Logger("some")
    log.addHandler(logging.StreamHandler(shown))
    bound_logs([log])
    try:
        raise ValueError("x" * 10**6 + " its end")
    except ValueError:
        log.exception("failed")

    assert len(shown.getvalue()) < 20_000
    assert shown.getvalue().startswith("failed\nTraceback (most recent call last):\n")
    assert shown.getvalue().endswith("xx its end\n")
