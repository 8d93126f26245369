"""The record of the last test of each kernel: one file beside the kernelspecs, which whoever owns them writes.

It lies where Jupyter finds the kernelspecs (``kernels.folder`` and its folders of groups), so a session reads it where
the hub said that its kernels are, and nothing in a home is asked. A kernel whose kernelspec is another one since was
not tested: each entry holds the hash of the file that it is about.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from portal.errors import KernelError
from portal.homes.regular_file import open_regular
from portal.trials import kept_file
from portal.trials.kept_file import LARGEST
from portal.trials.trial import Trial, from_json

FILE = "tested.json"


def read(folder: Path) -> dict[str, Trial]:
    """The last test of each kernel in a folder of ``JUPYTER_PATH``, by its name; none of those that changed since.

    What cannot be read, or is no such record, counts as no test.
    """
    found: dict[str, Trial] = {}
    for name, entry in kept_file.entries(folder / FILE, "kernels").items():
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
    old = kept_file.entries(folder / FILE, "kernels")
    kept = {name: entry for name, entry in old.items() if fingerprint(folder / "kernels" / name)}
    new = {name: {"kernelspec": fingerprints[name], "trial": trial.to_json()} for name, trial in trials.items()}
    kept_file.write(folder / FILE, "kernels", kept | new)


def fingerprint(kernelspec: Path) -> str:
    """The hash of a kernelspec's ``kernel.json``; "" where it cannot be read."""
    try:
        with open_regular(kernelspec / "kernel.json") as file:
            return hashlib.sha256(file.read(LARGEST)).hexdigest()
    except OSError:
        return ""
