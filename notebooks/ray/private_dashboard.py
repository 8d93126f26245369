"""Ray's dashboard on a private Unix socket: it adds the cluster's token, which no browser gets to see.

Ray's dashboard has a port, which asks for the token. The session's server forwards to a Unix socket what its person's
browser asks for, and keeps cookies and tokens back. Between the two is this, a thread of the kernel.
"""

import asyncio
import os
import sys
import threading
from ipaddress import ip_address
from pathlib import Path

from aiohttp import ClientConnectionError, ClientSession, DummyCookieJar, WSMsgType, web
from yarl import URL

LISTENS = "0A"
# What belongs to one connection and not to what is said over it (RFC 9110, 7.6.1), and what is somebody else's.
OF_A_HOP = {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
NOT_FORWARDED = OF_A_HOP | {"host", "authorization", "x-ray-authorization", "cookie"}
NOT_ANSWERED = OF_A_HOP | {"set-cookie"}
LONGEST = 64 << 20  # bytes of a message over a web socket


class Forwarder:
    """Listens on ``path`` until it is closed, and forwards to the dashboard at ``address`` with the token of a file."""

    def __init__(self, path, address, token):
        self.path = path
        self.address = address
        self.headers = {"Authorization": f"Bearer {token.read_text()}"}
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self.loop).result()

    def close(self):
        """Listen no more."""
        asyncio.run_coroutine_threadsafe(self._end(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()
        self.path.unlink(missing_ok=True)

    async def _open(self):
        self.session = ClientSession(auto_decompress=False, cookie_jar=DummyCookieJar())
        application = web.Application(client_max_size=0)
        application.router.add_route("*", "/{path:.*}", self._answer)
        self.runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
        await self.runner.setup()
        await web.UnixSite(self.runner, self.path).start()
        self.path.chmod(0o600)

    async def _end(self):
        await self.runner.cleanup()
        await self.session.close()

    async def _answer(self, request):
        if not is_ours(self.address):
            raise web.HTTPBadGateway(text="Ray's dashboard has ended, or is at no address where you alone listen.")
        try:
            if request.headers.get("Upgrade", "").lower() == "websocket":
                return await self._talk(request)
            return await self._page(request)
        except ClientConnectionError as error:
            raise web.HTTPBadGateway(text=f"Ray's dashboard does not answer: {error}") from error

    def _url(self, request):
        return URL(f"http://{self.address}{request.raw_path}", encoded=True)

    async def _page(self, request):
        told = _without(request.headers, NOT_FORWARDED) + list(self.headers.items())
        body = request.content if request.can_read_body else None
        options = {"headers": told, "data": body, "allow_redirects": False}
        async with self.session.request(request.method, self._url(request), **options) as found:
            answer = web.StreamResponse(status=found.status, reason=found.reason)
            answer.headers.extend(_without(found.headers, NOT_ANSWERED))
            await answer.prepare(request)
            async for part in found.content.iter_any():
                await answer.write(part)
            await answer.write_eof()
            return answer

    async def _talk(self, request):
        async with self.session.ws_connect(self._url(request), headers=self.headers, max_msg_size=LONGEST) as theirs:
            ours = web.WebSocketResponse(max_msg_size=LONGEST)
            await ours.prepare(request)
            ways = [asyncio.create_task(_copy(*way)) for way in ((ours, theirs), (theirs, ours))]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
            await ours.close()
            return ours


async def _copy(from_socket, to_socket):
    async for message in from_socket:
        if message.type is WSMsgType.TEXT:
            await to_socket.send_str(message.data)
        elif message.type is WSMsgType.BINARY:
            await to_socket.send_bytes(message.data)


def _without(headers, names):
    return [(name, value) for name, value in headers.items() if name.lower() not in names]


def is_ours(address):
    """Whether only we listen at an address: once the dashboard has ended, anybody may take it and be sent the token."""
    tables = (Path(table).read_text() for table in ("/proc/net/tcp", "/proc/net/tcp6"))
    return leads_to_us(address, [line for table in tables for line in table.splitlines()])


def leads_to_us(address, lines):
    """The same by the lines of these tables: who listens at that very address, or else at every address of the node.

    A name is no address: another one may be found for it when the token is sent.
    """
    host, _, port = address.rpartition(":")
    try:
        place = ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    exact = {_words(place.packed)}
    if place.version == 4:
        exact.add(_words(ip_address(f"::ffff:{host}").packed))
    owners = {True: set(), False: set()}
    for words in map(str.split, lines):
        where, _, number = words[1].rpartition(":")
        is_exact = where in exact
        if words[3] == LISTENS and int(number, 16) == int(port) and (is_exact or where in EVERYWHERE):
            owners[is_exact].add(int(words[7]))
    return (owners[True] or owners[False]) == {os.geteuid()}


def _words(packed):
    """An address as those tables have it: words of 32 bits, each in the order of this machine."""
    parts = (packed[start : start + 4] for start in range(0, len(packed), 4))
    return "".join(f"{int.from_bytes(part, sys.byteorder):08X}" for part in parts)


# Every address of the node, of both kinds; the last one is that of IPv4, as a socket of IPv6 listens at it.
EVERYWHERE = {_words(ip_address(every).packed) for every in ("0.0.0.0", "::", "::ffff:0.0.0.0")}  # noqa: S104
