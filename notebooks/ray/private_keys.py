"""The keys and the token of one Ray cluster, in folders and files that only their person may read.

Ray's connections ask both sides for a certificate of the cluster's authority, and the server's for the address of its
node, so each node makes its own when it starts, with the authority's key, which lies where all nodes see it.
"""

import os
import secrets
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import lesson_folders
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

DAYS = 30  # how long a certificate is good, and so the longest life of a cluster


def for_cluster(keys):
    """Make the folder of the cluster: its token and its authority, where nobody else can put another in its place."""
    lesson_folders.private(keys.parent)
    keys.mkdir(mode=0o700)
    _write(keys / "token", secrets.token_hex(32).encode())
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name("authority")
    _write_pair(keys / "authority", key, _certificate(subject, key, subject, key, is_authority=True))


def for_node(keys, own, address):
    """Make ``node.key`` and ``node.crt`` of the node at ``address``, in its private folder.

    Raises:
        FolderOfOthers: on this node one of the folders is somebody else's, or can be exchanged.
    """
    for folder in (keys, own):
        lesson_folders.private(folder, make=False)
    authority = x509.load_pem_x509_certificate((keys / "authority.crt").read_bytes()).subject
    signer = serialization.load_pem_private_key((keys / "authority.key").read_bytes(), None)
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.IPAddress(ip_address(one)) for one in sorted({address, "127.0.0.1"})]
    _write_pair(own / "node", key, _certificate(_name("node"), key, authority, signer, names))


def _name(text):
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"Ray {text}")])


def _certificate(subject, key, issuer, signer, names=(), is_authority=False):
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=DAYS))
    made = made.add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    if names:
        made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return made.sign(signer, hashes.SHA256())


def _write_pair(path, key, certificate):
    pem = serialization.Encoding.PEM
    form = serialization.PrivateFormat.PKCS8
    _write(path.with_suffix(".key"), key.private_bytes(pem, form, serialization.NoEncryption()))
    _write(path.with_suffix(".crt"), certificate.public_bytes(pem))


def _write(path, content):
    """A new file that nobody else may read."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
        stream.write(content)
