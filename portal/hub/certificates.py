"""TLS: which LDAP servers the hub trusts, a session's certificate, and what the hub itself is known by.

The hub has authorities of its own. JupyterHub makes them at its first start and never looks at them again (6.1,
``init_internal_ssl``); certipy keeps them. Files may be slow, so what is done while the hub serves is done in threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import ipaddress
import json
import shutil
import ssl
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import certipy
from certipy import Certipy
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from traitlets import HasTraits, default

from portal.errors import SiteError, SlurmUnavailable
from portal.hub import state_place
from portal.internal_tls import contexts
from portal.language.texts import N_
from portal.session_settings import TLS_PARTS
from portal.session_state import word_of
from portal.slurm.snapshot import NodesSnapshot

AUTHORITY = "notebooks-ca"  # JupyterHub's name for that of the sessions
OF_PERSON = "user-"  # JupyterHub's, before the person's name in a certificate; deploy/site/proxy_owner.mjs looks at it
LASTS = timedelta(days=730)  # longer than a session's year, and the wait before it
BEFORE_NOW = timedelta(days=30)  # a clock may be set back, and that of a node may be late
RENEWED_BEFORE = timedelta(days=90)
OF_HUB = ("hub-internal", "proxy-api", "proxy-client")
PURPOSES = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
_THREAD = ThreadPoolExecutor(1, thread_name_prefix="certificates")  # one: the store of certificates is one file


async def own_context(settings: Mapping[str, Any]) -> ssl.SSLContext | None:
    """What the hub is known by to its sessions and to itself; ``None`` without internal TLS.

    Arguments:
        settings: JupyterHub's (tornado's).
    """
    key, certificate, authority = (settings.get(f"internal_ssl_{part}") for part in ("key", "cert", "ca"))
    if not key:
        return None
    made = asyncio.get_running_loop().run_in_executor(_THREAD, contexts.own_context, key, certificate, authority)
    return await made


class SessionCertificates(HasTraits):
    """What makes a spawner give its sessions their certificates with their environment, on whatever node they run."""

    internal_ssl: bool  # these are JupyterHub's
    internal_certs_location: str
    internal_trust_bundles: dict[str, str]
    ssl_alt_names: Any
    user: Any
    api_token: str
    session: Any

    async def node_names(self) -> list[str]:
        """Every name that the session may have, as ``DNS:gpu01``."""
        raise NotImplementedError

    @default("ssl_alt_names")
    def _ssl_alt_names(self) -> Callable[[Any], Awaitable[list[str]]]:
        return lambda _spawner: self.node_names()

    async def create_certs(self) -> dict[str, str]:
        """No files: a certificate is made with the environment that takes it along (:meth:`certificates`)."""
        return dict.fromkeys(TLS_PARTS, "")

    async def move_certs(self, paths: dict[str, str]) -> dict[str, str]:
        """Nothing is moved: the certificates travel with the rest of the environment."""
        return paths

    async def certificates(self) -> str:
        """The texts of certificate, key and authorities, as one JSON object; ``""`` without internal TLS.

        Raises:
            SlurmUnavailable: the names of the nodes are not known.
        """
        if not self.internal_ssl:
            return ""
        chosen = self.ssl_alt_names
        asked = chosen(self) if callable(chosen) else chosen
        names = await asked if inspect.isawaitable(asked) else asked
        location = self.internal_certs_location
        trusted = self.internal_trust_bundles[AUTHORITY]
        loop = asyncio.get_running_loop()
        word = word_of(self.api_token)
        return await loop.run_in_executor(_THREAD, _texts, location, trusted, self.user.name, tuple(names), word)

    @property
    def session_word(self) -> str:
        """What the proxy's route says of the session (:mod:`portal.proxy.session_word`)."""
        return str(self.session.state.word)


def _texts(location: str, trusted: str, person: str, names: Sequence[str], word: str) -> str:
    key, certificate = signed(Path(location), AUTHORITY, f"{OF_PERSON}{person}", names, word)
    return json.dumps({"keyfile": key, "certfile": certificate, "cafile": Path(trusted).read_text()})


def names_of(known: NodesSnapshot, partition: str) -> list[str]:
    """The names of a partition's nodes, for a certificate; of all nodes where the partition has none, or is not named.

    Raises:
        SlurmUnavailable: Slurm has not told its nodes yet.
    """
    if not known.nodes:
        raise known.error or SlurmUnavailable(N_("Slurm shows no nodes."))
    names = [node.name for node in known.nodes.values() if partition in node.partitions]
    return [f"DNS:{name}" for name in names or known.nodes]


def signed(location: Path, authority: str, name: str, alt_names: Sequence[str], word: str = "") -> tuple[str, str]:
    """A new key, and a certificate for it; neither is written anywhere.

    The key is one of the curve P-256: it takes a millisecond, where one of RSA takes a tenth of a second.

    Arguments:
        location: the folder of the authorities.
        name: whom the certificate names (CN).
        alt_names: where that one is found, as ``DNS:gpu01`` or ``IP:10.0.0.1``.
        word: which session it is (OU).
    """
    files = Certipy(store_dir=str(location)).store.get_record(authority)["files"]
    signer, ours = _authority(files["cert"], files["key"], Path(files["key"]).stat().st_mtime_ns)
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    unit = [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, word)] if word else []
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name), *unit])
    builder = x509.CertificateBuilder(ours.subject, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(max(now - BEFORE_NOW, ours.not_valid_before_utc))
    builder = builder.not_valid_after(min(now + LASTS, ours.not_valid_after_utc))
    builder = builder.add_extension(x509.ExtendedKeyUsage(PURPOSES), critical=True)
    builder = builder.add_extension(x509.SubjectAlternativeName([*map(_general, alt_names)]), critical=False)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    certificate = builder.add_extension(issuer, critical=False).sign(signer, hashes.SHA256())
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return text.decode(), certificate.public_bytes(Encoding.PEM).decode()


@functools.lru_cache(4)
def _authority(certificate: str, key: str, _mtime_ns: int) -> tuple[Any, x509.Certificate]:
    signer = load_pem_private_key(Path(key).read_bytes(), None)
    return signer, x509.load_pem_x509_certificate(Path(certificate).read_bytes())


def _general(name: str) -> x509.GeneralName:
    kind, _, value = name.partition(":")
    return x509.IPAddress(ipaddress.ip_address(value)) if kind == "IP" else x509.DNSName(value)


def prepare(location: Path, names: Collection[str]) -> str:
    """Take away what JupyterHub must make anew at this start; answers why, or ``""``.

    The certificates of hub and proxy follow the names of the hub, which sessions do not notice. An authority that ends
    soon goes with all that it has signed: sessions that run are not reached any more.

    Arguments:
        location: the folder of the authorities; it may have been moved.
        names: where the hub is found, as ``DNS:hub`` or ``IP:10.0.0.1``.

    Raises:
        SiteError: something of what was made before is missing or damaged.
    """
    if not (location / "certipy.json").exists():
        return ""
    try:
        return _renewed(location, names)
    except (OSError, ValueError, LookupError, TypeError) as error:
        advice = "Restore the folder from a backup, or remove it: sessions that run are not reached any more then"
        raise SiteError(str(location), [f"what internal TLS needs is not whole ({error}). {advice}"]) from error


def _renewed(location: Path, names: Collection[str]) -> str:
    file = location / "certipy.json"
    before = json.loads(file.read_bytes())
    records = {name: _moved(record, location) for name, record in before.items()}
    if records != before:
        state_place.write(file, json.dumps(records, indent=4))
    soon = datetime.now(UTC) + RENEWED_BEFORE
    if any(_certificate(record).not_valid_after_utc < soon for record in records.values() if record["is_ca"]):
        shutil.rmtree(location)
        return "The authorities of internal TLS end soon and are made anew: sessions of before are not reached any more"
    outdated = [name for name in OF_HUB if name in records and not _is_good(_certificate(records[name]), names, soon)]
    for name in outdated:
        Certipy(store_dir=str(location)).store.remove_record(name)
    return f"Internal TLS: made anew for {', '.join(names)}: {', '.join(outdated)}" if outdated else ""


class EarlierCertipy(Certipy):  # type: ignore[misc]
    """What it signs was valid some time before already; certipy's own begins with the second in which it is made."""

    def sign(self, req: Any, issuer_cert_key: Any, validity_period: tuple[Any, Any], *others: Any, **named: Any) -> Any:
        """A certificate for a request."""
        earlier = datetime.now(UTC) - BEFORE_NOW
        return super().sign(req, issuer_cert_key, (earlier, validity_period[1]), *others, **named)


@contextlib.contextmanager
def made_earlier() -> Iterator[None]:
    """Meanwhile JupyterHub makes its certificates so (6.1 takes certipy in ``init_internal_ssl``)."""
    usual = certipy.Certipy
    certipy.Certipy = EarlierCertipy
    try:
        yield
    finally:
        certipy.Certipy = usual


def _moved(record: dict[str, Any], location: Path) -> dict[str, Any]:
    here = {kind: location.joinpath(*Path(path).parts[-2:]) for kind, path in record["files"].items() if path}
    files = {kind: str(file) for kind, file in here.items() if file.exists()}  # a site's own authority is elsewhere
    return {**record, "files": {**record["files"], **files}}


def _certificate(record: Mapping[str, Any]) -> x509.Certificate:
    return x509.load_pem_x509_certificate(Path(record["files"]["cert"]).read_bytes())


def _is_good(certificate: x509.Certificate, names: Collection[str], soon: datetime) -> bool:
    known = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return set(map(_general, names)) <= set(known) and certificate.not_valid_after_utc > soon


class TrustedCertificates:
    """The LDAP servers that the hub trusts: TLS 1.2 or later, with a certificate that ``ca_file`` vouches for.

    The file is read anew when it changes: a system's whole bundle takes long to read.

    Every Python judges alike: 3.13 began to refuse authorities that lack keyUsage and certificates that do not name
    their issuer's key (``VERIFY_X509_STRICT``). Many sites' own have neither. Chain and name are checked either way;
    the doctor, which is strict, says it.
    """

    def __init__(self, ca_file: str, *, is_strict: bool = False) -> None:
        self._file = Path(ca_file)
        self._is_strict = is_strict
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
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            if self._is_strict:
                context.verify_flags |= ssl.VERIFY_X509_STRICT
            self._read = (mtime_ns, context)
        return self._read[1]
