"""The hub's own authorities: what they sign for a session, and what is made anew when a hub starts."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import certipy
import pytest
from certipy import Certipy
from cryptography import x509
from cryptography.x509.oid import NameOID

from portal.errors import SiteError, SlurmUnavailable
from portal.hub.certificates import LASTS, RENEWED_BEFORE, made_earlier, names_of, prepare, signed
from portal.slurm.nodes import Node
from portal.slurm.snapshot import NodesSnapshot

NAMES = ["DNS:hub.example.org"]


@pytest.fixture
def location(tmp_path: Path) -> Path:
    """What JupyterHub leaves there at its first start."""
    folder = tmp_path / "internal-ssl"
    made = Certipy(store_dir=str(folder))
    for name in ("hub-ca", "notebooks-ca", "proxy-client-ca"):
        made.create_ca(name)
    made.create_signed_pair("hub-internal", "hub-ca", alt_names=["IP:127.0.0.1", *NAMES])
    made.create_signed_pair("proxy-client", "proxy-client-ca", alt_names=NAMES)
    return folder


def known(location: Path) -> set[str]:
    """The names that certipy finds there."""
    return set(json.loads((location / "certipy.json").read_text()))


def test_a_session_is_given_a_certificate_that_names_its_person_and_its_nodes(location: Path) -> None:
    before = {file: file.read_bytes() for file in location.rglob("*") if file.is_file()}

    key, text = signed(location, "notebooks-ca", "user-alice", ["DNS:gpu01", "IP:10.0.0.1"])

    certificate = x509.load_pem_x509_certificate(text.encode())
    (name,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    where = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    authority = x509.load_pem_x509_certificate((location / "notebooks-ca" / "notebooks-ca.crt").read_bytes())
    assert name.value == "user-alice"
    assert where.get_values_for_type(x509.DNSName) == ["gpu01"], "and not this host"
    certificate.verify_directly_issued_by(authority)
    assert "PRIVATE KEY" in key
    assert certificate.not_valid_after_utc - datetime.now(UTC) > LASTS - timedelta(days=1)
    assert {file: file.read_bytes() for file in location.rglob("*") if file.is_file()} == before, "nothing is kept"


def test_what_jupyterhub_signs_at_the_first_start_is_good_for_a_clock_that_is_set_back(tmp_path: Path) -> None:
    with made_earlier():
        store = certipy.Certipy(store_dir=str(tmp_path))
        store.create_ca("hub-ca")
        store.create_signed_pair("hub-internal", "hub-ca", alt_names=NAMES)
    assert certipy.Certipy is Certipy

    an_hour_ago = datetime.now(UTC) - timedelta(hours=1)
    for name in ("hub-ca", "hub-internal"):
        made = x509.load_pem_x509_certificate((tmp_path / name / f"{name}.crt").read_bytes())
        assert made.not_valid_before_utc < an_hour_ago
        assert made.not_valid_after_utc > datetime.now(UTC) + timedelta(days=4 * 365)


def test_a_hub_that_is_started_as_before_changes_nothing(location: Path) -> None:
    before = (location / "hub-internal" / "hub-internal.crt").read_bytes()
    assert prepare(location, NAMES) == ""
    assert (location / "hub-internal" / "hub-internal.crt").read_bytes() == before
    assert "hub-internal" in known(location)
    assert prepare(location / "nowhere", NAMES) == "", "the first start"


def test_a_hub_with_another_name_gets_certificates_for_it_from_the_authorities_of_before(location: Path) -> None:
    authority = (location / "hub-ca" / "hub-ca.crt").read_bytes()

    words = prepare(location, ["DNS:other.example.org"])

    assert words == "Internal TLS: made anew for DNS:other.example.org: hub-internal, proxy-client"
    assert known(location) == {"hub-ca", "notebooks-ca", "proxy-client-ca"}
    assert (location / "hub-ca" / "hub-ca.crt").read_bytes() == authority, "sessions trust this one"


def test_a_state_folder_that_was_moved_finds_its_authorities_in_the_new_place(location: Path, tmp_path: Path) -> None:
    there = tmp_path / "elsewhere" / "internal-ssl"
    shutil.move(location, there)

    assert prepare(there, NAMES) == ""

    files = Certipy(store_dir=str(there)).store.get_record("hub-internal")["files"]
    assert {Path(file).parents[1] for file in files.values() if file} == {there}
    signed(there, "notebooks-ca", "user-alice", ["DNS:gpu01"])


def test_the_list_of_authorities_is_replaced_in_one_step(location: Path, tmp_path: Path) -> None:
    before = (location / "certipy.json").read_text()
    (tmp_path / "as_it_was").hardlink_to(location / "certipy.json")
    there = tmp_path / "elsewhere" / "internal-ssl"
    shutil.move(location, there)

    prepare(there, NAMES)

    assert (tmp_path / "as_it_was").read_text() == before, "a full disk or a kill must not leave half of it"
    assert (there / "certipy.json").read_text() != before
    assert (there / "certipy.json").stat().st_mode & 0o077 == 0
    assert not list(there.glob("*.new"))


@pytest.mark.parametrize("damage", ["certipy.json", "hub-ca/hub-ca.crt", "hub-internal/hub-internal.crt"])
def test_what_is_damaged_is_refused_with_what_to_do(location: Path, damage: str) -> None:
    (location / damage).write_text("{}..")
    with pytest.raises(SiteError, match=r"not whole .* Restore the folder from a backup, or remove it"):
        prepare(location, NAMES)


def test_what_is_missing_is_refused_too(location: Path) -> None:
    shutil.rmtree(location / "hub-ca")
    with pytest.raises(SiteError, match="not whole"):
        prepare(location, NAMES)


def test_authorities_that_end_soon_are_made_anew_with_all_that_they_have_signed(
    location: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portal.hub.certificates.RENEWED_BEFORE", timedelta(days=5 * 365 + 1))
    assert "sessions of before are not reached any more" in prepare(location, NAMES)
    assert not location.exists()
    assert timedelta(days=30) < RENEWED_BEFORE < timedelta(days=365)


def node_in(name: str, partition: str) -> Node:
    """A node of a partition."""
    return Node(name, frozenset(), (partition,), 2, 0, 4096, 0, {}, {})


def test_a_certificate_is_for_the_nodes_of_the_partition() -> None:
    found = NodesSnapshot(nodes={node.name: node for node in (node_in("gpu01", "sxm2"), node_in("cpu01", "iq"))})
    assert names_of(found, "sxm2") == ["DNS:gpu01"]
    assert names_of(found, "") == names_of(found, "unknown") == ["DNS:gpu01", "DNS:cpu01"]


def test_a_slurm_that_has_not_told_its_nodes_is_said_in_words() -> None:
    with pytest.raises(SlurmUnavailable, match="silent"):
        names_of(NodesSnapshot(error=SlurmUnavailable("silent")), "sxm2")
    with pytest.raises(SlurmUnavailable, match="no nodes"):
        names_of(NodesSnapshot(), "sxm2")
