"""What the Lab asks of the hub: more time, announcements, quotas. JSON of the session's server, which asks the hub."""

from __future__ import annotations

import json
from typing import Any

from tornado.web import authenticated

from portal.language.texts import chosen, speak
from portal.session_hub.calls import HubCalls
from portal.session_hub.news import News
from portal.session_pages.calls import SessionCall
from portal.session_usage.end_time import EndTime

EXTEND = "extend"


class SessionNewsHandler(SessionCall):
    """``GET dsportal/api/news``: the site's announcement, and how full the folders are."""

    def initialize(self, news: News) -> None:
        """An open page asks again and again: that is no activity of the person."""
        self.news = news
        self._track_activity = False

    @authenticated
    async def get(self) -> None:
        """What the hub said last."""
        self.finish(json.dumps(await self.news.latest()))


class SessionExtendHandler(SessionCall):
    """``dsportal/api/extend``: what the hub says of more time for this very session (spawners/ends/extended.py)."""

    def initialize(self, hub: HubCalls, end: EndTime) -> None:
        """Take the way to the hub, and what is known of the session's end."""
        self.hub = hub
        self.end = end

    def _speak(self) -> None:
        """What the hub refuses, it says in the language of the page that asks."""
        speak(chosen(self.request.headers.get("Accept-Language", "")))

    @authenticated
    async def get(self) -> None:
        """What may be given; a look is no activity of the person."""
        self._track_activity = False
        self._speak()
        self._hand_on(*await self.hub.ask("GET", EXTEND))

    @authenticated
    async def post(self) -> None:
        """Give it; the pages of the session know the new end at once."""
        self._speak()
        status, told = await self.hub.ask("POST", EXTEND, self.get_json_body())
        if status == 200:
            self.end.hear(str(told.get("ends_at", "")))
        self._hand_on(status, told)

    def _hand_on(self, status: int, told: dict[str, Any]) -> None:
        self.set_status(status)
        self.finish(json.dumps(told))
