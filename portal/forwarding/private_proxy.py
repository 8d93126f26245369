"""Forwards requests to a Unix socket, without what proves who the person is."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode

from jupyter_server_proxy.handlers import ProxyHandler
from tornado.httputil import HTTPHeaders

# No program behind it needs them, and what it logs or shows must not hold them (jupyter-server-proxy #590).
KEPT_BACK = ("Cookie", "Authorization", "X-Xsrftoken")


class PrivateProxy(ProxyHandler):  # type: ignore[misc]
    """A proxy's handler that keeps back cookies and tokens, in headers and in the query."""

    def proxy_request_headers(self) -> HTTPHeaders:
        """The person's request headers without anything that proves who the person is."""
        headers: HTTPHeaders = super().proxy_request_headers()
        for name in KEPT_BACK:
            headers.pop(name, None)
        return headers

    def get_client_uri(self, *args: Any) -> str:
        """The address behind the proxy, without a token that stood in the query."""
        query = parse_qsl(self.request.query, keep_blank_values=True)
        if any(name == "token" for name, _ in query):
            self.request.query = urlencode([(name, value) for name, value in query if name != "token"])
        return str(super().get_client_uri(*args))
