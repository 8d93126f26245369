"""Checks of what keeps people apart: an address for each one's session (``portal.domain``), HTTPS, TLS inside."""

from __future__ import annotations

import secrets
import socket
import ssl
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509

from portal.assets.files import FOLDER, LIST, key_of
from portal.assets.offered import ADDRESS
from portal.doctor.check import Check, dated
from portal.site import Site

HOW_TO = "docs/howto/domain.md"
ALLOWS = "Access-Control-Allow-Origin"
ANSWERS_WITHIN_S = 5.0
_ONE_ORIGIN = (
    "Without it a page that one person makes can act as whoever visits it, administrators included.\n"
    f"Set portal.domain, with a wildcard in DNS and in the certificate: {HOW_TO} has the lines."
)


def domain(site: Site) -> list[Check]:
    """The domain is set, its name and those below it lead to the same place, and the certificate is for all of them."""
    url = urlsplit(site.portal.public_url)
    name = url.hostname or ""
    if not name:
        return [Check("domain", "failed", "not set: all sessions and the hub share one origin", _ONE_ORIGIN)]
    one_below = f"check-{secrets.token_hex(4)}.{name}"
    found = [names(name, one_below)]
    if url.scheme == "https":
        found.append(certificate(name, one_below, site.portal.certificate, url.port or 443))
    return found


def names(name: str, one_below: str) -> Check:
    """The name and any name below it resolve, to the same addresses."""
    what = "domain"
    if name == "localhost":
        return Check(what, "ok", "sessions at NAME.localhost, which browsers on this computer resolve themselves")
    own = _addresses(name)
    below = _addresses(one_below)
    if not own or not below:
        missing = f"*.{name}" if own else name
        repair = f"Add to DNS, with the portal's address: {missing}. A record of A or AAAA, or a CNAME. See {HOW_TO}."
        return Check(what, "failed", f"{missing} cannot be resolved", repair)
    if not own & below:
        repair = f"Let the wildcard *.{name} lead to where {name} leads."
        return Check(what, "warning", f"{name} is {_shown(own)}, names below it are {_shown(below)}", repair)
    return Check(what, "ok", f"sessions at NAME.{name} ({_shown(below)})")


def certificate(name: str, one_below: str, file: str, port: int) -> Check:
    """The certificate that browsers get is for the name and for all names below it, whoever shows it."""
    what = "domain's certificate"
    try:
        pem = Path(file).read_text() if file else _shown_certificate(one_below, port)
    except OSError as error:
        repair = "Start the portal or the server in front of it, and run this again from where browsers are."
        return Check(what, "warning", f"{one_below}:{port} was not reached: {error}", repair)
    wanted = {name, f"*.{name}"}
    missing = wanted - names_of(pem)
    if missing:
        repair = f"Get one for both {name} and *.{name}; see {HOW_TO}."
        return Check(what, "failed", f"it is not for {' and '.join(sorted(missing))}", repair)
    return Check(what, "ok", f"it is for {name} and *.{name}")


def names_of(pem: str) -> set[str]:
    """The host names that a certificate is for; the first one of a chain counts."""
    found = x509.load_pem_x509_certificate(pem.encode())
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return set(names.get_values_for_type(x509.DNSName))


def _shown_certificate(host: str, port: int) -> str:
    """What a server shows to who asks for ``host``."""
    with (
        socket.create_connection((host, port), timeout=ANSWERS_WITHIN_S) as connection,
        _any_certificate().wrap_socket(connection, server_hostname=host) as tls,
    ):
        return ssl.DER_cert_to_PEM_cert(tls.getpeercert(binary_form=True) or b"")


def _any_certificate() -> ssl.SSLContext:
    """Takes whatever a server shows: whether it is trusted is a question of each browser."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _addresses(name: str) -> set[str]:
    try:
        return {str(found[4][0]) for found in socket.getaddrinfo(name, None)}
    except OSError:
        return set()


def _shown(addresses: set[str]) -> str:
    return ", ".join(sorted(addresses))


def lab_files(site: Site) -> list[Check]:
    """Pages of sessions may load JupyterLab's files from the hub's host, whatever stands in front of it."""
    url = urlsplit(site.portal.public_url)
    what = "JupyterLab's files"
    if not url.hostname:
        return [Check(what, "ok", "of the same origin as everything else")]
    path = f"{site.portal.base_url}hub/{ADDRESS}/{key_of(FOLDER)}/{LIST}"
    if url.scheme == "https":
        connection: HTTPConnection = HTTPSConnection(url.netloc, timeout=ANSWERS_WITHIN_S, context=_any_certificate())
    else:
        connection = HTTPConnection(url.netloc, timeout=ANSWERS_WITHIN_S)
    try:
        connection.request("GET", path, headers={"Origin": f"{url.scheme}://check.{url.netloc}"})
        answer = connection.getresponse()
        allowed = ", ".join(answer.headers.get_all(ALLOWS) or ["none"])
    except (OSError, HTTPException) as error:
        why = "" if isinstance(error, ConnectionRefusedError) else f" ({error})"
        return [Check(what, "ok", f"not asked, as {url.netloc} does not answer here{why}; ask again where it does")]
    finally:
        connection.close()
    if answer.status != HTTPStatus.OK:
        found = f"not asked: {url.netloc} answers {answer.status}, as before the portal runs with this"
        return [Check(what, "ok", found)]
    if allowed != "*":
        repair = (
            f"Let what stands in front of the hub pass {ALLOWS} of {site.portal.base_url}hub/{ADDRESS}/ on as it is, "
            f"once: pages of sessions load JupyterLab from there, and stay empty without it. See {HOW_TO}."
        )
        return [Check(what, "failed", f"{url.netloc} hands them out with {ALLOWS}: {allowed}, not *", repair)]
    return [Check(what, "ok", f"pages of sessions may load them from {url.netloc}")]


def https(site: Site) -> list[Check]:
    """The certificate and its key can be read, belong together and are in date."""
    certificate = site.portal.certificate
    key = site.portal.key
    if not certificate:
        repair = "Set portal.certificate and portal.key, unless something in front of the portal does HTTPS."
        return [Check("HTTPS", "warning", "no certificate: passwords cross the network in clear text", repair)]
    end = x509.load_pem_x509_certificate(Path(certificate).read_bytes()).not_valid_after_utc
    Path(key).read_bytes()  # its error names the file; that of the next line does not
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=lambda: "")
    if Path(key).stat().st_mode & 0o007:
        return [Check("HTTPS", "warning", f"everybody can read {key}", f"chmod 600 {key}")]
    return [dated("HTTPS", f"{certificate} is valid", end)]


def neighbours(site: Site) -> list[Check]:
    """What keeps two people on one node apart is as it is by default."""
    what = "neighbours"
    found = []
    if not site.portal.internal_ssl:
        repair = "Set portal.internal_ssl to true: sessions that run go on without it until they end."
        found.append(Check(what, "warning", "who takes the port of a dead session is sent its requests", repair))
    if site.kernels.debugger:
        repair = "Set kernels.debugger to false, unless Slurm gives each node to one person alone."
        found.append(Check(what, "warning", "debuggers listen on the nodes, for everybody there", repair))
    return found or [Check(what, "ok", "TLS between hub and sessions, no debuggers on the nodes")]
