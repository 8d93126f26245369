"""``portal kernels test --partition NAME --user PERSON``: root, who starts no kernel, keeps what a person's job found.

The same command runs as that person (:mod:`portal.gpus.as_person`), submits the job, reads its words, and prints them
as JSON. Who called it reads that through a pipe, takes of it what has the form of a test, and writes the record
(:mod:`portal.trials.record`) beside the kernelspecs. Of a person's files nothing is opened.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from portal.catalogue import specs
from portal.errors import KernelError
from portal.gpus import as_person
from portal.gpus.comparison import told
from portal.site import Site
from portal.trials import record
from portal.trials.told import trials_of
from portal.trials.trial import Trial


def may_keep(site: Site) -> bool:
    """Whether who asks may write the record."""
    return os.access(site.kernels.folder, os.W_OK)


def main(site: Site, settings: str, partition: str, gpus: int, names: Sequence[str], user: str) -> int:
    """Test the kernels that are written, in a job; print and keep what was found. 1 when one fails.

    Arguments:
        settings: the path of the settings file, which the person reads too.
        user: whom the job runs as; "" is who asks, and root may not.

    Raises:
        KernelError: there is no such kernel or person, or the record cannot be written.
    """
    targets = {target.name: target for target in specs.ours(site)}
    wanted = list(names) or sorted(targets)
    if unknown := [name for name in wanted if name not in targets]:
        raise KernelError(f"{', '.join(unknown)} is not written; written are {', '.join(sorted(targets)) or 'none'}.")
    if not wanted:
        raise KernelError("No kernel is written yet: portal kernels sync.")
    before = {name: record.fingerprint(targets[name]) for name in wanted}
    argv = [
        str(Path(sys.prefix, "bin", "portal")),
        "kernels",
        "test",
        "--json",
        "--site",
        str(Path(settings).absolute()),
    ]
    said = as_person.said([*argv, "--partition", partition, f"--gpus={gpus}", "--", *wanted], user)
    found = {name: trial for name, trial in trials_of(said, "kernel", partition) if name in before}
    for name in wanted:
        print(*(told(name, found[name]) if name in found else [f"{name}: the job said nothing of it"]), sep="\n")
    _keep(found, targets, before)
    return int(len(found) < len(wanted) or any(trial.is_fault for trial in found.values()))


def _keep(found: Mapping[str, Trial], targets: Mapping[str, Path], before: Mapping[str, str]) -> None:
    """Write the record of each folder of kernelspecs: everybody's, and those of groups."""
    for folder in {targets[name].parents[1] for name in found}:
        try:
            record.keep(
                folder, {name: one for name, one in found.items() if targets[name].parents[1] == folder}, before
            )
        except OSError as error:
            raise KernelError(f"The tests are not kept: {folder} cannot be written ({error.strerror}).") from error
