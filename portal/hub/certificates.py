"""TLS: which LDAP servers the hub trusts, a session's certificate, and what the hub itself is known by.

Keys take a tenth of a second to make and files may be slow, so all of it is done in threads.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import ssl
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from jupyterhub.utils import make_ssl_context
from traitlets import HasTraits, default

from portal.session_settings import TLS_PARTS

_THREAD = ThreadPoolExecutor(1, thread_name_prefix="certificates")  # one: the store of certificates is one file


async def own_context(settings: Mapping[str, Any]) -> ssl.SSLContext | None:
    """What the hub is known by to its sessions and to itself; ``None`` without internal TLS.

    Arguments:
        settings: JupyterHub's (tornado's).
    """
    key, certificate, authority = (settings.get(f"internal_ssl_{part}") for part in ("key", "cert", "ca"))
    if not key:
        return None
    made = asyncio.get_running_loop().run_in_executor(_THREAD, make_ssl_context, key, certificate, authority)
    context: ssl.SSLContext = await made
    return context


class SessionCertificates(HasTraits):
    """What makes a spawner give its sessions their certificates with their environment, on whatever node they run."""

    internal_ssl: bool  # these are JupyterHub's
    cert_paths: dict[str, str]
    ssl_alt_names: Any

    async def node_names(self) -> list[str]:
        """Every name that the session may have, as ``DNS:gpu01``."""
        raise NotImplementedError

    @default("ssl_alt_names")
    def _ssl_alt_names(self) -> Callable[[Any], Awaitable[list[str]]]:
        return lambda _spawner: self.node_names()

    async def create_certs(self) -> dict[str, str]:
        """JupyterHub's own way to make a certificate, once the names are known: not in the event loop."""
        chosen = self.ssl_alt_names
        names = chosen(self) if callable(chosen) else chosen
        self.ssl_alt_names = await names if inspect.isawaitable(names) else names
        try:
            theirs = super().create_certs()  # type: ignore[misc]  # of the spawner that stands beside this class
            paths: dict[str, str] = await asyncio.get_running_loop().run_in_executor(_THREAD, asyncio.run, theirs)
            return paths
        finally:
            self.ssl_alt_names = chosen

    async def move_certs(self, paths: dict[str, str]) -> dict[str, str]:
        """Nothing is moved: the certificates travel with the rest of the environment."""
        return paths

    async def certificates(self) -> str:
        """The texts of certificate, key and authorities, as one JSON object; ``""`` without internal TLS."""
        if not self.internal_ssl:
            return ""
        return await asyncio.get_running_loop().run_in_executor(_THREAD, _texts, self.cert_paths)


def _texts(paths: Mapping[str, str]) -> str:
    return json.dumps({name: Path(paths[name]).read_text() for name in TLS_PARTS})


class TrustedCertificates:
    """The LDAP servers that the hub trusts: TLS 1.2 or later, with a certificate that ``ca_file`` vouches for.

    The file is read anew when it changes: a system's whole bundle takes long to read.
    """

    def __init__(self, ca_file: str) -> None:
        self._file = Path(ca_file)
        self._read: tuple[int, ssl.SSLContext] | None = None  # one value, because many threads replace it

    def context(self) -> ssl.SSLContext:
        """What a TLS connection is made with.

        Raises:
            OSError: the file cannot be read, or holds no certificate.
        """
        mtime_ns = self._file.stat().st_mtime_ns
        if self._read is None or self._read[0] != mtime_ns:
            context = ssl.create_default_context(cafile=self._file)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            self._read = (mtime_ns, context)
        return self._read[1]
