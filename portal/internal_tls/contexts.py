"""What hub and sessions make connections to each other with: the hub's own authorities count, and no others.

JupyterHub (6.1, ``make_ssl_context``) trusts this host's list of public authorities as well. None of them speaks for
the hub or for a session, and to read that list takes 20 ms each time: twice for a start, and for every look at a login.
"""

from __future__ import annotations

import importlib
import ssl
import threading
from functools import lru_cache

from jupyterhub import utils
from tornado import netutil

# JupyterHub's modules that connect the two; those that ask the world outside keep the list.
OF_HUB = ("jupyterhub.objects", "jupyterhub.user")
OF_SESSIONS = ("jupyterhub.services.auth", "jupyterhub.singleuser.extension")


def with_usual_group(context: ssl.SSLContext) -> None:
    """Have a context agree on a key in one way, which every TLS since 1.2 knows.

    Whoever says hello would else choose ffdhe8192 of OpenSSL 3.0 to 3.4: a tenth of a second of all others for 1 kB.
    """
    context.set_ecdh_curve("prime256v1")


@lru_cache(maxsize=64)
def own_context(keyfile: str, certfile: str, cafile: str) -> ssl.SSLContext:
    """What a connection to the other side is made with: one for all, so the files must stay as they are.

    Arguments:
        cafile: the authorities that are trusted.

    Raises:
        OSError: a file cannot be read, or is none of its kind.
    """
    context = ssl.create_default_context(cafile=cafile)  # without a list of its own; host names are checked
    with_usual_group(context)
    context.load_cert_chain(certfile, keyfile)
    return context


def trust_own_authorities(*modules: str) -> None:
    """Have modules of JupyterHub use :func:`own_context`."""
    for name in modules:
        importlib.import_module(name).make_ssl_context = make_context  # type: ignore[attr-defined]


def make_context(
    keyfile: str | None, certfile: str | None, cafile: str | None = None, **named: object
) -> ssl.SSLContext | None:
    """In the place of JupyterHub's: ``None`` without a certificate; JupyterHub's own where it is for something else."""
    if keyfile and certfile and cafile and not named:
        return own_context(keyfile, certfile, cafile)
    context: ssl.SSLContext | None = utils.make_ssl_context(keyfile, certfile, cafile, **named)
    return context


def read_public_list_meanwhile() -> None:
    """Have that list read beside whatever else is done: Tornado (6.5) does so once, when a first connection comes."""
    threading.Thread(target=netutil._client_ssl_defaults, daemon=True).start()
