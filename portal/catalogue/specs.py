"""Kernelspecs from the site's settings: each ``[[kernel]]`` becomes a folder that every Jupyter client reads.

A kernel is written only after its modules were really loaded and its interpreter answered. Kernelspecs that
somebody else put into the folder are never touched: ours carry a mark in their metadata.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from portal.catalogue.built import MARK, kernelspec_files
from portal.catalogue.versions import KernelEntry, resolved
from portal.errors import KernelError
from portal.homes.own_folder import make_own
from portal.kernels.containers import is_address
from portal.settings.kernel_tables import KernelTable
from portal.site import Site
from portal.trials import record


@dataclass(frozen=True)
class Synced:
    """What became of one kernel; ``reason`` says why it is faulty, or what is to be known of it."""

    name: str
    state: Literal["written", "unchanged", "removed", "faulty"]
    reason: str = ""

    def __str__(self) -> str:
        text = f"{self.name}: {self.state}"
        return f"{text} ({self.reason})" if self.reason else text


def sync(site: Site) -> list[Synced]:
    """Write the kernelspecs of ``site`` and remove those of kernels it no longer has.

    A faulty kernel keeps the kernelspec of its last good sync: the fault may pass before a person starts it. So do the
    versions of a pattern that cannot be asked for.
    """
    results: list[Synced] = []
    kept: set[Path] = set()
    there = ours(site)
    for kernel in site.kernel:
        try:
            entries = _free(resolved(kernel, site), site)
        except KernelError as error:
            results.append(Synced(kernel.name, "faulty", error.message))
            kept |= {folder for folder, spec in there.items() if kernel.name in (folder.name, _table(spec))}
            continue
        for entry in entries:
            target = target_of(entry, site)
            kept.add(target)
            results.append(_sync_one(entry, site, target))
    return [*results, *(_remove(folder) for folder in sorted(set(there) - kept))]


def _free(entries: tuple[KernelEntry, ...], site: Site) -> tuple[KernelEntry, ...]:
    """The versions of a pattern, none of which has the name of another kernel of the site."""
    taken = {kernel.name for kernel in site.kernel} - {entries[0].table}
    if twice := [entry.kernel.name for entry in entries if entry.kernel.name in taken]:
        raise KernelError(f"Its version would be the kernel {twice[0]}, which stands in the settings too: rename one.")
    return entries


def target_of(entry: KernelEntry, site: Site) -> Path:
    """The folder that a kernel's kernelspec is."""
    return Path(site.kernels.folder, entry.shelf, "kernels", entry.kernel.name)


def main_sync(site: Site) -> int:
    """``portal kernels sync``: one line for each kernel; exit status 1 when one is faulty."""
    try:
        results = sync(site)
    except OSError as error:
        print(f"{error.filename}: cannot be written ({error.strerror}); run this as the owner of kernels.folder")
        return 1
    for result in results:
        print(result)
    if not results:
        print("The site has no [[kernel]]: nothing to write.")
    return int(any(result.state == "faulty" for result in results))


def main_list(site: Site) -> int:
    """``portal kernels list``: one line for each kernel of the site; exit status 1 when one is not written."""
    is_missing = False
    for kernel in site.kernel:
        found = of_table(kernel, site)
        is_missing |= not found
        for folder, spec in found.items() or {None: None}.items():
            print(_line(kernel, folder, spec))
    return int(is_missing)


def _line(kernel: KernelTable, folder: Path | None, spec: dict[str, Any] | None) -> str:
    mark = spec["metadata"][MARK] if spec else {"modules": kernel.modules}
    out_of = mark.get("container") or mark.get("environment") or " ".join(mark["modules"]) or "no modules"
    who = f" for {', '.join(kernel.groups)}" if kernel.groups else ""
    state = f"ready, {last_test(folder)}" if spec and folder else "not written; run: portal kernels sync"
    title = spec["display_name"] if spec else kernel.title
    return f"{folder.name if folder else kernel.name}: {title} [{out_of}]{who} {state}"


def last_test(folder: Path) -> str:
    """What the last test of a kernelspec found, in one line."""
    found = record.read(folder.parents[1]).get(folder.name)
    return found.summary() if found else "not tested since it was written"


def ours(site: Site) -> dict[Path, dict[str, Any]]:
    """The kernelspecs that :func:`sync` made, by their folders."""
    return {file.parent: spec for file in _files(site) if (spec := _marked(file))}


def of_table(kernel: KernelTable, site: Site) -> dict[Path, dict[str, Any]]:
    """Those of one ``[[kernel]]``: itself, or the versions of its pattern."""
    shelf = Path(site.kernels.folder, kernel.shelf, "kernels")
    found = {folder: spec for folder, spec in ours(site).items() if folder.parent == shelf}
    return {folder: spec for folder, spec in found.items() if kernel.name in (folder.name, _table(spec))}


def _files(site: Site) -> Iterator[Path]:
    yield from Path(site.kernels.folder, "kernels").glob("*/kernel.json")
    yield from Path(site.kernels.folder, "for").glob("*/kernels/*/kernel.json")


def _table(spec: dict[str, Any]) -> str:
    return str(spec["metadata"][MARK].get("table", ""))


def _marked(file: Path) -> dict[str, Any] | None:
    try:
        spec = json.loads(file.read_text(encoding="utf-8"))
        return spec if MARK in spec["metadata"] else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _sync_one(entry: KernelEntry, site: Site, target: Path) -> Synced:
    name = entry.kernel.name
    if target.exists() and not _marked(target / "kernel.json"):
        return Synced(name, "faulty", f"{target} was not made by the portal and stays as it is")
    try:
        files = kernelspec_files(entry.kernel, site, entry.table if name != entry.table else "")
    except KernelError as error:
        return Synced(name, "faulty", error.message)
    if _holds(target, files):
        return Synced(name, "unchanged", fetched(entry.kernel.container))
    put_in_place(target, files)
    return Synced(name, "written", fetched(entry.kernel.container))


def fetched(image: str) -> str:
    """What an image with an address means for people; "" for any other one."""
    if not is_address(image):
        return ""
    once = f"fetch it once, apptainer pull FILE {image}, and name the file as its container"
    return f"each person's first start fetches its image, which takes minutes: {once}"


def _holds(target: Path, files: dict[str, bytes]) -> bool:
    try:
        return all((target / name).read_bytes() == content for name, content in files.items())
    except OSError:
        return False


def put_in_place(target: Path, files: dict[str, bytes]) -> None:
    """Put a whole folder in place: a Jupyter client sees the old kernelspec or the new one."""
    make_own(target.parent, 0o755)
    with tempfile.TemporaryDirectory(prefix=".sync-", dir=target.parent) as unfinished:
        new = Path(unfinished, "new")
        old = Path(unfinished, "old")
        new.mkdir()
        new.chmod(0o755)  # whatever the umask: everybody reads kernelspecs
        for name, content in files.items():
            (new / name).write_bytes(content)
            (new / name).chmod(0o644)
        if target.exists():
            target.rename(old)
        new.rename(target)


def _remove(target: Path) -> Synced:
    shutil.rmtree(target)
    return Synced(target.name, "removed")
