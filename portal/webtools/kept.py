"""The record of the last test of each web tool, beside the kernelspecs: what `portal tools test --partition` found.

As with kernels, a person's job finds, and whoever may write ``kernels.folder`` keeps. A tool whose entry in the
settings is another one since was not tested: each entry of the record holds the hash of the one that it is about.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from portal.errors import KernelError
from portal.settings.kernel_tables import ToolTable
from portal.site import Site
from portal.trials import kept_file
from portal.trials.told import line_of, trials_of
from portal.trials.trial import Trial, from_json

FILE = "tested-tools.json"
STARTED = {"modules", "command", "environment", "ready", "whole_path"}  # what a test is about


def may_keep(site: Site) -> bool:
    """Whether who asks may write the record."""
    return os.access(site.kernels.folder, os.W_OK)


def read(site: Site) -> dict[str, Trial]:
    """The last test of each tool of the settings, by its name; none of those that changed since."""
    found: dict[str, Trial] = {}
    kept = kept_file.entries(_file(site), "tools")
    for tool in site.tool:
        try:
            if kept[tool.name]["entry"] == fingerprint(tool):
                found[tool.name] = from_json(kept[tool.name]["trial"])
        except (LookupError, TypeError, KernelError):
            continue
    return found


def keep(site: Site, said: str, partition: str, names: Sequence[str], *, as_json: bool = False) -> int:
    """Take what a job said of these tools into the record, and print it with its other lines; 1 for a fault.

    Raises:
        KernelError: the record cannot be written.
    """
    found = {name: trial for name, trial in trials_of(said, "tool", partition) if name in names}
    for name in names:
        if name not in found:
            print(f"{name}: the job said nothing of it", file=sys.stderr if as_json else sys.stdout)
        else:
            print(line_of("tool", name, found[name]) if as_json else f"{name}: {found[name].summary()}")
    try:
        _put(site, found)
    except OSError as error:
        raise KernelError(
            f"The tests are not kept: {site.kernels.folder} cannot be written ({error.strerror})."
        ) from error
    return int(len(found) < len(names) or any(trial.is_fault for trial in found.values()))


def _put(site: Site, found: Mapping[str, Trial]) -> None:
    tools = {tool.name: tool for tool in site.tool}
    old = {name: entry for name, entry in kept_file.entries(_file(site), "tools").items() if name in tools}
    new = {name: {"entry": fingerprint(tools[name]), "trial": trial.to_json()} for name, trial in found.items()}
    kept_file.write(_file(site), "tools", old | new)


def fingerprint(tool: ToolTable) -> str:
    """The hash of what is started, and of what is asked; a new title or icon is no other tool."""
    text = json.dumps(tool.model_dump(mode="json", include=STARTED), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _file(site: Site) -> Path:
    return Path(site.kernels.folder, FILE)
