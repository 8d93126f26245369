"""The settings file: every fault is told at once, with what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from portal.errors import SiteError
from portal.site import Identity, Site, load, parse


def faults(tables: dict[str, Any]) -> tuple[str, ...]:
    with pytest.raises(SiteError) as raised:
        parse(tables)
    return raised.value.faults


def test_the_example_is_valid_and_an_empty_file_is_a_site_too(site: Site) -> None:
    assert [p.name for p in site.partitions] == ["sxm2", "hipri"]
    assert parse({}).session.hours_default == 8


def test_gpus_bring_eight_cores_and_48_gb_each_and_none_brings_two_and_8(site: Site) -> None:
    assert [(site.cores(n), site.memory_mib(n)) for n in (0, 1, 4)] == [(2, 8192), (8, 49152), (32, 196608)]


def test_a_person_is_offered_the_partitions_of_their_groups_the_default_first(site: Site) -> None:
    assert [p.name for p in site.offered_to(Identity("alice"))] == ["sxm2"]
    assert [p.name for p in site.offered_to(Identity("bob", frozenset({"hipri"})))] == ["sxm2", "hipri"]


def test_the_limit_of_a_partition_is_the_smaller_of_its_own_and_the_sites(site: Site) -> None:
    assert [site.hours_max(p) for p in site.partitions] == [24, 12]
    assert site.gpus_max(site.partition("hipri")) == 4
    with pytest.raises(KeyError):
        site.partition("nope")


@pytest.mark.parametrize(
    ("table", "key", "value", "sentence"),
    [
        ("portal", "prot", 8000, "portal.prot: unknown key; did you mean 'port'?"),
        ("portal", "zzz", 1, "portal.zzz: unknown key; known: title, bind, port"),
        ("portal", "port", 70000, "portal.port: 70000 is not possible; allowed: 65535 or less"),
        ("portal", "key", "a.pem", "portal.key: 'a.pem' is not possible; allowed: an absolute path, or ''"),
        ("portal", "base_url", "/jupyter", "portal.base_url: '/jupyter' is not possible; allowed: a path that begins"),
        ("portal", "base_url", "/a/../b/", "portal.base_url: '/a/../b/' is not possible; allowed: a path that begins"),
        ("session", "cores_per_gpu", "8", "session.cores_per_gpu: '8' is not possible; allowed: a whole number"),
        ("session", "hours_default", 0, "session.hours_default: 0 is not possible; allowed: 1 or more"),
        ("ldap", "servers", [], "ldap.servers: () is not possible; allowed: a list of at least 1"),
        ("ldap", "servers", ["http://x"], "ldap.servers[1]: 'http://x' is not possible; allowed: an address such as"),
        ("ldap", "user_dn", "uid=x", "ldap.user_dn: 'uid=x' is not possible; allowed: a DN with {username} in it"),
    ],
)  # fmt: skip
def test_a_fault_names_the_key_the_value_and_what_is_allowed(
    tables: dict[str, Any], table: str, key: str, value: object, sentence: str
) -> None:
    tables[table][key] = value

    (fault,) = faults(tables)

    assert fault.startswith(sentence)


def test_all_faults_come_in_one_run(tables: dict[str, Any]) -> None:
    tables["portal"]["port"] = True
    tables["sesion"] = {}
    tables["partition"][1]["hours_max"] = -1
    del tables["ldap"]["ca_file"]

    found = faults(tables)

    assert len(found) == 4
    assert "ldap.ca_file: missing" in found
    assert "sesion: unknown key; did you mean 'session'?" in found
    assert "partition[2].hours_max: -1 is not possible; allowed: 1 or more" in found


def test_values_that_contradict_each_other_are_faults(tables: dict[str, Any]) -> None:
    tables["partition"].append({"name": "sxm2", "gpu": "h100", "default": True})
    tables["session"]["hours_default"] = 30
    tables["portal"]["key"] = "/etc/key.pem"

    found = "\n".join(faults(tables))

    assert "partition: the name 'sxm2' stands 2 times" in found
    assert "partition[3].gpu: 'h100' is not a [[gpu]]; known: v100" in found
    assert "session.hours_default: 30 is not possible; allowed: 1 to session.hours_max (24)" in found
    assert "more than one has default = true" in found
    assert "HTTPS needs both" in found


def test_an_account_for_the_directory_needs_its_password_and_people_that_it_can_find(tables: dict[str, Any]) -> None:
    of_nobody = faults(tables | {"ldap": tables["ldap"] | {"mail_attribute": "mail"}})
    assert list(of_nobody) == [
        "ldap.mail_attribute: it is read by bind_dn, which is missing; allowed: '', or with bind_dn"
    ]
    tables["ldap"] |= {"bind_dn": "cn=portal,dc=example", "user_dn": "{username}@example.org"}

    found = "\n".join(faults(tables))

    assert "ldap.bind_dn, ldap.bind_password_file: one needs the other" in found
    assert "ldap.user_dn: '{username}@example.org' is not possible with bind_dn; allowed: a DN that begins" in found


@pytest.mark.parametrize(("text", "words"), [("port = ", "is not TOML"), (None, "cannot be read: No such file")])
def test_a_file_that_is_missing_or_not_toml_is_one_clear_error(tmp_path: Path, text: str | None, words: str) -> None:
    path = tmp_path / "site.toml"
    if text:
        path.write_text(text)

    with pytest.raises(SiteError, match=words):
        load(str(path))


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("account", 5, "partition[1].account: 5 is not possible; allowed: a name of letters"),
        ("account", "a b", "partition[1].account: 'a b' is not possible"),
        ("account", ["a", "a"], "each once, the default first, or '*'"),
        ("qos", ["", "a"], "partition[1].qos: ('', 'a') is not possible"),
        ("reservation", ["--x"], "partition[1].reservation: ('--x',) is not possible"),
        ("constraint", "a;id", "partition[1].constraint: 'a;id' is not possible; allowed: features such as"),
        ("licenses", "matlab:x", "partition[1].licenses: 'matlab:x' is not possible; allowed: licences such as"),
        (
            "mail_type",
            "BEGIN;END",
            "partition[1].mail_type: 'BEGIN;END' is not possible; allowed: sbatch's --mail-type",
        ),
        ("mail_type", ["", "begin"], "partition[1].mail_type: ('', 'begin') is not possible"),
        ("options", ["--mail-type=FAIL"], "for this one there is mail_type"),
        ("comment", "a\nb", "allowed: printable ASCII, at most 200 characters"),
        ("exclusive", "yes", "partition[1].exclusive: 'yes' is not possible"),
        ("cores_max", 1, "partition[1].cores_max: 1 is not possible; allowed: 2 (what comes by itself) or more"),
        ("rule", [{"account": "x"}], "partition[1].rule[1]: it fits nobody; allowed: groups or people that it is for"),
        ("rule", [{"groups": ["x"], "options": []}], "partition[1].rule[1].options: unknown key"),
        ("gpu", ["v100", "h100"], "partition[1].gpu: 'h100' is not a [[gpu]]; known: v100"),
    ],
)
def test_what_slurm_could_not_be_told_is_a_fault_of_the_file(
    tables: dict[str, Any], key: str, value: object, words: str
) -> None:
    tables["partition"][0][key] = value

    assert words in "\n".join(faults(tables))


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--wrap=id", "--wrap is not for the taking"),
        ("--wra=id", "--wrap is not for the taking"),
        ("--job-name=x", "--job-name is not for the taking"),
        ("--output=/tmp/x", "--output is not for the taking"),
        ("--uid=0", "--uid is not for the taking"),
        ("--export=NONE", "--export is not for the taking"),
        ("--ex", "is not for the taking"),
        ("--qos=long", "for this one there is qos"),
        ("--mem-per-cpu=1G", "for this one there is memory_gb"),
        ("--clusters=other", "one portal serves one cluster"),
        ("--clus=other", "--cluster is not for the taking"),
        ("-p x", "one option of sbatch with its long name"),
        ("-M other", "one portal serves one cluster"),
        ("-Mother", "one portal serves one cluster"),
        ("--cluster-constraint=big", "one portal serves one cluster"),
        ("script.sh", "one option of sbatch with its long name"),
        ("--switches=1\n--wrap=id", "one option of sbatch with its long name"),
    ],
)
def test_options_that_the_portal_sets_itself_are_refused_beginnings_of_their_names_too(
    tables: dict[str, Any], option: str, words: str
) -> None:
    tables["partition"][0]["options"] = [option]

    assert words in "\n".join(faults(tables))


def test_options_that_have_no_key_may_stand_in_the_file(tables: dict[str, Any]) -> None:
    kept = (
        "--switches=1@10:00",
        "--nice=100",
        "--mail-user=root",
        "--mem-bind=local",
        "--gpu-bind=closest",
        "--core-spec=2",
    )
    tables["partition"][0]["options"] = list(kept)

    assert parse(tables).partitions[0].options == kept
