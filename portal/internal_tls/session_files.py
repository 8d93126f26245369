"""The certificate of a session: out of its environment into files of its own, and into its calls of the hub."""

from __future__ import annotations

import json
import os
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path

from portal.session_settings import TLS

TLS_FILES = {  # what JupyterHub's single-user server and its calls of the hub read
    "keyfile": "JUPYTERHUB_SSL_KEYFILE",
    "certfile": "JUPYTERHUB_SSL_CERTFILE",
    "cafile": "JUPYTERHUB_SSL_CLIENT_CA",
}


def use_tls(runtime: Path) -> None:
    """Put the certificates of this session, if the hub gave some, where the server finds them and nobody else."""
    given = json.loads(os.environ.pop(TLS, "null"))
    for name, variable in TLS_FILES.items() if given else ():
        file = runtime / f"{name}.pem"
        file.touch(mode=0o600, exist_ok=False)
        file.write_text(given[name])
        os.environ[variable] = str(file)


def connect(scheme: str, host: str, timeout_s: float) -> HTTPConnection:
    """A connection to the hub; with this session's certificate where it has one."""
    if scheme != "https":
        return HTTPConnection(host, timeout=timeout_s)
    import ssl

    context = ssl.create_default_context(cafile=os.environ.get(TLS_FILES["cafile"]))
    if certificate := os.environ.get(TLS_FILES["certfile"]):
        context.load_cert_chain(certificate, os.environ[TLS_FILES["keyfile"]])
    return HTTPSConnection(host, timeout=timeout_s, context=context)
