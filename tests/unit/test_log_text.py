"""Logs on a terminal: colours stay, and what steers it otherwise does not, however a log is cut into parts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from portal.commands import job_commands
from portal.commands.log_text import LogText
from portal.doctor.check import Check
from portal.doctor.report import lines
from portal.homes.log_part import LogPart

STEERS = (
    "\x1b]0;title\x07",
    "\x1b]52;c;cm0=\x1b\\",
    "\x1b[2J",
    "\x1b[6n",
    "\x1b[?1049h",
    "\x1b[1;31;2K",
    "\x1bc",
    "\x1bP$q\x1b\\",
    "\x9b6n",
    "\x9d0;t\x9c",
    "\x08",
    "\x1b\x1b[\x1b",
    "\u202e",
)
KEPT = "epoch 1\t3 %\repoch 1\t9 %\n\x1b[1;38;5;9mloss\x1b[m é 漢\x1b[38:2::1:2:3m\n"


def _shown(*parts: str) -> str:
    text = LogText()
    return "".join([*map(text.shown, parts), text.end()])


@pytest.mark.parametrize("text", STEERS)
def test_what_steers_a_terminal_is_not_shown_wherever_a_part_ends(text: str) -> None:
    for at in range(len(text) + 1):
        found = _shown(f"a{text[:at]}", f"{text[at:]}b")
        assert not set("\x1b\x07\x08\x9b\x9c\x9d\u202e") & set(found), ascii(found)
        assert (found[0], found[-1]) == ("a", "b")


def test_colours_lines_and_tabs_stay_wherever_a_part_ends() -> None:
    for at in range(len(KEPT) + 1):
        assert _shown(KEPT[:at], KEPT[at:]) == f"{KEPT}\x1b[0m"
    assert _shown(*KEPT) == f"{KEPT}\x1b[0m"


def test_a_colour_of_a_thousand_numbers_is_none() -> None:
    text = LogText()
    assert text.shown("\x1b[" + "1;" * 1000) == "?[" + "1;" * 1000
    assert _shown("\x1b[" + "1;" * 1000 + "m").startswith("?[1;")


def test_the_log_of_a_job_steers_nobodys_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    parts = [LogPart("\x1b[32mok\x1b[0m\n\x1b", 9, False, ""), LogPart("]0;theirs\x07", 20, True, "")]

    class Desk:
        async def log(self, job_id: str, start: int) -> LogPart:
            return parts.pop(0)

        async def job(self, job_id: str) -> Any:
            return type("View", (), {"phase": "waiting", "words": "waits\x1b[2J", "starts_at": None})()

    desk: Any = Desk()
    assert asyncio.run(job_commands._print_log(desk, "12", True)) == 0
    told = capsys.readouterr()
    assert told.out == "\x1b[32mok\x1b[0m\n?]0;theirs?\x1b[0m"
    assert "\x1b" not in told.err


def test_the_doctors_columns_steer_no_terminal() -> None:
    assert "\x1b" not in "".join(lines([Check("person\x1b[2J", "ok", "found\x1b[2J")]))
