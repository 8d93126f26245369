"""The other address of ``localhost``: browsers ask that of IPv6 first, and the local mode listens at that of IPv4."""

from __future__ import annotations

from portal.errors import PortalError
from portal.forwarding import ports

ADDRESS = "::1"


def hold(port: int) -> None:
    """Keep everybody else of this machine from listening there: a browser is refused, and goes on to 127.0.0.1.

    Raises:
        PortalError: somebody has the port already, and would be told passwords.
    """
    try:
        ports.hold(ADDRESS, port)
    except OSError as error:
        raise PortalError(
            f"The portal does not start: somebody listens at [{ADDRESS}]:{port}, where browsers look for localhost "
            "first. Take another --port."
        ) from error
