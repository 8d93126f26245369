"""The pure parts: requirements, the lock, accounts, versions, cgroups, and the forwarder on real sockets."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import os
import pwd
import re
import socket
import tomllib
from pathlib import Path
from typing import Any

import pytest

from deploy.demo import (
    apt,
    cgroups,
    cluster_files,
    debs,
    enter_namespaces,
    enter_system,
    fetch_debs,
    people,
    port_forward,
    releases,
    requirements,
    resolve_debs,
    start_plan,
    state_folder,
    unpack_debs,
    verbs,
)
from deploy.demo.console import DemoError
from deploy.demo.requirements import Facts
from tests.demo.harness import DEMO, IS_ROOT, Demo

GOOD = Facts("debian", "12", "x86_64", "ada", False, (), True, 65536, "")
MOVED = (("slapd", "2.5.13-5"), ("munge", "0.5.15-2"))
PROBE = "unshare: unshare failed: Operation not permitted"


def test_debian_12_with_what_is_needed_can_run_the_cluster() -> None:
    assert requirements.reason(GOOD, "rootless", "12") is None
    assert (
        requirements.reason(dataclasses.replace(GOOD, is_root=True, has_newuidmap=False, subuids=0), "root", "12")
        is None
    )


@pytest.mark.parametrize(
    ("change", "variant", "words"),
    [
        ({"system": "ubuntu", "version": "24.04"}, "rootless", "this is ubuntu 24.04"),
        ({"version": "13"}, "rootless", "a cluster of Debian 12 starts on Debian 12, and this is 13"),
        ({"machine": "aarch64"}, "rootless", "this machine is aarch64"),
        ({"missing_tools": ("setpriv",)}, "rootless", "setpriv missing: sudo apt install util-linux"),
        ({"has_newuidmap": False}, "rootless", "sudo apt install uidmap"),
        ({"subuids": 0}, "rootless", "sudo usermod --add-subuids 200000-265535 --add-subgids 200000-265535 ada"),
        ({}, "root", "this is not root"),
        ({"probe": PROBE}, "rootless", "Operation not permitted"),
        ({"probe": PROBE, "is_root": True}, "root", "--privileged"),
        ({"python": "/opt/python/bin"}, "rootless", "Python in /opt/python/bin: make setup PYTHON=/usr/bin/python3"),
        ({"probe": PROBE, "apparmor": True}, "rootless", "sysctl kernel.apparmor_restrict_unprivileged_userns=0"),
    ],
)
def test_what_is_missing_is_said_with_how_to_get_it(change: dict[str, Any], variant: str, words: str) -> None:
    reason = requirements.reason(dataclasses.replace(GOOD, **change), variant, "12")
    assert reason is not None
    assert words in reason
    assert "\n" not in reason


def test_a_probe_that_fails_without_a_word_and_an_account_without_a_name_are_no_errors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requirements, "ROOT_UNSHARE", ["false"])
    assert requirements.probe("root") == "false ended with status 1"
    assert requirements.name_of(4_000_000_000) == "4000000000"


def test_the_largest_range_of_subordinate_ids_counts(tmp_path: Path) -> None:
    file = tmp_path / "subuid"
    file.write_text("ada:1000:10\nbob:5:99999\nada:200000:65536\nbroken\n")
    assert requirements.subids("ada", file) == 65536
    assert requirements.subids("eve", file) == 0
    assert requirements.subids("ada", tmp_path / "none") == 0


def test_debian_13_starts_on_itself_and_whole_on_debian_12_with_an_environment_of_its_python() -> None:
    on_13 = dataclasses.replace(GOOD, version="13", venv_python="3.13")
    assert requirements.reason(on_13, "rootless", "13") is None
    assert requirements.reason(dataclasses.replace(GOOD, venv_python="3.13"), "rootless", "13") is None
    other = requirements.reason(dataclasses.replace(GOOD, venv_python="3.11"), "rootless", "13")
    assert other is not None
    assert "of Python 3.11, and Debian 13 has 3.13: DSPORTAL_VENV names another" in other
    assert "this is ubuntu 24.04" in str(
        requirements.reason(dataclasses.replace(GOOD, system="ubuntu", version="24.04"), "rootless", "13")
    )


@pytest.mark.parametrize(("host", "release"), [("12", "12"), ("13", "13"), ("14", "12"), ("", "12")])
def test_the_cluster_is_of_the_machines_own_debian_where_there_is_a_lock_for_it(host: str, release: str) -> None:
    assert releases.of_host(host) == release


def test_a_whole_system_lies_below_the_packages_on_a_host_of_another_release_only() -> None:
    thirteen = releases.RELEASES["13"]
    assert releases.groups(thirteen, "13", ("cluster",)) == ("cluster",)
    assert releases.groups(thirteen, "12", ("cluster", "browser")) == ("cluster", "browser", "base")
    names = {deb.package for deb in debs.load("base", thirteen.lock)}
    assert {"libc6", "bash", "coreutils", "python3.13", "util-linux", "base-files"} <= names


def test_a_plan_goes_on_in_the_new_root_as_it_was(tmp_path: Path) -> None:
    plan = start_plan.Plan(str(tmp_path), "/checkout", "/venv", "root", ("cluster", "base"), ("memory", "cpu,cpuacct"))
    built = dataclasses.replace(plan, is_built=True)
    assert start_plan.Plan.loads(built.dumps()) == built
    assert built.is_whole
    assert not dataclasses.replace(plan, groups=("cluster",)).is_whole


def test_a_build_on_another_system_knows_the_ways_to_packages_and_nothing_of_the_hosts_programs() -> None:
    given = {"PIP_CERT": "/ca.pem", "DSPORTAL_VENV": "/v", "HOME": "/root", "LD_LIBRARY_PATH": "/x", "PATH": "/opt/bin"}
    kept = enter_system.environment({**given, "PYTHONHOME": "/usr/local", "VIRTUAL_ENV": "/w"})
    assert {name: kept[name] for name in ("PIP_CERT", "DSPORTAL_VENV", "HOME")} == dict(list(given.items())[:3])
    assert not {"LD_LIBRARY_PATH", "PYTHONHOME", "VIRTUAL_ENV"} & kept.keys()
    assert "/opt/bin" not in kept["PATH"]


def test_packages_that_lie_over_the_hosts_system_get_no_accounts_of_their_own(tmp_path: Path) -> None:
    unpack_debs.settle(tmp_path)
    assert not list(tmp_path.iterdir())


STANZAS = """\
Types: deb
# a comment
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates bookworm-backports
Components: main
Signed-By: /usr/share/keyrings/keys.gpg

Types: deb
URIs: https://others.example/node
Suites: nodistro
Components: main
"""
LINES = """\
# deb http://old.example/debian bookworm main
deb [signed-by=/k.gpg] http://mirror.example/debian-security bookworm-security main contrib
deb https://others.example/apt cloud-sdk-bookworm main
deb-src http://mirror.example/debian bookworm main
deb http://mirror.example/debian stable main
"""


def test_the_machines_mirrors_of_debian_are_asked_for_the_other_release_and_nobody_elses(tmp_path: Path) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list").write_text(LINES)
    (tmp_path / "sources.list.d/debian.sources").write_text(STANZAS)
    releases.write_sources(releases.RELEASES["13"], tmp_path / "own", tmp_path)
    assert (tmp_path / "own/sources.list").read_text() == (
        "deb [signed-by=/k.gpg] http://mirror.example/debian-security trixie-security main contrib\n"
        "deb http://mirror.example/debian trixie main\n"
    )
    stanza = STANZAS.split("\n\n")[0].replace("bookworm bookworm-updates bookworm-backports", "trixie trixie-updates")
    assert (tmp_path / "own/debian.sources").read_text() == stanza + "\n"


def test_a_machine_without_a_mirror_of_debian_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "sources.list").write_text("deb http://mirror.example/ubuntu noble main\n")
    with pytest.raises(DemoError, match="name no mirror of Debian"):
        releases.write_sources(releases.RELEASES["13"], tmp_path / "own", tmp_path)
    assert not (tmp_path / "own").exists()


@pytest.mark.parametrize("release", releases.RELEASES.values(), ids=lambda release: release.version)
def test_the_lock_pins_every_package_once_with_size_and_sum(release: releases.Release) -> None:
    pinned = debs.parse(release.lock.read_text())
    by_themselves = resolve_debs.APART | resolve_debs.FOR_A_RING
    apart = [[deb for deb in pinned if deb.group == group] for group in sorted(by_themselves)]
    for some in (*apart, [deb for deb in pinned if deb.group not in by_themselves]):
        assert len({deb.package for deb in some}) == len(some)
    assert len({deb.filename for deb in pinned}) == len({deb.package for deb in pinned}), "two versions of one package"
    whole = {"cluster", "browser", "rootless-test", "lmod", releases.BASE}
    assert {deb.group for deb in pinned} == (whole if release.is_whole else set(debs.GROUPS) - {releases.BASE})
    assert all(re.fullmatch("[0-9a-f]{64}", deb.sha256) and deb.size_bytes > 0 for deb in pinned)
    names = {deb.package for deb in pinned if deb.group == "cluster"}
    assert {"slurmctld", "slapd", "libnss-ldapd", "sudo", "r-cran-irkernel"} <= names
    assert not names & {"libc6", "python3", f"python{release.python}-minimal", "bash", "dpkg"}


def test_everything_is_fetched_without_a_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr("deploy.demo.supervisor.prepare", lambda state, options: asked.append(options.groups))

    assert verbs.main(["--state", str(tmp_path / "state"), "fetch", "--with", "directories"]) == 0
    assert asked == [("cluster", "directories")]


def test_a_line_of_the_lock_that_is_none_is_named() -> None:
    with pytest.raises(ValueError, match="'cluster slurmd' is not"):
        debs.parse("# a comment\ncluster slurmd\n")


def test_a_colon_in_a_version_is_written_as_apt_writes_it() -> None:
    deb = debs.Deb("cluster", "mariadb-common", "1:10.11.19-0+deb12u1", "all", 1, "0" * 64)
    assert deb.filename == "mariadb-common_1%3a10.11.19-0+deb12u1_all.deb"


def test_a_file_that_is_short_or_changed_is_not_taken(tmp_path: Path) -> None:
    sha256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"  # of b"hello"
    deb = debs.Deb("cluster", "x", "1", "all", 5, sha256)
    for content, fits in ((b"hello", True), (b"hell", False), (b"hullo", False)):
        (tmp_path / "x").write_bytes(content)
        assert debs.is_intact(tmp_path / "x", deb) is fits
    assert not debs.is_intact(tmp_path / "none", deb)


def test_a_cache_of_packages_that_may_not_be_read_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(file: Path, **_: Any) -> None:
        raise PermissionError(13, "Permission denied", str(file))

    monkeypatch.setattr(Path, "stat", closed)
    assert not debs.is_intact(tmp_path / "x", debs.Deb("cluster", "x", "1", "all", 5, "0" * 64))


@pytest.mark.parametrize("is_own", [True, False])
def test_of_a_cache_of_packages_only_ones_own_files_are_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_own: bool
) -> None:
    """Somebody else could change a linked one after it was compared."""
    content = b"a package"
    deb = debs.Deb("cluster", "a", "1", "amd64", len(content), hashlib.sha256(content).hexdigest())
    cache, file = tmp_path / deb.filename, tmp_path / "state" / deb.filename
    cache.write_bytes(content)
    file.parent.mkdir()
    monkeypatch.setenv("DSPORTAL_DEB_CACHE", str(tmp_path))
    owner = cache.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner if is_own else owner + 1)

    fetch_debs.take_from_cache(file, deb)

    assert file.read_bytes() == content
    assert file.samefile(cache) is is_own


def test_of_a_choice_of_packages_nobody_knows_which_one_a_host_has() -> None:
    text = ["Package: a\nDepends: b (>= 1), c | d", "Package: b\nPre-Depends: e:any", "Package: c", "Package: e"]
    known = resolve_debs.records("\n\n".join(text))
    assert resolve_debs.closure(["a"], known) == {"a", "b", "c", "e"}
    assert resolve_debs.closure(["a"], known, alternatives=False) == {"a", "b", "e"}


def test_the_archives_versions_are_read_newest_first() -> None:
    text = " slurmd | 22.05.8-4+deb12u3 | http://x main\n slurmd | 22.05.8-4+deb12u2 | http://y main\nN: nothing\n"
    assert apt.parse_madison(text) == {"slurmd": ["22.05.8-4+deb12u3", "22.05.8-4+deb12u2"]}


class MovedArchive(apt.Apt):
    """An archive that has replaced a pinned version by a newer one."""

    def __init__(self) -> None:
        """It asks nobody."""

    def versions(self, packages: list[str]) -> dict[str, list[str]]:
        return {"slapd": ["2.5.13-6", "2.5.13-4"], "munge": ["0.5.15-2"]}


def test_a_version_that_the_archive_has_replaced_is_taken_as_it_is_now(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pins = [debs.Deb("cluster", name, version, "amd64", 1, "0" * 64) for name, version in MOVED]
    assert fetch_debs.available(MovedArchive(), pins, final=False) == {}, "first with fresh lists"
    assert fetch_debs.available(MovedArchive(), pins, final=True) == {"slapd": "2.5.13-6", "munge": "0.5.15-2"}
    assert "slapd 2.5.13-5 is no longer in the archive: 2.5.13-6 is taken instead" in capsys.readouterr().out
    gone = [*pins, debs.Deb("cluster", "gone", "1", "amd64", 1, "0" * 64)]
    with pytest.raises(DemoError, match="do not have: gone"):
        fetch_debs.available(MovedArchive(), gone, final=True)


class StaleLists(apt.Apt):
    """Lists of last month: what they name is no longer at its place, until they are fetched anew."""

    def __init__(self, folder: Path) -> None:
        """Its lists are its own, as those of another release are."""
        self.folder, self.is_own, self.updates = folder, True, 0

    def versions(self, packages: list[str]) -> dict[str, list[str]]:
        return {"x": ["1"]}

    def update(self) -> None:
        self.updates += 1

    def command(self, tool: str, *arguments: str) -> list[str]:
        return ["sh", "-c", "printf hello > x_1_all.deb"] if self.updates else ["sh", "-c", "echo 404 >&2; exit 100"]


def test_who_looks_for_the_demo_finds_all_of_its_note_or_none(tmp_path: Path) -> None:
    state = state_folder.State(tmp_path)
    state.write_run(state_folder.Run(1, 2, "root", 8000))
    (tmp_path / "as_it_was").hardlink_to(tmp_path / "run.json")

    state.write_run(state_folder.Run(3, 4, "root", 8000))

    assert '"supervisor_pid": 1,' in (tmp_path / "as_it_was").read_text(), "it was replaced, not written over"
    assert '"supervisor_pid": 3,' in (tmp_path / "run.json").read_text()
    assert {file.name for file in tmp_path.iterdir()} == {"as_it_was", "run.json"}


def test_lists_of_our_own_that_are_too_old_are_fetched_anew(tmp_path: Path) -> None:
    state = state_folder.State(tmp_path)
    state.debs.mkdir()
    sha256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"  # of b"hello"
    archive = StaleLists(tmp_path)
    pinned = debs.Deb("cluster", "x", "1", "all", 5, sha256)
    assert fetch_debs.download(archive, state, [pinned]) == {"x": "x_1_all.deb"}
    assert archive.updates == 1


def test_the_hosts_people_and_clashing_accounts_are_left_out_of_passwd() -> None:
    host = "root:x:0:0::/root:/bin/bash\nada:x:1000:1000::/home/ada:/bin/bash\nmunge:x:105:110::/:/bin/false\n"
    host += "other:x:961:961::/:/bin/false\nnobody:x:65534:65534::/:/usr/sbin/nologin\n"
    names = [line.split(":")[0] for line in people.passwd(host).splitlines()]
    assert names == ["root", "nobody", *people.SYSTEM]
    assert "portal:x:961:961::/cluster/hub:/usr/sbin/nologin" in people.passwd(host)
    assert people.shadow(people.passwd(host)).count(":*:") == len(names), "nobody can log in by password"


def test_the_ldif_has_everybody_and_mallory_is_not_allowed_to_use_the_portal() -> None:
    entries = people.ldif().split("\n\n")
    assert sum("posixAccount" in entry for entry in entries) == 12
    group = next(entry for entry in entries if entry.startswith("dn: cn=jupyter"))
    assert "uid=alice," in group
    assert "uid=mallory," not in group
    assert "alice-demo" not in people.ldif(), "passwords are kept salted"


def test_cgroups_are_used_only_where_every_needed_hierarchy_is_mounted() -> None:
    names = ["freezer", "memory", "devices", "cpuset", "cpu,cpuacct", "blkio"]
    text = "".join(f"cgroup /sys/fs/cgroup/{name} cgroup rw,{name} 0 0\n" for name in names)
    assert cgroups.hierarchies(text) == ("freezer", "memory", "devices", "cpuset", "cpu,cpuacct")
    assert cgroups.hierarchies(text.replace("cgroup/devices", "cgroup/other")) == ()
    assert cgroups.hierarchies("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n") == ()


def test_two_state_folders_have_different_cgroups(tmp_path: Path) -> None:
    assert cgroups.group_name(tmp_path / "a") != cgroups.group_name(tmp_path / "b")


def test_a_folder_with_other_files_never_becomes_a_state_folder(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(DemoError, match="holds other files"):
        state_folder.State(tmp_path).make()


def test_a_state_folder_that_somebody_else_made_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs would run from there, and processes be found by what lies there. The checkout's owner is no stranger."""
    folder, elsewhere = tmp_path / "state", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    if IS_ROOT:
        os.chown(elsewhere, 4711, -1)
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    monkeypatch.setattr(state_folder, "CHECKOUT", tmp_path)
    state_folder.chosen(str(folder))

    monkeypatch.setattr(state_folder, "CHECKOUT", elsewhere if IS_ROOT else Path("/"))
    for use in (lambda: state_folder.chosen(str(folder)), state_folder.State(folder).make):
        with pytest.raises(DemoError, match=r"state belongs to .+ choose a folder of your own"):
            use()
    assert list(folder.iterdir()) == []


def test_a_state_folder_is_reached_through_nobody_elses_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "state").mkdir()
    link = tmp_path / "link"
    link.symlink_to("state")
    own = state_folder.chosen(str(link))
    own.make()

    somebodys = os.stat_result([0] * 4 + [4711] + [0] * 5)
    monkeypatch.setattr(Path, "lstat", lambda path: somebodys)
    with pytest.raises(DemoError, match="link belongs to 4711"):
        own.check_owner()


def test_people_inside_have_nothing_of_the_callers_environment_but_the_terminals_kind() -> None:
    secrets = {"GITHUB_TOKEN": "secret", "TERMINUS_TOKEN": "secret", "http_proxy": "http://me:secret@proxy"}
    caller = {**secrets, "TERM": "xterm", "LC_ALL": "C"}
    person = pwd.struct_passwd(("alice", "x", 20001, 20000, "", "/home/alice", "/bin/bash"))
    root = pwd.struct_passwd(("root", "x", 0, 0, "", "/root", "/bin/bash"))

    told = enter_namespaces.environment(person, caller)

    assert {key: told.get(key) for key in caller} == {**dict.fromkeys(caller), "TERM": "xterm", "LC_ALL": "C"}
    assert enter_namespaces.environment(root, caller).items() >= caller.items()


def test_the_live_state_of_another_debians_cluster_is_not_started_on(tmp_path: Path) -> None:
    new, old = state_folder.State(tmp_path / "new"), state_folder.State(tmp_path / "old")
    for state in (new, old):
        state.make()
    new.keep_release("13")
    new.keep_release("13")
    with pytest.raises(DemoError, match="was made with Debian 13, and 12 does not read its state"):
        new.keep_release("12")
    (old.cluster / "slurm").mkdir(parents=True)
    with pytest.raises(DemoError, match=r"was made with Debian 12.*deploy/demo/demo clean --live"):
        old.keep_release("13")
    old.keep_release("12")


def test_a_bad_port_is_refused_with_what_is_allowed(tmp_path: Path) -> None:
    done = Demo(tmp_path).call("up", "--port", "70000")
    assert done.returncode == 2
    assert "'70000' is not a port: a number from 1 to 65535" in done.stdout


def test_no_file_of_the_demo_names_a_registry_host() -> None:
    texts = [file.read_text() for file in DEMO.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    assert not [text for text in texts if re.search(r"https?://[\w.-]+\.(org|net|io|com)", text)]


async def test_many_connections_are_forwarded_whole_and_a_half_closed_one_goes_on() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write(b"end seen")
        writer.close()

    async def talk(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        answer = asyncio.create_task(reader.read(-1))
        writer.write(b"x" * 300_000)
        await writer.drain()
        writer.write_eof()
        result = await answer
        writer.close()
        return result

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    listening = socket.create_server(("127.0.0.1", 0), backlog=512)
    forwarder = asyncio.create_task(port_forward.serve(listening, server.sockets[0].getsockname()[1]))
    answers = await asyncio.gather(*(talk(listening.getsockname()[1]) for _ in range(100)))
    assert set(answers) == {b"x" * 300_000 + b"end seen"}
    forwarder.cancel()
    server.close()


async def test_while_nobody_listens_inside_the_browser_gets_an_answer() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    forwarder = asyncio.create_task(port_forward.serve(listening, port))
    reader, writer = await asyncio.open_connection("127.0.0.1", listening.getsockname()[1])
    answer = await reader.read(-1)
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"hub.log" in answer
    writer.close()
    forwarder.cancel()


def test_a_kernel_or_a_tool_is_offered_only_when_its_environment_is_built(tmp_path: Path) -> None:
    settings = cluster_files.SITE.read_text()
    (tmp_path / "mxnet").mkdir()
    site = tomllib.loads(cluster_files.offered(settings, tmp_path))
    assert [kernel["name"] for kernel in site["kernel"]] == ["python3", "ir", "tensorflow", "keras", "mxnet"]
    assert "tool" not in site
    assert site["ldap"] == tomllib.loads(settings)["ldap"]
    for name in ("pytorch", "jax", "pytensor", "inference", "dask", "ray", "mlflow", "code-server", "image-trainer"):
        (tmp_path / name).mkdir()
    assert cluster_files.offered(settings, tmp_path) == settings
