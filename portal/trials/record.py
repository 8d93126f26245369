"""The record of the last test of each kernel: one file beside the kernelspecs, which whoever owns them writes.

It lies where Jupyter finds the kernelspecs (``kernels.folder`` and its folders of groups), so a session reads it where
the hub said that its kernels are, and nothing in a home is asked. A kernel whose kernelspec is another one since was
not tested: each entry holds the hash of the file that it is about.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from portal.errors import KernelError
from portal.homes.regular_file import open_regular
from portal.trials.trial import Trial, from_json

FILE = "tested.json"
LARGEST = 1024 * 1024


def read(folder: Path) -> dict[str, Trial]:
    """The last test of each kernel in a folder of ``JUPYTER_PATH``, by its name; none of those that changed since.

    What cannot be read, or is no such record, counts as no test.
    """
    found: dict[str, Trial] = {}
    for name, entry in _entries(folder).items():
        try:
            if entry["kernelspec"] == fingerprint(folder / "kernels" / name):
                found[name] = from_json(entry["trial"])
        except (LookupError, TypeError, KernelError):
            continue
    return found


def keep(folder: Path, trials: Mapping[str, Trial], fingerprints: Mapping[str, str]) -> None:
    """Put new tests into the record of a folder; the old ones of the other kernels that are there still stay.

    Arguments:
        fingerprints: of the kernelspecs as they were when the tests began.

    Raises:
        OSError: the folder cannot be written.
    """
    kept = {name: entry for name, entry in _entries(folder).items() if fingerprint(folder / "kernels" / name)}
    new = {name: {"kernelspec": fingerprints[name], "trial": trial.to_json()} for name, trial in trials.items()}
    text = json.dumps({"kernels": dict(sorted((kept | new).items()))}, indent=1, ensure_ascii=False) + "\n"
    handle, unfinished = tempfile.mkstemp(prefix=f".{FILE}-", dir=folder)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            os.fchmod(handle, 0o644)  # whatever the umask: every session reads it
        Path(unfinished).replace(folder / FILE)
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise


def fingerprint(kernelspec: Path) -> str:
    """The hash of a kernelspec's ``kernel.json``; "" where it cannot be read."""
    try:
        with open_regular(kernelspec / "kernel.json") as file:
            return hashlib.sha256(file.read(LARGEST)).hexdigest()
    except OSError:
        return ""


def _entries(folder: Path) -> dict[str, Any]:
    try:
        with open_regular(folder / FILE) as file:
            entries = json.loads(file.read(LARGEST))["kernels"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return {}
    names = entries if isinstance(entries, dict) else {}
    return {name: entry for name, entry in names.items() if name and "/" not in name and not name.startswith(".")}
