"""Look for modules and at them, for a person in a session: the answers are kept for some minutes, and no loop waits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from portal.errors import KernelError
from portal.kernels import module_cache, module_output
from portal.kernels.delta import Environment
from portal.kernels.modules import clean, environment
from portal.modules import listing, names, session_system
from portal.modules.listing import SHOWN_MOST, ListedModule
from portal.modules.shown import ShownModule, parse_show

KEPT_S = 300.0
KEPT_MOST = 200  # of those that somebody looked at


@dataclass(frozen=True)
class FoundModules:
    """What a search found: the first ones, and how many there are in all."""

    modules: tuple[ListedModule, ...]
    total: int


class ModuleDesk:
    """The modules of the cluster, as one person's session finds them.

    Arguments:
        environ: her environment.
        clock: seconds, never going back.
    """

    def __init__(self, environ: Mapping[str, str], clock: Callable[[], float] = time.monotonic) -> None:
        found = session_system.of(environ)
        self._system = found.system
        self._environ = found.system.base({**found.variables, **clean(environ)})
        self._cache = module_cache.folder_of(dict(environ))
        self._clock = clock
        self._asking = asyncio.Lock()
        self._all: tuple[ListedModule, ...] = ()
        self._all_at = float("-inf")
        self._looked_at: dict[str, tuple[float, ShownModule]] = {}

    async def search(self, words: str = "") -> FoundModules:
        """The modules with all of these words in their name, or in what they say of themselves.

        Raises:
            KernelError: there is no module command, or it fails.
        """
        async with self._asking:  # who asks meanwhile gets the same answer
            if self._clock() - self._all_at > KEPT_S:
                self._all = await asyncio.to_thread(self._list)
                self._all_at = self._clock()
        found = listing.matching(self._all, words)
        return FoundModules(tuple(found[:SHOWN_MOST]), len(found))

    async def show(self, name: str) -> ShownModule:
        """What a module is, sets, needs and excludes.

        Raises:
            RequestError: that is no name, but a path.
            KernelError: there is no such module, in the module system's words.
        """
        name = names.of_tree(name)
        at, known = self._looked_at.get(name, (float("-inf"), ShownModule(name)))
        if self._clock() - at > KEPT_S:
            known = await asyncio.to_thread(self._show, name)
            self._looked_at[name] = (self._clock(), known)
            while len(self._looked_at) > KEPT_MOST:
                self._looked_at.pop(next(iter(self._looked_at)))
        return known

    def _list(self) -> tuple[ListedModule, ...]:
        """All modules; one that is broken keeps none of the others away."""
        command = self._system.find_command(self._environ)
        try:
            found = listing.parse_list(self._asked(command, listing.list_arguments(command), self._environ))
        except KernelError as error:
            found = listing.parse_list(error.detail)
            if not any(one.name.partition("/")[2] for one in found):  # words alone
                raise
        if listing.is_lmod(command):  # it has no short way to ask for all of them
            return found
        try:
            said = self._asked(command, ("whatis",), self._environ)
        except KernelError as error:
            said = error.detail
        return listing.with_summaries(found, listing.parse_whatis(said))

    def _show(self, name: str) -> ShownModule:
        command = self._system.find_command(self._environ)
        before = self._before(command, name)
        env = self._environ
        if before:
            env = environment(before, self._system, self._environ, self._cache)
        return replace(parse_show(name, self._asked(command, ("show", name), env)), before=before)

    def _before(self, command: str, name: str) -> tuple[str, ...]:
        """What has to be loaded so that a module of a hierarchy is there: Lmod knows."""
        if not listing.is_lmod(command):
            return ()
        ways = listing.parse_before(self._asked(command, ("-t", "spider", name), self._environ))
        return tuple(ways[0]) if ways else ()

    def _asked(self, command: str, arguments: tuple[str, ...], env: Environment) -> str:
        """What the module command says for people.

        Raises:
            KernelError: it fails, or there is no such module.
        """
        shown = f"module {' '.join(arguments)}"
        done = module_output.asked(command, arguments, env, shown)
        # Environment Modules exits 0 for a module that is missing, and says so in the last line of its output.
        if done.returncode or b"_mlstatus = False" in done.stdout:
            raise module_output.failed(done, shown)
        return done.stderr.decode(errors="replace")
