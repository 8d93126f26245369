"""portal doctor: every check says what it found and how to repair it, and none keeps another from its look."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from portal.doctor import database_checks, host_checks, kernel_checks, report, site_checks
from portal.doctor.check import Check, dated
from portal.errors import SlurmUnavailable
from portal.site import Site
from portal.slurm.nodes import Partition
from portal.slurm.runner import Result, RunError
from portal.testing.fake_slurm import FakeSlurm
from portal.testing.outages import SlurmGarbage

UP = "Slurmctld(primary) at head is UP\n"
SHOWN = "PluginDir = x\nPrivateData             = none\n"
PARTITIONS = "".join(
    f"PartitionName={name} Default=NO Hidden=NO MaxTime={limit} State=UP TotalNodes=1\n"
    for name, limit in (("sxm2", "1-00:00:00"), ("hipri", "12:00:00"))
)
RULE = "User portal may run the following commands on head:\n    (%people, !root, !#0) NOPASSWD: /opt/portal-launch\n"


class ScriptedHost:
    """Answers the commands of the checks; a program it was not told of is not installed."""

    def __init__(self, **answers: str) -> None:
        self.answers = answers

    async def __call__(
        self, argv: Sequence[str], stdin: str = "", env: Mapping[str, str] | None = None, timeout_s: float = 10
    ) -> Result:
        name = {"ping": "ping", "--version": "version", "config": "config"}.get(argv[-1], argv[0])
        if name not in self.answers:
            raise RunError(f"{argv[0]} cannot be started: No such file or directory")
        return Result(0, self.answers[name], "")


def changed(site: Site, **values: Any) -> Site:
    """The same site with other values in [portal]."""
    return site.model_copy(update={"portal": site.portal.model_copy(update=values)})


def results(found: Sequence[Check]) -> dict[str, str]:
    return {check.what: check.result for check in found}


# -- all of them ----------------------------------------------------------------------------------------


async def test_a_settings_file_with_faults_is_told_and_what_needs_no_settings_is_still_checked(tmp_path: Path) -> None:
    file = tmp_path / "site.toml"
    file.write_text('[portal]\nport = "x"\nprot = 1\n')

    found = {
        check.what: check
        for check in await report.examine(str(file), ScriptedHost(ping=UP, version="slurm 24.05", config=SHOWN))
    }

    assert found["settings"].result == "failed"
    assert "portal.prot: unknown key; did you mean 'port'?" in found["settings"].repair
    assert "portal.port: 'x' is not possible" in found["settings"].repair
    assert (found["LDAP"].result, found["LDAP"].found) == ("warning", "not checked")
    assert (found["Slurm"].result, found["Slurm version"].result) == ("ok", "ok")


async def test_a_group_that_cannot_be_looked_at_is_a_finding_and_the_others_go_on(tmp_path: Path) -> None:
    file = tmp_path / "site.toml"
    file.write_text(f'[portal]\nstate_folder = "{tmp_path}/none"\n[[partition]]\nname = "sxm2"\n')

    found = {check.what: check for check in await report.examine(str(file), ScriptedHost(scontrol=PARTITIONS))}

    assert found["Slurm"].found == "scontrol cannot be started: No such file or directory"
    assert found["Slurm"].repair == "Put Slurm's commands into this account's PATH."
    assert found["launcher"].found == "/opt/dsportal/bin/portal-launch: No such file or directory"
    assert found["partition sxm2"].result == "ok"
    assert found["state folder"].result == "failed"
    assert found["LDAP"].found == "the settings name no server"


async def test_what_the_hub_reads_from_slurm_is_read_and_what_cannot_be_read_is_shown(site: Site) -> None:
    slurm = FakeSlurm()
    slurm.take("alice", {"job-name": "dsportal-0123456789abcdef"})

    (good,) = await site_checks.answers(site, slurm)
    slurm.outage = SlurmGarbage("<html>")
    (bad,) = await site_checks.answers(site, slurm)

    assert good.result == "ok"
    assert good.found.startswith("read: 1 jobs, 4 nodes, 4 partitions, 0 reservations; sessions of a portal: 1")
    assert bad.result == "failed"
    assert "<html>" in bad.found


async def test_the_names_of_nodes_that_this_host_cannot_resolve_are_named(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def getaddrinfo(name: str, port: None) -> None:
        if name in ("gpu02", "gpu04"):
            raise socket.gaierror("Name or service not known")

    monkeypatch.setattr("portal.doctor.site_checks.socket.getaddrinfo", getaddrinfo)
    (bad,) = await site_checks.node_names(site, FakeSlurm())
    assert (bad.result, bad.found) == ("failed", "cannot be resolved: gpu02, gpu04")

    monkeypatch.setattr("portal.doctor.site_checks.socket.getaddrinfo", lambda name, port: None)
    (good,) = await site_checks.node_names(site, FakeSlurm())
    assert (good.result, good.found) == ("ok", "4 names of nodes have an address here")


@pytest.mark.parametrize(
    ("value", "result"), [("none", "ok"), ("usage,users", "ok"), ("accounts,jobs", "warning"), ("all", "warning")]
)
def test_a_slurm_that_may_hide_jobs_from_the_hub_is_warned_of(value: str, result: str) -> None:
    assert site_checks.private_data(SHOWN.replace("none", value)).result == result


def test_every_line_is_aligned_and_only_what_is_not_ok_has_a_repair_below_it() -> None:
    found = [Check("Slurm", "ok", "up", "never shown"), Check("storage isilon", "failed", "gone", "Mount it.")]

    assert list(report.lines(found)) == [
        "ok       Slurm           up",
        "failed   storage isilon  gone",
        "           Mount it.",
        "2 checks: 1 ok, 0 warning, 1 failed",
    ]


def test_what_others_chose_does_not_steer_the_terminal() -> None:
    found = [Check("files", "warning", "x\x1b]0;title\x07\x1b[2J.py leads out", "Remove\nx\x1b[2J\x9b2J")]

    assert list(report.lines(found))[:3] == [
        "warning  files  x?]0;title??[2J.py leads out",
        "           Remove",
        "           x?[2J?2J",
    ]


def test_marks_have_colours_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def one_check(path: str, person: str) -> list[Check]:
        return [Check("Slurm", "warning", "slow", "Wait.")]

    monkeypatch.setattr(report, "examine", one_check)
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = []
    for is_terminal, no_color in ((False, ""), (True, ""), (True, "1")):
        monkeypatch.setattr("sys.stdout.isatty", lambda answer=is_terminal: answer)
        monkeypatch.setenv("NO_COLOR", no_color)
        assert report.main("site.toml") == 0
        shown.append("\x1b[" in capsys.readouterr().out)

    assert shown == [False, True, False]


@pytest.mark.parametrize(("result", "status"), [("ok", 0), ("warning", 0), ("failed", 1)])
def test_the_exit_status_is_1_when_something_failed(monkeypatch: pytest.MonkeyPatch, result: Any, status: int) -> None:
    async def one_check(path: str, person: str) -> list[Check]:
        return [Check("Slurm", result, "found")]

    monkeypatch.setattr(report, "examine", one_check)

    assert report.main("site.toml") == status


# -- Slurm ----------------------------------------------------------------------------------------------


async def test_a_controller_that_is_down_is_told_in_slurms_own_words(site: Site) -> None:
    down = ScriptedHost(ping="Slurmctld(primary) at head is DOWN\n", version="slurm 23.11.4\n", config="")

    answer, version, shows = await site_checks.slurm(site, down)

    assert (answer.result, answer.found) == ("failed", "Slurmctld(primary) at head is DOWN")
    assert (version.result, version.found) == ("ok", "slurm 23.11.4")
    assert (shows.result, shows.found) == ("warning", "PrivateData = unknown")


@pytest.mark.parametrize(
    ("text", "result"),
    [("slurm-wlm 22.05.8", "ok"), ("slurm 25.11.0-1", "ok"), ("slurm 21.08.5", "failed"), ("", "failed")],
)
def test_slurm_is_at_least_as_new_as_what_the_portal_was_tried_with(text: str, result: str) -> None:
    assert site_checks.slurm_version(text).result == result


def known(name: str, state: str, time_limit_min: int | None) -> Partition:
    return Partition(name, state, nodes=1, time_limit_min=time_limit_min, is_hidden=False, is_default=False)


async def test_partitions_that_cannot_be_read_are_a_finding_and_no_partition_is_made_up(site: Site) -> None:
    words = "slurm_load_partitions: Unable to contact slurm controller"

    with pytest.raises(SlurmUnavailable) as caught:
        await site_checks.partitions(site, ScriptedHost(scontrol=words))

    assert words in caught.value.detail


@pytest.mark.parametrize(
    ("partitions", "result", "said"),
    [
        ([known("sxm2", "up", 24 * 60)], "ok", "up, sessions of up to 24 h"),
        ([known("sxm2", "up", None)], "ok", "24 h"),
        (
            [known("sxm2", "up", 12 * 60 + 30)],
            "warning",
            "allows 12.5 h, the portal offers 24 h Set hours_max = 12",
        ),
        ([known("sxm2", "drain", 24 * 60)], "warning", "it is drain: sessions wait scontrol update"),
        ([known("gpu", "up", 24 * 60), known("cpu", "up", 24 * 60)], "failed", "Slurm has: gpu, cpu."),
    ],
)
def test_a_partition_of_the_site_is_one_of_slurms_open_and_long_enough(
    site: Site, partitions: list[Partition], result: str, said: str
) -> None:
    check = site_checks.partition(site.partition("sxm2"), 24, {one.name: one for one in partitions})

    assert check.result == result
    assert said in f"{check.found} {check.repair}"


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ("ALL", None),
        ("root,daemon", None),
        ("no-such-group", "to no-such-group (AllowGroups), which is no UNIX group of this host: nobody is offered it"),
        ("root,no-such-group", "none of their people is offered it"),
    ],
)
async def test_a_partition_that_slurm_opens_to_groups_which_this_host_does_not_know_is_told(
    site: Site, groups: str, said: str | None
) -> None:
    shown = PARTITIONS.replace("PartitionName=sxm2 ", f"PartitionName=sxm2 AllowGroups={groups} ")

    checks = await site_checks.partitions(site, ScriptedHost(scontrol=shown))

    told = [check for check in checks if "AllowGroups" in check.found]
    assert [check.result for check in told] == (["warning"] if said else [])
    assert not said or said in told[0].found


async def test_a_site_without_partitions_is_told_which_there_are() -> None:
    (check,) = await site_checks.partitions(Site(), ScriptedHost(scontrol=PARTITIONS))

    assert (check.result, "sxm2, hipri" in check.repair) == ("failed", True)


# -- LDAP and storage -----------------------------------------------------------------------------------


async def test_each_ldap_server_that_cannot_be_used_is_named_with_its_fault(site: Site, tmp_path: Path) -> None:
    assert site.ldap
    missing = site.ldap.model_copy(update={"ca_file": str(tmp_path / "no-ca.crt")})

    found = await site_checks.ldap(site.model_copy(update={"ldap": missing}), ScriptedHost())

    servers = {f"LDAP ldap://ldap{number}.example.org:389": "failed" for number in (1, 2)}
    assert results(found) == {**servers, "LDAP, who left": "warning"}
    assert "no-ca.crt" in found[0].found
    assert "ldap.ca_file" in found[0].repair


def test_an_account_for_the_directory_whose_password_others_may_read_is_a_fault(site: Site, tmp_path: Path) -> None:
    assert site.ldap
    secret = tmp_path / "bind_password"
    secret.write_text("s3cret\n")
    secret.chmod(0o644)
    settings = site.ldap.model_copy(update={"bind_dn": "cn=portal", "bind_password_file": str(secret)})

    check = site_checks.who_left(settings)

    assert check.result == "failed"
    assert "has mode 0644; allowed: 0600" in check.found
    assert "chmod 600" in check.repair
    assert "s3cret" not in check.found


def test_an_account_for_the_directory_that_no_server_lets_in_is_a_fault(site: Site, tmp_path: Path) -> None:
    assert site.ldap
    secret = tmp_path / "bind_password"
    secret.write_text("s3cret\n")
    secret.chmod(0o600)
    missing = {"ca_file": str(tmp_path / "no-ca.crt"), "bind_dn": "cn=portal", "bind_password_file": str(secret)}

    check = site_checks.who_left(site.ldap.model_copy(update=missing))

    assert (check.result, len(check.found.splitlines())) == ("failed", 2)
    assert "docs/howto/ldap.md" in check.repair


@pytest.mark.parametrize(("days", "result"), [(-1, "failed"), (5, "warning"), (300, "ok")])
def test_a_certificate_is_told_before_it_ends(days: int, result: str) -> None:
    end = datetime.now(UTC) + timedelta(days=days, hours=1)

    check = dated("HTTPS", "it is valid", end)

    assert check.result == result
    assert f"{end:%Y-%m-%d}" in check.found


def test_a_storage_folder_that_is_not_there_fails(tmp_path: Path) -> None:
    assert site_checks.storage_folder("isilon", tmp_path).result == "ok"
    assert site_checks.storage_folder("isilon", tmp_path / "nothing").result == "failed"


# -- this host ------------------------------------------------------------------------------------------


def test_running_as_root_is_a_warning(monkeypatch: pytest.MonkeyPatch, site: Site) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    account, _ = host_checks.installation(site)

    assert (account.result, account.found) == ("warning", "running as root")


@pytest.mark.parametrize(
    ("uid", "mode", "loose"),
    [
        (0, stat.S_IFREG | 0o755, False),
        (961, stat.S_IFREG | 0o755, True),
        (0, stat.S_IFREG | 0o775, True),
        (0, stat.S_IFDIR | 0o777, True),
        (0, stat.S_IFDIR | 0o1777, False),
    ],
)
def test_what_somebody_else_than_root_can_change_is_loose(uid: int, mode: int, loose: bool) -> None:
    found: Any = SimpleNamespace(st_uid=uid, st_mode=mode)

    assert host_checks.is_loose(found) is loose


def test_whatever_of_the_code_somebody_else_than_root_can_change_is_counted_and_one_is_named(
    site: Site, tmp_path: Path
) -> None:
    library = tmp_path / "lib" / "python3.11" / "site-packages" / "jupyterhub.py"
    library.parent.mkdir(parents=True)
    library.touch(0o644)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to("/usr/bin/python3")
    ours = changed(site, launcher=str(tmp_path / "bin" / "portal-launch"))
    is_ours = os.geteuid() == 0  # what an ordinary user makes is not root's
    before = host_checks.environment(ours)[0]
    library.chmod(0o664)

    check = host_checks.environment(ours)[0]

    assert before.result == ("ok" if is_ours else "failed")
    assert check.result == "failed"
    assert f"chmod -R go-w {tmp_path}" in check.repair
    if is_ours:
        assert check.found == f"others than root can change {library}"


@pytest.mark.parametrize(
    "what",
    ["bin/python3.11", "lib/libpython3.11.so.1.0", "lib/python3.11", "lib/python3.11/os.py", "lib/python3.11/abc.py"],
)
def test_the_python_that_an_environment_is_made_of_is_code_that_runs_as_people_too(
    site: Site, tmp_path: Path, what: str
) -> None:
    """A site's own Python, which another account may keep; what others have of its packages no environment sees."""
    base, made = tmp_path / "python", tmp_path / "dsportal"
    for file in (
        "lib/libpython3.11.so.1.0",
        "bin/python3.11",
        "lib/python3.11/os.py",
        "lib/python3.11/abc.py",
        "lib/python3.11/site-packages/a.py",
    ):
        (base / file).parent.mkdir(parents=True, exist_ok=True)
        (base / file).touch(0o755)
    (base / "lib/python3.11/site-packages").chmod(0o775)
    (made / "bin").mkdir(parents=True)
    (made / "bin/python").symlink_to(base / "bin/python3.11")
    (made / "bin/portal-launch").touch(0o755)
    ours = changed(site, launcher=str(made / "bin/portal-launch"))

    def found() -> list[str]:
        (launcher,), (code,) = host_checks.launcher(ours), host_checks.environment(ours)
        return [*launcher.repair.splitlines(), *code.repair.splitlines(), code.found]

    before = found()
    (base / what).chmod(0o777)
    after = found()

    assert any(str(base / what) in line for line in after)
    if os.geteuid() == 0:  # what an ordinary user makes is not root's
        assert not any(str(base) in line for line in before[:-1])


def test_a_launcher_that_others_can_change_fails_and_says_which_folder(site: Site, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "portal-launch"
    program.parent.mkdir()
    program.touch(0o755)
    program.parent.chmod(0o777)

    check = host_checks.launcher(changed(site, launcher=str(program)))[0]

    assert check.result == "failed"
    assert "others than root can change" in check.found
    assert "chmod go-w" in check.repair
    assert str(program.parent) in check.repair.splitlines()


def test_a_launcher_below_a_link_is_looked_at_all_the_way_that_the_link_leads(
    tmp_path: Path,
) -> None:
    program = tmp_path / "theirs" / "dsportal" / "bin" / "portal-launch"
    program.parent.mkdir(parents=True)
    program.touch(0o755)
    program.parents[2].chmod(0o777)
    (tmp_path / "dsportal").symlink_to(program.parents[1])

    loose = host_checks.loose_on_the_way(tmp_path / "dsportal" / "bin" / "portal-launch")

    assert str(program.parents[2]) in loose


@pytest.mark.parametrize(
    ("listing", "result", "said"),
    [
        (RULE, "ok", "as %people, !root, !#0, and nothing else"),
        (RULE.replace("NOPASSWD: ", "NOPASSWD:\n        "), "ok", "nothing else"),
        (RULE.replace("launch\n", 'launch ""\n'), "ok", "nothing else"),
        ("Sorry, user portal may not run sudo on head.\n", "failed", "NOPASSWD: /opt/portal-launch"),
        (RULE.replace("NOPASSWD: ", ""), "failed", "NOPASSWD"),
        (RULE.replace("launch\n", "launch, /usr/bin/id\n"), "warning", "more than the launcher: /usr/bin/id"),
        (RULE + "    (ALL : ALL) NOPASSWD: ALL\n", "warning", "more than the launcher: ALL"),
        (RULE.replace("%people, !root, !#0", "ALL"), "warning", "as root"),
        (RULE.replace(", !#0", ""), "warning", "another account with the uid 0"),
    ],
)
async def test_sudo_allows_the_launcher_as_people_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, site: Site, listing: str, result: str, said: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 961)

    (check,) = await host_checks.sudo(changed(site, launcher="/opt/portal-launch"), ScriptedHost(sudo=listing))

    assert check.result == result
    assert said in f"{check.found} {check.repair}"


async def test_a_proxy_that_does_not_start_is_told_with_its_last_words(site: Site) -> None:
    class Broken(ScriptedHost):
        async def __call__(self, argv: Sequence[str], *_: Any, **__: Any) -> Result:
            return (
                Result(1, "", "node:internal\nError: Cannot find module\n") if len(argv) > 2 else Result(0, "v22\n", "")
            )

    node, proxy = await host_checks.proxy(site, Broken())

    assert (node.result, proxy.result) == ("ok", "failed")
    assert "Cannot find module" in proxy.found


def test_a_port_is_free_or_in_use_or_our_own() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        number = other.getsockname()[1]
        foreign = host_checks.port("portal.port", "127.0.0.1", number, [])
        ours = host_checks.port("portal.port", "127.0.0.1", number, [os.getpid()])
    free = host_checks.port("portal.port", "127.0.0.1", number, [])

    assert (foreign.result, ours.result, free.result) == ("failed", "ok", "ok")
    assert f"sport = :{number}" in foreign.repair
    assert f"process {os.getpid()}" in ours.found


def test_an_address_of_another_host_cannot_be_bound() -> None:
    check = host_checks.port("portal.port", "192.0.2.1", 8000, [])

    assert (check.result, "no address of this host" in check.repair) == ("failed", True)


def test_our_own_processes_are_those_that_the_state_folder_names(tmp_path: Path) -> None:
    (tmp_path / "hub.pid").write_text("17")
    (tmp_path / "proxy.pid").write_text("nonsense")

    assert host_checks.own_processes(tmp_path) == [17]
    assert host_checks.own_processes(tmp_path / "nothing") == []


@pytest.mark.parametrize(
    ("host", "ca_file", "result"),
    [
        ("db.example.org", "", "warning"),
        ("db.example.org", "/etc/ca.pem", "ok"),
        ("localhost", "", "ok"),
        ("", "", "ok"),
    ],
)
def test_a_database_on_another_host_should_prove_its_name(site: Site, host: str, ca_file: str, result: str) -> None:
    there = changed(site, database_url=f"postgresql://portal@{host}/portal", database_ca_file=ca_file)

    found = {check.what: check.result for check in database_checks.database(there)}

    assert found[database_checks.WHAT_TLS] == result


def test_the_state_folder_is_there_and_closed(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    closed = host_checks.state_folder(tmp_path)
    tmp_path.chmod(0o755)

    assert (closed.result, host_checks.state_folder(tmp_path).result) == ("ok", "warning")
    assert "install -d" in host_checks.state_folder(tmp_path / "nothing").repair


def test_the_kernels_folder_has_every_kernel_and_nobody_else_can_change_it(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = site.model_copy(update={"kernels": site.kernels.model_copy(update={"folder": str(tmp_path)})})
    folder = tmp_path / "kernels"
    assert "not in" in host_checks.kernels_folder(folder, site).found
    for kernel in site.kernel:
        (folder / kernel.name).mkdir(parents=True)
        (folder / kernel.name / "kernel.json").write_text('{"metadata": {"dsportal": {}}}')
    monkeypatch.setattr(host_checks, "closed_on_the_way", lambda _: "")  # pytest's own folders are closed

    found = {}
    for mode in (0o755, 0o777, 0o700):
        folder.chmod(mode)
        found[mode] = host_checks.kernels_folder(folder, site).result

    assert found == {0o755: "ok", 0o777: "failed", 0o700: "failed"}


def test_a_folder_that_people_cannot_pass_is_named(tmp_path: Path) -> None:
    (tmp_path / "closed" / "kernels").mkdir(parents=True)
    (tmp_path / "closed").chmod(0o700)

    assert host_checks.closed_on_the_way(Path("/usr/bin/env")) == ""
    assert host_checks.closed_on_the_way(tmp_path / "closed" / "kernels") != ""


# -- HTTPS ----------------------------------------------------------------------------------------------


@pytest.fixture
def encrypted(site: Site, tmp_path: Path) -> Site:
    """The site with a certificate of its own that is good for a year."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "portal.example.org")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=365))
    pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    (tmp_path / "cert.pem").write_bytes(pem)
    write_key(tmp_path / "key.pem", key)
    return changed(site, certificate=str(tmp_path / "cert.pem"), key=str(tmp_path / "key.pem"))


def write_key(file: Path, key: ec.EllipticCurvePrivateKey) -> None:
    kinds = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    file.write_bytes(key.private_bytes(*kinds))
    file.chmod(0o600)


async def https(site: Site) -> Check:
    """The finding as doctor makes it, faults included."""
    (group,) = (group for group in report.GROUPS if group.what == "HTTPS")
    (check,) = await report._checked(group, site, ScriptedHost())
    return check


async def test_a_good_certificate_is_told_with_its_end(encrypted: Site) -> None:
    check = await https(encrypted)

    assert (check.result, "is valid until" in check.found) == ("ok", True)


async def test_no_certificate_is_a_warning(site: Site) -> None:
    assert (await https(site)).result == "warning"


async def test_a_key_that_everybody_can_read_is_a_warning(encrypted: Site) -> None:
    Path(encrypted.portal.key).chmod(0o644)

    assert "chmod 600" in (await https(encrypted)).repair


async def test_a_key_of_another_certificate_fails(encrypted: Site) -> None:
    write_key(Path(encrypted.portal.key), ec.generate_private_key(ec.SECP256R1()))

    check = await https(encrypted)

    assert (check.result, "mismatch" in check.found.lower()) == ("failed", True)


async def test_a_missing_key_fails_with_the_name_of_the_file(encrypted: Site) -> None:
    Path(encrypted.portal.key).unlink()

    check = await https(encrypted)

    assert (check.result, check.found) == ("failed", f"{encrypted.portal.key}: No such file or directory")


async def test_a_look_that_blocks_does_not_stop_the_others(site: Site) -> None:
    released = threading.Event()

    def blocks(_: Site) -> list[Check]:
        assert released.wait(timeout=10)
        return []

    async def release() -> None:
        released.set()

    await asyncio.gather(report.threaded(blocks)(site, ScriptedHost()), release())


@pytest.mark.parametrize(
    ("portal", "kernels", "words"),
    [
        ({}, {}, ["ok"]),
        ({"internal_ssl": False}, {}, ["warning portal.internal_ssl"]),
        ({}, {"debugger": True}, ["warning kernels.debugger"]),
        ({"internal_ssl": False}, {"debugger": True}, ["warning portal.internal_ssl", "warning kernels.debugger"]),
    ],
)
async def test_what_lets_neighbours_on_a_node_in_is_a_warning(
    site: Site, portal: dict[str, bool], kernels: dict[str, bool], words: list[str]
) -> None:
    changed = {"portal": site.portal.model_copy(update=portal), "kernels": site.kernels.model_copy(update=kernels)}
    (group,) = (group for group in report.GROUPS if group.what == "neighbours")

    found = await report._checked(group, site.model_copy(update=changed), ScriptedHost())

    assert [" ".join([check.result, *check.repair.split()[1:2]]) for check in found] == words


@pytest.mark.parametrize(
    ("shown", "result"),
    [
        ("JobContainerType        = job_container/tmpfs", "ok"),
        ("JobContainerType        = (null)\nNamespaceType           = namespace/linux", "ok"),
        ("JobContainerType        = job_container/cncu", "warning"),
        ("JobContainerType        = job_container/none", "warning"),  # Slurm 22.05
        ("JobContainerType        = (null)", "warning"),  # Slurm 24.11
        ("NamespaceType           = (null)", "warning"),
        ("ProctrackType           = proctrack/cgroup", "warning"),
    ],
)
async def test_where_people_on_a_node_share_tmp_the_doctor_says_what_gives_each_job_its_own(
    site: Site, shown: str, result: str
) -> None:
    (group,) = (group for group in report.GROUPS if group.what == "temporary files")

    (found,) = await report._checked(group, site, ScriptedHost(config=f"PluginDir = x\n{shown}\nPrivateData = none\n"))

    assert (found.what, found.result) == ("temporary files", result)
    assert "Dirs" in found.found + found.repair
    assert "/var/tmp" in found.found + found.repair, "what `Dirs` is by itself leaves it out"
    assert ("JobContainerType=job_container/tmpfs" in found.repair) is (result == "warning")


async def test_where_slurm_does_not_say_whether_jobs_have_their_own_tmp_nor_does_the_doctor(site: Site) -> None:
    (found,) = await kernel_checks.temporary_files(site, ScriptedHost(config=""))
    assert (found.result, found.found) == ("warning", "unknown: Slurm does not say")
