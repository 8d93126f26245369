"""``portal kernels explain NAME``: what a kernel of the site is made of, how it starts, and whether it would now."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence

from portal.catalogue import specs
from portal.catalogue.built import kernelspec_files, launch
from portal.catalogue.loaded import session_environ, system_of, with_modules
from portal.catalogue.versions import KernelEntry, resolved
from portal.errors import KernelError
from portal.kernels.containers import is_address
from portal.kernels.delta import Change, difference
from portal.site import Site
from portal.trials import record

# The module system's own notes.
OF_MODULES = ("LOADEDMODULES", "_LMFILES_", "__MODULES_", "_ModuleTable", "LMOD_", "__LMOD_")
LONGEST = 160
NOT_TRIED = "not tried: its image has an address, and nobody fetches it but who starts the kernel"


def main(site: Site, name: str) -> int:
    """Print it; 1 when the kernel would not start.

    Raises:
        KernelError: the site has no such kernel, or the versions of its pattern cannot be asked for.
    """
    entry = find(site, name)
    fault = fault_of(entry, site)
    tell(told(entry, site), f"cannot start: {fault}" if fault else untried(entry) or "it answers")
    return int(bool(fault))


def tell(said: Iterable[tuple[str, str]], now: str) -> None:
    """Print what there is to say of a kernel or a tool, and how it is now."""
    for word, text in (*said, ("now", now)):
        print(f"{word:<12} {text}")


def find(site: Site, name: str) -> KernelEntry:
    """A kernel by its name, that of a version too.

    Raises:
        KernelError: there is none; the message names those that there are.
    """
    known: list[str] = []
    for kernel in site.kernel:
        if name != kernel.name and not (kernel.pattern and name.startswith(f"{kernel.name}-")):
            known.append(kernel.name)
            continue
        entries = resolved(kernel, site)
        known += [entry.kernel.name for entry in entries]
        if found := next((entry for entry in entries if entry.kernel.name == name), None):
            return found
    raise KernelError(f"There is no kernel {name}; there are {', '.join(sorted(known)) or 'none'}.")


def told(entry: KernelEntry, site: Site) -> Iterator[tuple[str, str]]:
    """What there is to say of it, word by word; no program of it is run."""
    kernel = entry.kernel
    table = next(one for one in site.kernel if one.name == entry.table)
    start = launch(kernel, site)
    yield "name", kernel.name
    yield "title", kernel.title
    yield "who sees it", who_sees(kernel.groups)
    yield "modules", " ".join(kernel.modules) or "none"
    if table.pattern:
        yield "pattern", f"{table.pattern} of [[kernel]] {table.name}"
    if kernel.environment:
        yield "environment", kernel.environment
    if kernel.container:
        yield "container", " ".join([kernel.container, *(f"(sees {one})" for one in kernel.binds)])
    yield "starts", shlex.join(start.command)
    yield "kernelspec", _written(entry, site)
    yield from (("tested", line) for line in _tested(entry, site))
    yield from (("sets", line) for line in set_by_modules(kernel.modules, site))


def who_sees(groups: Sequence[str]) -> str:
    """Whom a kernel or a tool is for, in words."""
    return f"members of {', '.join(groups)}" if groups else "everybody"


def fault_of(entry: KernelEntry, site: Site) -> str:
    """Why it would not start here; "" when its interpreter answers."""
    try:
        kernelspec_files(entry.kernel, site)
    except KernelError as error:
        return error.message
    return ""


def untried(entry: KernelEntry) -> str:
    """Why it was not asked, though nothing is wrong with it; "" where it answered."""
    return NOT_TRIED if is_address(entry.kernel.container) else ""


def shown(name: str, change: Change) -> str:
    """What becomes of a variable, in one line."""
    if change is None:
        text = f"{name} is taken away"
    elif isinstance(change, str):
        text = f"{name}={change}"
    else:
        before, after = change
        text = ", ".join(
            [*([f"{name} begins with {before}"] if before else []), *([f"{name} ends with {after}"] if after else [])]
        )
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _written(entry: KernelEntry, site: Site) -> str:
    target = specs.target_of(entry, site)
    return str(target) if target in specs.ours(site) else f"{target}, not written: run portal kernels sync"


def _tested(entry: KernelEntry, site: Site) -> Iterator[str]:
    """What `portal kernels test` found last."""
    target = specs.target_of(entry, site)
    found = record.read(target.parents[1]).get(target.name)
    if found is None:
        yield "not since it was written: portal kernels test --partition NAME --user PERSON"
        return
    yield f"{found.day}" + (f" in a job of {found.partition}" if found.partition else "")
    yield from found.lines()


def set_by_modules(modules: tuple[str, ...], site: Site, own: Mapping[str, str] | None = None) -> Iterator[str]:
    """What modules change in the environment of a session, a line for each; none where they cannot be loaded."""
    before = system_of(site).base(session_environ(site) | dict(own or {}))
    try:
        changes = difference(before, with_modules(modules, site, own))
    except KernelError:
        return
    yield from (shown(name, changes[name]) for name in sorted(changes) if not name.startswith(OF_MODULES))
