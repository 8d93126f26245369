"""The standing of people, kept for half a minute: whoever wants to know it shares one question with all others."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor

from portal.errors import PortalError
from portal.journal import SENDER
from portal.site import Standing

FRESH_S = 30.0  # nobody is asked about more often
GATHER_S = 0.05  # a hub that comes back hears of all its people within a moment
ANSWER_WITHIN_S = 2.0  # no page waits longer for a directory that is silent
THREADS = 5  # one for the question about many, the others for those who are just logging in
ARRIVALS_AT_ONCE = 2  # questions about those: who logs in meanwhile is in the next one
ARRIVALS_APART_S = 0.1  # those questions, while many log in: each is a connection with TLS of its own
Look = Callable[[Collection[str]], dict[str, Standing]]


class People:
    """What was heard of people, and when.

    A source that is silent changes nothing: what it said last of somebody goes on.

    Args:
        look: asks the source about some people; it blocks, and raises a ``PortalError`` when nothing is known.
        log: is told once that the source is silent, and once that it is back.
        clock: seconds, never going back.
    """

    def __init__(
        self,
        look: Look,
        log: logging.Logger = logging.getLogger(__name__),  # noqa: B008
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look = look
        self._log = log
        self._clock = clock
        self._known: dict[str, Standing] = {}
        self._asked_at: dict[str, float] = {}  # when the question began that was answered last, or was not
        self._wanted: set[str] = set()
        self._next: asyncio.Future[None] | None = None
        self._asking: dict[str, asyncio.Future[None]] = {}
        self._one_at_a_time = asyncio.Lock()
        self._arriving: set[str] = set()
        self._next_arrivals: asyncio.Future[dict[str, Standing]] | None = None
        self._few_at_once = asyncio.Semaphore(ARRIVALS_AT_ONCE)
        self._arrivals_after = clock()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="people")
        self.silent = ""  # the source's words while it does not answer
        self._silent_since = 0.0

    async def standings(self, names: Collection[str]) -> dict[str, Standing]:
        """What is known of these people; those of whom nothing is known are not in it. It waits for the source."""
        await self._ask(names, FRESH_S)
        return {name: self._known[name] for name in names if name in self._known}

    async def standing(self, name: str) -> Standing | None:
        """What is known of one person, for a page that cannot wait; ``None`` = nothing."""
        asked = asyncio.ensure_future(self._ask([name], FRESH_S))
        await asyncio.wait([asked], timeout=ANSWER_WITHIN_S)
        return self._known.get(name)

    async def standing_now(self, name: str) -> Standing | None:
        """What the source says of one person who is just logging in: nothing of before counts.

        For all others it does until then: who left, and logs in again and again, is known to have left.
        """
        self._arriving.add(name)
        asked = self._next_arrivals or asyncio.ensure_future(self._ask_about_arrivals())
        self._next_arrivals = asked
        await asyncio.wait([asked], timeout=ANSWER_WITHIN_S)
        return asked.result().get(name) if asked.done() else None

    async def _ask_about_arrivals(self) -> dict[str, Standing]:
        """At once, not after the question about all others; when many log in, about many of them together."""
        SENDER.set(None)  # it is for many
        async with self._few_at_once:
            await asyncio.sleep(max(self._arrivals_after - self._clock(), 0))
            self._arrivals_after = self._clock() + ARRIVALS_APART_S
            names = self._arriving
            self._arriving = set()
            self._next_arrivals = None
            return await self._question(names)

    def forget(self, name: str) -> None:
        """Nothing of before counts for somebody who has just logged in."""
        self._known.pop(name, None)
        self._asked_at.pop(name, None)

    async def _ask(self, names: Collection[str], max_age_s: float) -> None:
        """Have the source asked about those of whom it was not asked lately."""
        since = self._clock() - max_age_s
        old = {name for name in names if self._asked_at.get(name, since) <= since} - self._asking.keys()
        if old:
            self._wanted |= old
            if self._next is None:
                self._next = asyncio.ensure_future(self._ask_source())
            self._asking |= dict.fromkeys(old, self._next)
        if asked := {self._asking[name] for name in names if name in self._asking}:
            await asyncio.wait(asked)

    async def _ask_source(self) -> None:
        """One question at a time; who wants to know meanwhile is in the next one."""
        SENDER.set(None)  # it is for many
        async with self._one_at_a_time:
            await asyncio.sleep(GATHER_S)
            names = self._wanted
            self._wanted = set()
            self._next = None
            await self._question(names)
            for name in names:
                self._asking.pop(name, None)

    async def _question(self, names: Collection[str]) -> dict[str, Standing]:
        """Ask, and keep what is said of those of whom nothing newer is known; answers all that is said."""
        began = self._clock()
        found: dict[str, Standing] = {}
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._threads, self._look, names)
        except PortalError as error:
            self._is_silent(error.detail, began)
        except Exception as error:  # whatever it is, it is no word about anybody
            self._log.exception("The question who may use the portal failed")
            self._is_silent(str(error) or type(error).__name__, began)
        else:
            self._is_back()
        for name in names:
            if began >= self._asked_at.get(name, began):
                self._asked_at[name] = began
                self._known |= {name: found[name]} if name in found else {}
        return found

    @property
    def silent_s(self) -> float:
        """How long the source has not answered, in seconds, since the first question that it left; 0 while it does."""
        return max(self._clock() - self._silent_since, 0.001) if self.silent else 0.0

    def _is_silent(self, why: str, since: float) -> None:
        if not self.silent:  # the next reason is often another one: a server that refused is a server that is silent
            self._log.warning("Nobody says who may use the portal; everybody stays who was there. %s", why)
            self._silent_since = since
        self.silent = why

    def _is_back(self) -> None:
        if self.silent:
            self._log.warning("It is known again who may use the portal")
        self.silent = ""
