"""What Slurm lets one person have: partitions of others are not offered, and no silence of anybody costs a start."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from portal.errors import SlurmUnavailable
from portal.limits import slurm_limits
from portal.limits.associations import Association, parse_associations, parse_cluster
from portal.limits.person import Known, site_of
from portal.limits.slurm_limits import SlurmLimits
from portal.request import checked
from portal.site import Identity, Site, parse
from portal.slurm import nodes
from portal.slurm.cluster import Cluster
from portal.slurm.runner import Result

ALICE = Identity("alice")
PARTITION = "PartitionName={} Default=NO Hidden=NO MaxTime=1-00:00:00 State=UP TotalNodes=4 {}"
RECORDED = """\
|root|||normal|lab
root|root|||normal|lab
|research|||normal|lab
alice|onerun|||capped,high,normal,onejob|lab
alice|research|||capped,high,normal,onejob|lab
bob|research|long||normal|lab
"""
ASSOCIATIONS = RECORDED.replace("|||", "||").replace("long||", "long|")


def known(limits: str, groups: frozenset[str] | None = frozenset({"users"}), accounts: str = "") -> Known:
    theirs = tuple(Association(name, "", ("normal", "high")) for name in accounts.split())
    return Known(groups, theirs, nodes.parse_partitions(PARTITION.format("sxm2", limits)))


def partitions_of(site: Site, known: Known, person: Identity = ALICE) -> list[str]:
    return [partition.name for partition in site_of(site, person, known).partitions]


@pytest.mark.parametrize(
    ("limits", "is_offered"),
    [
        ("AllowGroups=ALL AllowAccounts=ALL", True),
        ("AllowGroups=users,staff", True),
        ("AllowGroups=staff", False),
        ("AllowAccounts=ai", True),
        ("AllowAccounts=other", False),
        ("DenyAccounts=ai", True),
        ("DenyAccounts=ai,ml", False),
    ],
)
def test_a_partition_that_slurm_keeps_from_somebody_is_not_offered(site: Site, limits: str, is_offered: bool) -> None:
    assert partitions_of(site, known(limits, accounts="ai ml")) == (["sxm2"] if is_offered else [])


@pytest.mark.parametrize("limits", ["AllowGroups=staff", "AllowAccounts=other", "DenyAccounts=ai"])
def test_what_is_not_known_limits_nothing_for_slurm_has_the_last_word(site: Site, limits: str) -> None:
    assert partitions_of(site, known(limits, groups=None)) == ["sxm2"]
    assert partitions_of(site, Known()) == ["sxm2"]


def test_an_account_that_the_settings_fix_is_the_one_that_slurm_has_to_let_in(tables: dict[str, Any]) -> None:
    tables["partition"][0]["account"] = "portal"
    site = parse(tables)

    assert partitions_of(site, known("AllowAccounts=portal", accounts="ai")) == ["sxm2"]
    assert partitions_of(site, known("AllowAccounts=ai", accounts="ai")) == []


def test_a_star_stands_for_the_accounts_that_somebody_has_and_nothing_where_that_is_not_known(
    tables: dict[str, Any],
) -> None:
    tables["partition"][0] |= {"account": ["ai", "*"], "qos": ["normal", "vip"]}
    site = parse(tables)

    (mine,) = site_of(site, ALICE, known("AllowAccounts=ai,ml", accounts="ml ai old")).partitions
    (silent,) = site_of(site, ALICE, Known()).partitions

    assert (mine.account, mine.qos) == (("ai", "ml"), ("normal",))
    assert (silent.account, silent.qos) == (("ai",), ("normal", "vip"))


def test_a_rule_for_a_group_replaces_what_the_partition_says_and_the_first_that_fits_counts(
    tables: dict[str, Any],
) -> None:
    rules = [
        {"groups": ["class"], "account": "teaching", "hours_max": 2},
        {"people": ["bob"], "groups": ["ai"], "qos": ["long", "normal"], "gpus_max": 1},
    ]
    tables["partition"] = [{"name": "gpu", "account": "all", "rule": rules}]
    site = parse(tables)

    def of(name: str, *groups: str) -> tuple[object, ...]:
        (found,) = site.offered_to(Identity(name, frozenset(groups)))
        return found.account, found.qos, found.hours_max, found.gpus_max

    assert of("alice") == ("all", "", None, None)
    assert of("alice", "class", "ai") == ("teaching", "", 2, None)
    assert of("bob") == ("all", ("long", "normal"), None, 1)
    assert checked({"hours": 2}, site, Identity("carol", frozenset({"class"}))).hours == 2


# -- sacctmgr ---------------------------------------------------------------------------------------------


def test_associations_are_read_by_person_and_lines_of_accounts_are_passed_over() -> None:
    found = parse_associations(ASSOCIATIONS)

    assert set(found) == {"root", "alice", "bob"}
    assert [one.account for one in found["alice"]] == ["onerun", "research"]
    assert found["bob"] == (Association("research", "long", ("normal",)),)
    assert parse_associations("") == {}


@pytest.mark.parametrize("text", ["sacctmgr: error: slurm_persist_conn_open", "alice|research", "a|b|c|d|e|f"])
def test_what_is_no_association_is_refused_with_the_text(text: str) -> None:
    with pytest.raises(SlurmUnavailable):
        parse_associations(text)


def test_an_odd_name_of_an_account_hides_no_other_account(caplog: pytest.LogCaptureFixture) -> None:
    odd = "|a|b||normal|demo\nbob|a|b||normal|demo\nbob|c d||normal|demo\ncarol|e\n"

    for _ in range(2):
        assert parse_associations(odd + ASSOCIATIONS) == parse_associations(ASSOCIATIONS)

    assert caplog.text.count("sacctmgr printed 'bob|a|b||normal|demo'") == 1


def test_the_cluster_is_called_as_slurm_calls_it() -> None:
    assert parse_cluster("AccountingStorageHost   = x\nClusterName             = demo\n") == "demo"
    with pytest.raises(SlurmUnavailable):
        parse_cluster("")


# -- asking -----------------------------------------------------------------------------------------------


class AskedSlurm:
    """Slurm's commands as a few answers; one that is ``None`` never comes."""

    def __init__(self, **answers: str | None) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def __call__(
        self, argv: Sequence[str], stdin: str = "", env: Mapping[str, str] | None = None, timeout_s: float = 10
    ) -> Result:
        name = argv[0] if argv[0] == "sacctmgr" else argv[-1]
        self.asked.append(name)
        answer = self.answers.get(name, "")
        if answer is None:
            await asyncio.Event().wait()
        return Result(0, answer or "", "")


def asked_slurm(limits: str = "", silent: str = "") -> AskedSlurm:
    standard: dict[str, str | None] = {
        "partition": PARTITION.format("sxm2", limits),
        "reservation": "No reservations in the system\n",
        "config": "ClusterName = demo\n",
        "sacctmgr": ASSOCIATIONS,
    }
    return AskedSlurm(**standard | ({silent: None} if silent else {}))


@pytest.fixture(autouse=True)
def shortly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question is waited for but shortly."""
    monkeypatch.setattr(slurm_limits, "WITHIN_S", 0.05)


async def test_a_site_that_sets_nothing_asks_for_its_partitions_once(site: Site) -> None:
    slurm = asked_slurm()
    limits = SlurmLimits(Cluster("/opt/portal-launch", run=slurm))

    for _ in range(3):
        assert [one.name for one in (await limits.site_of(site, ALICE)).partitions] == ["sxm2"]

    assert slurm.asked == ["partition", "reservation"]


async def test_unix_groups_are_asked_for_where_a_partition_has_a_list_of_them_and_are_kept(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def groups_of(name: str, within_s: float) -> frozenset[str] | None:
        asked.append(name)
        return {"alice": frozenset({"users"}), "bob": frozenset({"staff"})}.get(name)

    monkeypatch.setattr(slurm_limits, "groups_of", groups_of)
    limits = SlurmLimits(Cluster("/opt/portal-launch", run=asked_slurm("AllowGroups=staff")))

    found = {
        name: [one.name for one in (await limits.site_of(site, Identity(name))).partitions]
        for name in ("alice", "bob", "carol", "alice")
    }

    assert found == {"alice": [], "bob": ["sxm2"], "carol": ["sxm2"]}, "nobody knows carol's groups"
    assert asked == ["alice", "bob", "carol"]


async def test_a_silent_slurmdbd_or_a_silent_slurm_costs_nobody(tables: dict[str, Any]) -> None:
    tables["partition"][0] |= {"account": ["ai", "*"]}
    site = parse(tables)

    for silent in ("sacctmgr", "config", "partition"):
        limits = SlurmLimits(Cluster("/opt/portal-launch", run=asked_slurm(silent=silent)))
        async with asyncio.timeout(5):
            (found,) = (await limits.site_of(site, Identity("carol"))).partitions
        assert found.account == ("ai",), "what the settings say is offered"


async def test_accounts_come_from_accounting_in_one_answer_for_all(tables: dict[str, Any]) -> None:
    tables["partition"][0] |= {"account": ["*"]}
    site = parse(tables)
    slurm = asked_slurm()
    limits = SlurmLimits(Cluster("/opt/portal-launch", run=slurm))

    offered = [(await limits.site_of(site, Identity(name))).partitions[0].account for name in ("alice", "bob", "carol")]

    assert offered == [("onerun", "research"), (), ()]
    assert slurm.asked.count("sacctmgr") == 1
