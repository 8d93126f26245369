"""The file of a record of tests: JSON that whoever owns the folder writes, and that every session reads."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from portal.homes.regular_file import open_regular

LARGEST = 1024 * 1024


def entries(file: Path, kinds: str) -> dict[str, Any]:
    """What a record holds, by name; nothing where it cannot be read, or is none.

    Arguments:
        kinds: what it is about, ``kernels`` or ``tools``.
    """
    try:
        with open_regular(file) as opened:
            found = json.loads(opened.read(LARGEST))[kinds]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return {}
    names = found if isinstance(found, dict) else {}
    return {name: entry for name, entry in names.items() if name and "/" not in name and not name.startswith(".")}


def write(file: Path, kinds: str, found: Mapping[str, Any]) -> None:
    """Write it in one step, whoever reads meanwhile.

    Raises:
        OSError: the folder cannot be written.
    """
    text = json.dumps({kinds: dict(sorted(found.items()))}, indent=1, ensure_ascii=False) + "\n"
    handle, unfinished = tempfile.mkstemp(prefix=f".{file.name}-", dir=file.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as opened:
            opened.write(text)
            os.fchmod(handle, 0o644)  # whatever the umask: every session reads it
        Path(unfinished).replace(file)
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise
