"""Which LDAP servers the hub trusts: TLS 1.2 or later, with a certificate that the site's CA file vouches for."""

from __future__ import annotations

import ssl
from pathlib import Path


class TrustedCertificates:
    """The certificates of ``ca_file``, read anew when the file changes: a system's whole bundle takes long to read."""

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
