"""What goes to systemd's journal begins with its level, line by line; what goes elsewhere is as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HUB = """
import logging, sys
from portal.hub.app import PortalHub
hub = PortalHub()
hub.init_logging()
hub.log.warning("two\\nlines")
hub.log.error("it failed")
logging.getLogger("portal.slurm").info("a module's words")
"""


def said(argv: list[str], stream: str | None) -> list[str]:
    """The lines of a program's standard error, which is the journal when ``stream`` is None."""
    reading, writing = os.pipe()
    there = os.fstat(writing)
    variables = {**os.environ, "JOURNAL_STREAM": f"{there.st_dev}:{there.st_ino}" if stream is None else stream}
    with os.fdopen(reading) as pipe:
        subprocess.run([sys.executable, *argv], stderr=writing, env=variables, check=False)
        os.close(writing)
        return pipe.read().splitlines()


def test_in_the_journal_each_line_of_the_hub_has_its_level() -> None:
    lines = said(["-c", HUB], None)

    assert [line[:4] for line in lines] == ["<4>[", "<4> ", "<3>[", "<6>["]
    assert lines[1].endswith(" lines")


def test_elsewhere_no_line_is_changed() -> None:
    lines = said(["-c", HUB], "1:2")

    assert [line[:1] for line in lines] == ["[", " ", "[", "["]


@pytest.mark.parametrize("stream", [None, "1:2"])
def test_what_others_have_sent_begins_no_line_and_steers_no_terminal(stream: str | None) -> None:
    sent = r"a\n[W] b\r[W] c\x1b[2Jd\u2028[W] e\u202ef\t100%"
    code = f"{HUB.partition('hub.log')[0]}hub.log.warning('said: %s', '{sent}')"

    first, second = said(["-c", code], stream)

    assert first.endswith(" said: a")
    assert second.removeprefix("<4>") == r"    [W] b\r[W] c\x1b[2Jd\u2028[W] e\u202ef" + "\t100%"


def test_why_a_command_ended_is_an_error_in_the_journal(tmp_path: Path) -> None:
    argv = ["-m", "portal.cli", "up", "--site", str(tmp_path / "absent.toml")]

    lines = said(argv, None)

    assert lines
    assert all(line.startswith("<3>") for line in lines)
