"""What a site sets beyond the form of every site, on the real Slurm: the job has it, and the launcher nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from portal.errors import SubmitRefused
from portal.limits.slurm_limits import SlurmLimits
from portal.request import checked
from portal.site import Identity, Site
from portal.slurm.cluster import Cluster
from portal.slurm.submission import submission
from tests.inside import as_portal, eventually, settings, sh

ALICE = Identity("alice", frozenset({"jupyter"}))
SETTINGS = """
[portal]
launcher = "{launcher}"

[[partition]]
name = "requestq"
account = ["nobodys", "*"]
qos = ["normal", "portal"]
reservation = ["", "class"]
constraint = "nvlink"
comment = "from the portal; $(id)"
exclusive = "user"
cores_max = 8
memory_gb_max = 16
mail_type = ["", "END"]
options = ["--nice=7"]

[[partition]]
name = "iq"
exclusive = "node"

[ldap]
servers = ["ldaps://ldap.cluster.example"]
ca_file = "/etc/ssl/ca.pem"
user_dn = "uid={{username}},ou=people,dc=cluster,dc=example"
bind_dn = "cn=portal,dc=cluster,dc=example"
bind_password_file = "/etc/dsportal/bind_password"
mail_attribute = "mail"
"""


@pytest.fixture(scope="module")
def rich(site: Site) -> Iterator[Site]:
    """A site with accounts, a QOS, a reservation and a feature, in Slurm and in the settings."""
    made: list[tuple[str, ...]] = [
        ("sacctmgr", "--immediate", "add", "account", "ai"),
        ("sacctmgr", "--immediate", "add", "qos", "portal"),
        ("sacctmgr", "--immediate", "add", "user", "alice", "account=ai"),
        ("sacctmgr", "--immediate", "modify", "user", "alice", "set", "qos+=portal"),
        ("scontrol", "update", "NodeName=gpu[01-04]", "AvailableFeatures=nvlink", "ActiveFeatures=nvlink"),
        ("scontrol", "create", "reservation", "ReservationName=class", "StartTime=now", "Duration=60",
         "Users=alice", "Nodes=gpu04", "Flags=ignore_jobs"),
    ]  # fmt: skip
    for what in made:
        sh(*what)
    try:
        with settings(SETTINGS.format(launcher=site.portal.launcher)) as found:
            yield found
    finally:
        sh("scancel", "--user=alice")
        undone: list[tuple[str, ...]] = [
            ("scontrol", "delete", "ReservationName=class"),
            ("sacctmgr", "--immediate", "delete", "user", "alice"),
            ("sacctmgr", "--immediate", "delete", "account", "ai"),
            ("sacctmgr", "--immediate", "delete", "qos", "portal"),
            ("scontrol", "update", "NodeName=gpu[01-04]", "AvailableFeatures=", "ActiveFeatures="),
        ]
        for what in undone:
            eventually(partial(succeeds, what), " ".join(what))


def succeeds(argv: tuple[str, ...]) -> bool:
    """Whether Slurm does it: not while a job of before still ends."""
    return "rror" not in sh(*argv, check=False)


@pytest.fixture
def cluster(site: Site) -> Cluster:
    """The hub's side, acting as the hub's own account."""
    return Cluster(site.portal.launcher, run=as_portal)


async def test_a_job_has_the_account_the_qos_and_all_that_the_site_sets(rich: Site, cluster: Cluster, key: str) -> None:
    own = await SlurmLimits(cluster).site_of(rich, ALICE)
    asked = {"partition": "requestq", "gpus": 0, "hours": 1, "cores": 5, "memory_gb": 9}
    choices = {"account": "ai", "qos": "portal", "reservation": "class", "mail_type": "END"}
    request = checked(asked | choices, own, ALICE)

    assert own.partition("requestq").account == ("ai",), "of her accounts, not one that is nobody's"
    job_id = await cluster.submit("alice", submission(request, own, key, {}, "alice@cluster.example"))

    said = sh("scontrol", "--oneliner", "show", "job", job_id)
    wanted = {
        "Account=ai",
        "QOS=portal",
        "Reservation=class",
        "Features=nvlink",
        "Nice=7",
        "NumCPUs=5",
        "TimeLimit=01:00:00",
        "MailUser=alice@cluster.example",
        "MailType=END",
    }
    assert wanted - set(said.split()) == set()
    assert "mem=9G" in said
    assert "Comment=from the portal; $(id)" in said
    assert "OverSubscribe=USER" in said
    await cluster.finish("alice", key, job_id)


async def test_a_whole_node_comes_with_all_its_memory(rich: Site, cluster: Cluster, key: str) -> None:
    request = checked({"partition": "iq", "gpus": 0, "hours": 1}, rich, ALICE)

    job_id = await cluster.submit("alice", submission(request, rich, key, {}))

    said = sh("scontrol", "--oneliner", "show", "job", job_id)
    assert "OverSubscribe=NO" in said
    assert "MinMemoryNode=0" in said
    await cluster.finish("alice", key, job_id)


@pytest.mark.parametrize(
    "option", ["--qos=vip", "--cpus-per-task=9", "--time=6000", "--nice=-5", "--partition=sxm2", "--clusters=other"]
)
async def test_the_launcher_holds_the_hub_to_roots_file(rich: Site, cluster: Cluster, key: str, option: str) -> None:
    made = submission(checked({"partition": "requestq", "gpus": 0, "hours": 1}, rich, ALICE), rich, key, {})
    others = [one for one in made.options if one.partition("=")[0] != option.partition("=")[0]]

    with pytest.raises(SubmitRefused, match="portal-launch: option"):
        await cluster.submit("alice", replace(made, options=(*others, option)))


async def test_a_file_that_the_hubs_account_could_change_says_nothing(rich: Site, cluster: Cluster, key: str) -> None:
    made = submission(checked({"partition": "requestq", "gpus": 0, "hours": 1}, rich, ALICE), rich, key, {})
    sh("chmod", "g+w", "/etc/dsportal/site.toml")
    try:
        with pytest.raises(SubmitRefused, match=r"is not root's alone|is not one that a session may have"):
            await cluster.submit("alice", made)
    finally:
        sh("chmod", "g-w", "/etc/dsportal/site.toml")


async def test_a_partition_that_slurm_opens_to_a_group_is_offered_to_its_members_alone(site: Site) -> None:
    groups = Path("/etc/group")
    before = groups.read_text()
    groups.write_text(f"{before}testers:x:4711:bob\n")
    sh("scontrol", "update", "PartitionName=requestq", "AllowGroups=testers")
    try:
        limits = SlurmLimits(Cluster(site.portal.launcher, run=as_portal))
        offered = {
            name: [one.name for one in (await limits.site_of(site, Identity(name))).partitions]
            for name in ("alice", "bob")
        }
    finally:
        sh("scontrol", "update", "PartitionName=requestq", "AllowGroups=ALL")
        groups.write_text(before)

    assert ("requestq" in offered["alice"], "requestq" in offered["bob"]) == (False, True)
    assert "sxm2" in offered["alice"]
