"""``portal tools list`` and ``explain``: what a web tool of the site is made of, who sees it, whether it can start."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from portal.catalogue.explained import set_by_modules, tell, who_sees
from portal.catalogue.loaded import with_modules
from portal.errors import KernelError
from portal.kernels.run_kernel import program
from portal.settings.kernel_tables import ToolTable
from portal.site import Site
from portal.trials.trial import Trial
from portal.webtools import kept

NOTHING = "The site has no [[tool]]: docs/howto/web-tools.md has recipes."


def main_list(site: Site) -> int:
    """``portal tools list``: one line for each tool; 1 when one cannot be started here."""
    faults = {tool.name: fault_of(tool, site) for tool in site.tool}
    trials = kept.read(site)
    for tool in site.tool:
        who = f" for {', '.join(tool.groups)}" if tool.groups else ""
        fault = faults[tool.name]
        state = f"cannot start: {fault}" if fault else f"its program is there, {last_test(trials.get(tool.name))}"
        print(f"{tool.name}: {tool.title} [{' '.join(tool.modules) or 'no modules'}]{who} {state}")
    if not site.tool:
        print(NOTHING)
    return int(any(faults.values()))


def main_explain(site: Site, name: str) -> int:
    """``portal tools explain NAME``: all that there is to say of one; 1 when it cannot be started here.

    Raises:
        KernelError: the site has no such tool.
    """
    tool = find(site, name)
    fault = fault_of(tool, site)
    can = f"it can be started; whether it answers: portal tools test {name} --partition NAME"
    tell(told(tool, site), f"cannot start: {fault}" if fault else can)
    return int(bool(fault))


def find(site: Site, name: str) -> ToolTable:
    """A tool by its name.

    Raises:
        KernelError: there is none; the message names those that there are.
    """
    if found := next((tool for tool in site.tool if tool.name == name), None):
        return found
    known = ", ".join(tool.name for tool in site.tool)
    raise KernelError(f"There is no web tool {name}; there are {known or 'none'}.")


def told(tool: ToolTable, site: Site) -> Iterator[tuple[str, str]]:
    """What there is to say of it, word by word; no program of it is run."""
    yield "name", tool.name
    yield "title", tool.title
    yield "who sees it", who_sees(tool.groups)
    yield "modules", " ".join(tool.modules) or "none"
    yield "starts", shlex.join(tool.command)
    try:
        yield "program", program_of(tool, site)
    except KernelError:
        yield "program", "not found"
    yield "listens", "on the Unix socket {socket}, in a folder of the session that nobody else may enter"
    seen = "the whole path of a request" if tool.whole_path else "the path behind {base}"
    yield "address", f"{{base}} is /user/NAME/tools/{tool.name} in a session; it sees {seen}"
    yield "ready", f"when {tool.ready} answers with a status below 500"
    yield from (("environment", f"{name}={value}") for name, value in sorted(tool.environment.items()))
    yield "tested", last_test(kept.read(site).get(tool.name))
    yield from (("sets", line) for line in set_by_modules(tool.modules, site, tool.environment))


def last_test(found: Trial | None) -> str:
    """What the last test found, in one line."""
    return found.summary() if found else "not tested as it is now"


def program_of(tool: ToolTable, site: Site) -> str:
    """The whole path of its program, with its modules loaded as in a session.

    Raises:
        KernelError: they cannot be loaded, or do not bring it.
    """
    return program(tool.command[0], with_modules(tool.modules, site, tool.environment))


def fault_of(tool: ToolTable, site: Site) -> str:
    """Why it could not be started here; "" when its modules are loaded and its program is there."""
    try:
        program_of(tool, site)
    except KernelError as error:
        return error.message
    return ""
