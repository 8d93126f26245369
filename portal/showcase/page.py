"""``/hub/templates``: the templates as cards, and a link of each that starts a session and opens it.

The link fills in the form of the instance options; the person checks it and presses Start, and what stands behind the
form decides. It is a page without a script.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from urllib.parse import quote, urlencode, urlsplit

from jupyterhub.handlers import BaseHandler
from jupyterhub.utils import url_path_join
from tornado import web

from portal.language.texts import N_, _
from portal.showcase.cards import Card, frameworks, levels, matching

ROUTE = r"/templates"
FRESH_S = 60.0
WAITS_S = 5.0
LONGEST = 200  # characters of what is looked for
SILENT = N_("The folder of the templates does not answer now. Sessions start as ever, from My Server.")

Cards = tuple[Card, ...]
log = logging.getLogger(__name__)


class Showcase:
    """What the folders have: read in a thread, at most once a minute, and by one thread at a time.

    Arguments:
        read: reads the folders; it may take as long as a file server does.
        fresh_s: how long what was read counts.
        waits_s: how long a page waits for it; then what was read before is shown.
    """

    def __init__(self, read: Callable[[], Cards], fresh_s: float = FRESH_S, waits_s: float = WAITS_S) -> None:
        self._read = read
        self._fresh_s = fresh_s
        self._waits_s = waits_s
        self._cards: Cards | None = None
        self._read_at = 0.0
        self._reading: asyncio.Task[Cards] | None = None
        self._told = ""  # what the log was told last, so that each look does not tell it again

    async def cards(self) -> Cards | None:
        """The cards; None where the folders do not answer and nothing was read before."""
        if self._cards is not None and time.monotonic() - self._read_at < self._fresh_s:
            return self._cards
        if self._reading is None:
            self._reading = asyncio.create_task(asyncio.to_thread(self._read))
        await asyncio.wait([self._reading], timeout=self._waits_s)
        if self._reading and self._reading.done():
            done = self._reading
            self._reading = None
            self._take(done)
        elif self._reading:
            self._tell(f"they do not answer within {self._waits_s:g} s")
        return self._cards

    def _take(self, done: asyncio.Task[Cards]) -> None:
        """Keep what was read, or say why there is nothing."""
        if error := done.exception():
            self._tell(f"{type(error).__name__}: {error}")
            return
        self._cards = done.result()
        self._read_at = time.monotonic()
        self._told = ""

    def _tell(self, words: str) -> None:
        if words != self._told:
            shown = "The page has no templates" if self._cards is None else "What was read before is shown"
            log.warning("The folders of templates cannot be read: %s. %s", words, shown)
        self._told = words


class TemplatesHandler(BaseHandler):  # type: ignore[misc]
    """The page; ``q`` and ``framework`` say what of it is shown."""

    def initialize(self, showcase: Showcase, has_options: bool) -> None:
        """Take what the folders have, and whether a start asks for GPUs."""
        self._showcase = showcase
        self._has_options = has_options

    @web.authenticated
    async def get(self) -> None:
        """Show the cards."""
        cards = await self._showcase.cards()
        if cards is None:
            self.set_status(503)
        words = self.get_query_argument("q", "")[:LONGEST]
        chosen = self.get_query_argument("framework", "")
        known = frameworks(cards or ())
        framework = chosen if chosen in known else ""
        found = matching(cards or (), words, framework)
        links = {card.name: self._link(card) for card in found}
        is_running = self._running is not None
        shown = {
            "levels": levels(found),
            "links": links,
            "words": words,
            "frameworks": known,
            "framework": framework,
            "in_all": len(cards or ()),
        }
        silent = _(SILENT) if cards is None else ""
        self.finish(await self.render_template("templates.html", is_running=is_running, silent=silent, **shown))

    @property
    def _running(self) -> str | None:
        """The name of a session that runs, of several the one without a name; None where none does."""
        return min((name for name, one in self.current_user.spawners.items() if one.ready), default=None)

    def _link(self, card: Card) -> str:
        """Where a card leads: into the session that runs, or to the form with what the template makes use of."""
        running = self._running
        place = url_path_join(self.current_user.server_url(running or ""), "lab", "tree", quote(card.place))
        if running is not None:
            return str(place)
        place = urlsplit(place).path  # the hub leads to the person's own address by itself
        options = {"opt-gpus": card.gpus} if self._has_options else {}
        return f"{url_path_join(self.hub.base_url, 'spawn')}?{urlencode({**options, 'next': place})}"
