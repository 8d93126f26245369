"""Pages and web sockets of programs that a session runs, each on a Unix socket of its own, for the person alone."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from portal.forwarding.origins import is_from_elsewhere
from portal.forwarding.private_proxy import PrivateProxy

GOING_AWAY = 1001  # RFC 6455 §7.4.1


class SocketPages(PrivateProxy):
    """``…/NAME/…``: what a program answers; its kinds say where it listens, and what else to show."""

    not_there = "It does not run."

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # An open page asks again and again: that does not keep a session alive.
        super().__init__(*args, update_last_activity=False, **kwargs)

    def points_at(self, name: str) -> bool:
        """Point the proxy at the program of this name; whether it answers."""
        raise NotImplementedError

    def is_led(self, name: str, path: str) -> bool:
        """Whether another page has the person's tab go to this address, which she may not have meant."""
        return False

    def lead_away(self, name: str) -> None:
        """Answer a request that another page sends."""
        self.set_status(HTTPStatus.FORBIDDEN)
        self.finish(self.led_here(name))

    def led_here(self, name: str) -> str:
        """The page for a request that a page of elsewhere sends."""
        raise NotImplementedError

    def say(self, name: str) -> None:
        """Answer for a program that does not."""
        raise NotImplementedError

    async def http_get(self, name: str, path: str) -> None:
        """Forward a request, whatever its method."""
        if is_from_elsewhere(self.request.headers) or self.is_led(name, path):
            self.lead_away(name)
        elif self.points_at(name):
            await self.proxy("localhost", 0, path)
        else:
            self.say(name)

    post = put = delete = head = patch = options = http_get

    async def open(self, name: str, path: str) -> None:
        """Forward a web socket; that nobody answers is said by its end, for an open page asks again."""
        if is_from_elsewhere(self.request.headers) or not self.points_at(name):
            self.close(GOING_AWAY, self.not_there)
            return
        await self.proxy_open("localhost", 0, path)
