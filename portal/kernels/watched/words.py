"""Why a kernel ended at its start, in one line out of what it said itself. Pure.

Checked with the words of Python 3.11, R 4.2 and Charliecloud 0.31; with Apptainer's by its manual alone.
"""

from __future__ import annotations

import re
import signal

LONGEST = 300
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_FAULT = re.compile(r"error|exception|fatal|fehler|no module named|not found|no such|cannot|can't", re.IGNORECASE)
_SAYS_NOTHING = re.compile(r"(?:Execution halted|Ausführung angehalten|Calls: |Aufrufe: )")  # below an error of R's


def reason(said: str, status: int) -> str:
    """The line of ``said`` that names the fault, printable and bounded; without any how the process ended.

    Arguments:
        said: the end of its stderr.
        status: its exit status, or the negative number of the signal that ended it.
    """
    lines = [line.rstrip() for line in _COLOURS.sub("", said).splitlines() if line.strip()]
    lines = [line for line in lines if not _SAYS_NOTHING.match(line)]
    if not lines:
        return f"its program ended at once, {how(status)}, and said nothing"
    faults = [number for number, line in enumerate(lines) if not line[0].isspace() and _FAULT.search(line)]
    at = faults[-1] if faults else len(lines) - 1
    line = lines[at]
    if line.endswith(":") and at + 1 < len(lines):  # R breaks a long message behind its call
        line = f"{line} {lines[at + 1].strip()}"
    line = "".join(letter if letter.isprintable() else " " for letter in line).strip()
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def how(status: int) -> str:
    """How a process ended."""
    if status >= 0:
        return f"with exit status {status}"
    try:
        return f"by {signal.Signals(-status).name}"
    except ValueError:
        return f"by signal {-status}"
