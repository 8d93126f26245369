"""Connections to a session that have not shown a certificate yet: few, and not for long.

Everybody on the node reaches a session's port. Without a limit a neighbour who connects and says nothing would take all
the files that its server may have open.
"""

from __future__ import annotations

import resource
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a session imports these while its home is prepared
    import asyncio

    from tornado.iostream import IOStream, SSLIOStream

WITHIN_S = 10.0
AT_ONCE = 512  # an eighth of the files; who shakes hands is done before so many others have come


class Handshakes:
    """Those that are under way, the oldest first: it goes when there are too many, as each does that takes too long.

    Args:
        within_s: how long one may take.
        at_once: how many there may be; never more than an eighth of the files that the server may open.
    """

    def __init__(self, within_s: float = WITHIN_S, at_once: int = AT_ONCE) -> None:
        self._within_s = within_s
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._at_once = at_once if files == resource.RLIM_INFINITY else min(at_once, files // 8)
        self._waiting: OrderedDict[IOStream, asyncio.TimerHandle] = OrderedDict()

    def watch(self, server: Any) -> None:
        """From now on look at each connection that comes to a server of Tornado."""
        from tornado.iostream import SSLIOStream
        from tornado.netutil import ssl_options_to_context

        from portal.internal_tls.contexts import with_usual_group

        if isinstance(server.ssl_options, dict):  # once, not with each connection: that reads files, and takes its time
            server.ssl_options = ssl_options_to_context(server.ssl_options, server_side=True)
        if server.ssl_options is not None:
            with_usual_group(server.ssl_options)
        serve = server.handle_stream

        def handle_stream(stream: IOStream, address: Any) -> Any:
            if isinstance(stream, SSLIOStream):
                self._begin(stream)
            return serve(stream, address)

        server.handle_stream = handle_stream

    def _begin(self, stream: SSLIOStream) -> None:
        import asyncio

        loop = asyncio.get_running_loop()
        self._waiting[stream] = loop.call_later(self._within_s, stream.close)
        shaken: asyncio.Future[Any] = stream.wait_for_handshake()
        shaken.add_done_callback(lambda done: self._over(stream, done))
        if len(self._waiting) > self._at_once:
            oldest, timer = self._waiting.popitem(last=False)
            timer.cancel()
            oldest.close()

    def _over(self, stream: IOStream, done: asyncio.Future[Any]) -> None:
        if not done.cancelled():
            done.exception()  # a connection that was closed has nothing more to say
        if timer := self._waiting.pop(stream, None):
            timer.cancel()
