"""The kernels of a site as its settings list them: patterns, containers, environments, groups, icons."""

from __future__ import annotations

import base64
import errno
import os
import stat
import struct
import subprocess
import threading
from pathlib import Path
from string import Template
from typing import Any
from unittest.mock import Mock

import psutil
import pytest
from defusedxml import minidom  # type: ignore[import-untyped]

from portal.catalogue import built, explained, icons, rights, specs, tried, versions
from portal.doctor import kernel_checks, site_checks
from portal.errors import KernelError, SiteError
from portal.homes import on_the_way
from portal.homes.held_place import is_own_all_the_way
from portal.kernels import containers
from portal.kernels.containers import Container
from portal.kernels.modules import ModuleSystem
from portal.kernels.run_kernel import Launch
from portal.settings.kernel_tables import KernelTable
from portal.site import Site, parse
from tests.unit.module_command import Modules

TERSE = {
    "Environment Modules 5.2": "/cm/modulefiles:\nshared/tf/1.15\nshared/tf/2.20(default)\nshared/tf/2.21\n",
    "Lmod": "/cm/modulefiles:\nshared/tf/\nshared/tf/1.15\nshared/tf/2.20 (D)\nshared/tf/2.21\n",
    "with words around": "\n/a:\nshared/tf/1.15 <L>\nshared/tf/2.20\nshared/tf/2.21\nnothing more here\n",
}


def kernel(**values: Any) -> KernelTable:
    return KernelTable(**{"name": "k", "title": "K", **values})


@pytest.mark.parametrize("text", TERSE.values(), ids=TERSE)
def test_the_names_of_modules_are_read_from_every_systems_list(text: str) -> None:
    assert versions.parse_available(text) == ["shared/tf/1.15", "shared/tf/2.20", "shared/tf/2.21"]


def test_versions_are_in_the_order_of_their_numbers() -> None:
    assert sorted(["a/2.21", "a/2.9", "a/2.9rc1", "a/10"], key=versions.natural) == [
        "a/2.9",
        "a/2.9rc1",
        "a/2.21",
        "a/10",
    ]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A site whose module command lists three versions, and loads the second one where none is named."""
    modules = Modules(tmp_path)
    modules.program("python3", "echo 7.4.0")
    (tmp_path / "list").write_text(TERSE["Environment Modules 5.2"])
    modules.command.write_text(f"""#!/bin/sh
case "$*" in
*avail*) cat {tmp_path}/list >&2 ;;
*) last=; for last; do :; done
   case "$last" in */2.20|*/1.15|*/2.21) name=$last ;; *) name=$last/2.20 ;; esac
   echo "os.environ['PATH'] = '{modules.bin}:/usr/bin'"
   echo "os.environ['TF'] = '$name'"
   echo "os.environ['LOADEDMODULES'] = '$name'"
   echo "_mlstatus = True" ;;
esac
""")
    kernels = {
        "folder": str(tmp_path / "jupyter"),
        "module_path": (str(modules.tree),),
        "module_command": str(modules.command),
    }
    return parse({"kernels": kernels, "kernel": ({"name": "tf", "title": "TensorFlow", "modules": ("shared/tf/*",)},)})


def with_kernels(site: Site, *kernels: dict[str, Any]) -> Site:
    return parse({"kernels": site.kernels.model_dump(), "kernel": kernels})


def lines(site: Site) -> list[str]:
    return [str(result) for result in specs.sync(site)]


def test_a_pattern_is_a_kernel_for_each_version_and_the_default_one_keeps_the_name(site: Site, tmp_path: Path) -> None:
    assert lines(site) == ["tf: written", "tf-2.21: written", "tf-1.15: written"]
    found = {folder.name: spec for folder, spec in specs.ours(site).items()}
    assert {name: spec["display_name"] for name, spec in found.items()} == {
        "tf": "TensorFlow 2.20 (default)",
        "tf-2.21": "TensorFlow 2.21",
        "tf-1.15": "TensorFlow 1.15",
    }
    assert Launch.from_argv(found["tf-1.15"]["argv"]).modules == ("shared/tf/1.15",)  # type: ignore[union-attr]
    assert lines(site) == ["tf: unchanged", "tf-2.21: unchanged", "tf-1.15: unchanged"]

    (tmp_path / "list").write_text("shared/tf/2.20\nshared/tf/2.21\n")
    assert lines(site) == ["tf: unchanged", "tf-2.21: unchanged", "tf-1.15: removed"]


def test_versions_that_cannot_be_asked_for_keep_their_kernels(site: Site, tmp_path: Path) -> None:
    lines(site)
    before = set(specs.ours(site))
    (tmp_path / "list").write_text("")

    assert lines(site) == ["tf: faulty (no module is called shared/tf/*; allowed are 1 to 30.)"]
    assert set(specs.ours(site)) == before


def test_a_version_that_would_take_the_name_of_another_kernel_is_refused(site: Site) -> None:
    pattern = {"name": "tf", "title": "TensorFlow", "modules": ("shared/tf/*",)}
    other = {"name": "tf-2.21", "title": "Mine", "python": "/usr/bin/python3", "argv": ("/bin/sh", "{connection_file}")}

    first, second = lines(with_kernels(site, pattern, other))

    assert "which stands in the settings too" in first
    assert second == "tf-2.21: written"


def test_a_narrower_pattern_whose_default_lies_outside_takes_its_newest_version(site: Site) -> None:
    narrow = with_kernels(site, {"name": "tf", "title": "TF", "modules": ("shared/tf/1.*",)})
    assert [one.kernel.title for one in versions.resolved(narrow.kernel[0], narrow)] == ["TF 1.15"]


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"modules": ("shared/*/2",)}, "modules"),
        ({"modules": ("*",)}, "modules"),
        ({"modules": ("shared/tf/*", "shared/x")}, "modules"),
        ({"container": "/i.sif", "environment": "/opt/env"}, "environment"),
        ({"environment": "/opt/env", "language": "R"}, "environment"),
        ({"binds": ("/data",)}, "binds"),
        ({"container": "i.sif"}, "container"),
        ({"container": "docker://a b"}, "container"),
        ({"language": "julia"}, "argv"),
        ({"language": "<b>", "argv": ("x", "{connection_file}")}, "language"),
        ({"badge": "<b>"}, "badge"),
        ({"badge": "longest"}, "badge"),
    ],
)
def test_what_does_not_go_together_is_refused_with_its_key(values: dict[str, Any], key: str) -> None:
    with pytest.raises(SiteError, match=rf"kernel\[1\]\.{key}"):
        parse({"kernel": ({"name": "k", "title": "K", **values},)})


def test_a_kernel_for_a_group_lies_where_only_its_members_sessions_look(site: Site) -> None:
    some = with_kernels(
        site,
        {"name": "all", "title": "All", "modules": ("shared/tf/2.20",)},
        {"name": "ours", "title": "Ours", "modules": ("shared/tf/2.20",), "groups": ("staff", "cn=ml,ou=g,dc=x")},
        {"name": "more", "title": "More", "modules": ("shared/tf/*",), "groups": ("guests",)},
    )
    folder = some.kernels.folder
    lines(some)

    assert some.kernels_path({"users"}) == folder
    assert some.kernels_path({"staff"}) == some.kernels_path({"cn=ml,ou=g,dc=x"}) == f"{folder}:{folder}/for/ours"
    assert [path.name for path in Path(folder, "kernels").iterdir()] == ["all"]
    assert sorted(path.name for path in Path(folder, "for/more/kernels").iterdir()) == [
        "more",
        "more-1.15",
        "more-2.21",
    ]
    assert set(some.groups_mentioned) == {"staff", "cn=ml,ou=g,dc=x", "guests"}, "so that the directory is asked"


def test_a_kernel_that_becomes_one_of_a_group_leaves_the_folder_of_all(site: Site) -> None:
    table = {"name": "tf", "title": "TF", "modules": ("shared/tf/2.20",)}
    lines(with_kernels(site, table))
    assert lines(with_kernels(site, table | {"groups": ("staff",)})) == ["tf: written", "tf: removed"]
    assert not list(Path(site.kernels.folder, "kernels").iterdir())


def test_the_groups_of_profiles_are_looked_up_too() -> None:
    """A group that stands in the settings by its DN counts only when the directory was asked for it."""
    profile = {"name": "p", "title": "P", "groups": ("cn=ml,ou=g,dc=x",)}
    assert "cn=ml,ou=g,dc=x" in parse({"profile": (profile,)}).groups_mentioned


def runtime(folder: Path, name: str) -> str:
    """A program of this name in a folder of its own; the folder."""
    (folder / name).mkdir()
    (folder / name / name).write_text("#!/bin/sh\n")
    (folder / name / name).chmod(0o755)
    return str(folder / name)


@pytest.mark.parametrize("has_gpu", [True, False])
@pytest.mark.parametrize("name", ["apptainer", "singularity"])
def test_apptainer_sees_sockets_folders_and_gpus_of_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, has_gpu: bool
) -> None:
    driver = tmp_path / "nvidiactl"
    monkeypatch.setattr(containers, "NVIDIA", str(driver))
    if has_gpu:
        driver.touch()
    path = runtime(tmp_path, name)
    box = Container("docker://a/b", ("/data",))

    started = box.command(["python3", "-m", "x"], {"PATH": path}, "/home/a/work", "/tmp/s")

    assert started == [
        *(f"{path}/{name}", "exec", *(["--nv"] if has_gpu else [])),
        *("--bind", "/tmp/s", "--bind", "/data", "--pwd", "/home/a/work", "docker://a/b", "python3", "-m", "x"),
    ]


@pytest.mark.parametrize(
    ("home", "words"),
    [("/home/alice", ["--home"]), ("/data1/alice", ["--bind=/data1/alice", "--set-env=HOME=/data1/alice"])],
)
def test_charliecloud_brings_the_home_wherever_it_is(tmp_path: Path, home: str, words: list[str]) -> None:
    path = runtime(tmp_path, "ch-run")
    env = {"PATH": path, "HOME": home, "USER": "alice"}

    started = Container(str(tmp_path), ("/data",)).command(["python3"], env, "/w", "/tmp/s")

    binds = ["--bind=/tmp/s", "--bind=/data", "--cd=/w"]
    assert started == [f"{path}/ch-run", *words, *binds, str(tmp_path), "--", "python3"]


@pytest.mark.parametrize("seen", ["session", ""])
def test_charliecloud_mounts_an_image_that_is_a_file_where_nobody_else_can_put_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: str
) -> None:
    """By itself it does so below /var/tmp/NAME.ch, which others can make first (ch-run(1), --mount)."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (image := tmp_path / "image.sqfs").touch()
    path = runtime(tmp_path, "ch-run")
    sockets = str(tmp_path / seen) if seen else ""

    lines = [Container(str(image)).command(["python3"], {"PATH": path}, "/w", sockets) for _ in range(2)]

    for line in lines:
        (word,) = (one for one in line if one.startswith("--mount="))
        assert line.index(word) < line.index(str(image))
        place = Path(word.removeprefix("--mount="))
        assert place.is_relative_to(sockets or tmp_path)
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
        assert not list(place.iterdir())


def test_where_others_can_write_beside_the_sockets_an_image_is_mounted_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (image := tmp_path / "image.sqfs").touch()
    (sockets := tmp_path / "open").mkdir()
    sockets.chmod(0o777)
    env = {"PATH": runtime(tmp_path, "ch-run")}

    (word,) = (
        one for one in Container(str(image)).command(["x"], env, "/w", str(sockets)) if one.startswith("--mount=")
    )

    assert not word.startswith(f"--mount={sockets}")
    assert is_own_all_the_way(word.removeprefix("--mount="))


def test_a_kernel_from_an_image_that_is_a_file_is_tried_with_a_place_that_its_trial_can_reach(
    site: Site, tmp_path: Path
) -> None:
    path = runtime(tmp_path, "ch-run")
    for name in ("place", "found"):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(0o666)
    look = f"p=${{word#*=}}; echo $p > {tmp_path}/place; [ -x $p ] && stat -c %a,%u $p > {tmp_path}/found"
    words = f"for word; do case $word in --mount=*) {look} ;; esac; done"
    Path(path, "ch-run").write_text(f"#!/bin/sh\n{words}\necho 7.4.0\n")
    (image := tmp_path / "image.sqfs").touch()
    tables = site.kernels.model_dump() | {"container_command": f"{path}/ch-run"}
    some = parse({"kernels": tables, "kernel": ({"name": "box", "title": "Box", "container": str(image)},)})
    assert lines(some) == ["box: written"]
    assert (tmp_path / "found").read_text() == f"755,{os.getuid()}\n"
    place = Path((tmp_path / "place").read_text().strip())
    assert place.is_absolute()
    assert not place.exists(), "it goes with the trial"


def test_a_container_that_cannot_start_says_why_before_anything_is_started(tmp_path: Path) -> None:
    with pytest.raises(KernelError, match=r"looked for apptainer, singularity, ch-run in /nowhere\)\. Install"):
        Container("/i.sif").command(["python3"], {"PATH": "/nowhere"}, "/", "")
    with pytest.raises(KernelError, match=r"The image /i\.sif is not there"):
        Container("/i.sif").command(["python3"], {"PATH": runtime(tmp_path, "apptainer")}, "/", "")


def test_a_containers_start_line_reads_back_as_what_it_was() -> None:
    box = Container("/i.sif", ("/data", "/scratch"), "/usr/bin/ch-run")
    launch = Launch("k", ("m",), ModuleSystem(), ("python3", "-f", "{connection_file}"), box)
    assert Launch.from_argv(launch.argv("/opt/python")) == launch


def test_in_a_container_nothing_is_left_of_what_modules_set_for_programs_outside(tmp_path: Path) -> None:
    path = runtime(tmp_path, "apptainer")
    environ = {"PATH": path, "PYTHONPATH": "/a", "LD_LIBRARY_PATH": "/b", "PYTHONHOME": "/c", "KEPT": "1"}
    launch = Launch("k", (), ModuleSystem(), ("python3", "-f", "/tmp/s/kernel.json"), Container("docker://a"))

    command, env = launch.ready(environ, "/w")

    assert command[command.index("--bind") + 1] == "/tmp/s", "the sockets lie beside the connection file"
    assert env == {"PATH": path, "KEPT": "1"}


def test_an_image_with_an_address_is_fetched_by_nobody_but_who_starts_it(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = runtime(tmp_path, "apptainer")
    ran = tmp_path / "ran"
    Path(path, "apptainer").write_text(f"#!/bin/sh\ntouch {ran}\necho 7.4.0\n")
    tables = site.kernels.model_dump() | {"container_command": f"{path}/apptainer"}
    box = {"name": "box", "title": "Box", "container": "docker://a/b"}
    some = parse({"kernels": tables, "kernel": (box,)})

    assert lines(some) == [
        "box: written (each person's first start fetches its image, which takes minutes: fetch it once, "
        "apptainer pull FILE docker://a/b, and name the file as its container)"
    ]
    assert explained.main(some, "box") == 0
    assert "now          not tried: its image has an address" in capsys.readouterr().out
    found = site_checks.kernel(some.kernel[0], some)
    assert (found.result, found.found) == ("ok", explained.NOT_TRIED)
    assert kernel_checks.kernels(some, ["gpu"]).result == "ok"
    assert not ran.exists()


def test_what_fetches_no_images_is_given_no_address(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = runtime(tmp_path, "ch-run")
    box = {"name": "box", "title": "Box", "container": "docker://a/b"}
    words = rf"The image docker://a/b is an address, and {path}/ch-run \(Charliecloud\) fetches none: .*needs Apptainer"
    with pytest.raises(KernelError, match=words):
        Container("docker://a/b").command(["python3"], {"PATH": path}, "/", "")
    some = parse({"kernels": site.kernels.model_dump() | {"container_command": f"{path}/ch-run"}, "kernel": (box,)})
    (line,) = lines(some)
    assert line.startswith("box: faulty (The image docker://a/b is an address, and ")
    assert explained.main(some, "box") == 1
    assert "cannot start: The image docker://a/b is an address" in capsys.readouterr().out
    elsewhere = site.kernels.model_dump() | {"container_command": "/opt/of/the/nodes/apptainer"}
    (line,) = lines(parse({"kernels": elsewhere, "kernel": (box,)}))
    assert line.startswith("box: written"), "only the nodes have it"


def test_an_environment_is_a_python_and_its_programs(tmp_path: Path, site: Site) -> None:
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    (own,) = (tmp_path / "env/lib").glob("python3*/site-packages")
    (own / "ipykernel.py").write_text('__version__ = "7.4.0"\n')
    some = with_kernels(site, {"name": "env", "title": "Env", "environment": str(tmp_path / "env"), "badge": "venv"})

    assert lines(some) == ["env: written"]
    (spec,) = specs.ours(some).values()

    assert spec["argv"][:3] == [str(tmp_path / "env/bin/python"), "-m", "ipykernel_launcher"]
    assert spec["env"] == {"PATH": f"{tmp_path}/env/bin:${{PATH}}", "VIRTUAL_ENV": str(tmp_path / "env")}
    assert spec["metadata"]["dsportal"]["badge"] == "venv"
    (tmp_path / "env/conda-meta").mkdir()
    lines(some)
    (spec,) = specs.ours(some).values()
    assert spec["env"]["CONDA_PREFIX"] == str(tmp_path / "env")


def test_a_dollar_in_the_path_of_an_environment_is_filled_in_by_nobody(site: Site, tmp_path: Path) -> None:
    folder = tmp_path / "of$USER"
    python = folder / "bin/python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho 7.4.0\n")
    python.chmod(0o755)
    some = with_kernels(site, {"name": "env", "title": "Env", "environment": str(folder)})
    lines(some)
    (spec,) = specs.ours(some).values()

    own = {"USER": "alice", "PATH": "/bin"}
    filled = {name: Template(text).safe_substitute(own) for name, text in spec["env"].items()}
    assert filled == {"PATH": f"{folder}/bin:/bin", "VIRTUAL_ENV": str(folder)}


@pytest.fixture
def reached(tmp_path: Path) -> Path:
    """A folder that every account can pass to, as those of sites are."""
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    return tmp_path


ALICE = 12345


def program(folder: Path) -> Path:
    """An environment whose Python says with whose rights it runs, where a kernel would say its version."""
    python = folder / "env/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\ntouch {folder}/ran\nid -u\nid -G\n")
    python.chmod(0o755)
    return python


def somebodys(path: Path) -> int:
    """Give a file to another account than root; what an ordinary user makes is."""
    if os.getuid() == 0:
        os.chown(path, ALICE, ALICE)
    return path.stat().st_uid


@pytest.mark.parametrize("changed", ["env", "env/bin", "env/bin/python"])
def test_root_tries_what_somebody_can_change_with_the_rights_of_that_one(
    reached: Path, site: Site, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    python = program(reached)
    owner = somebodys(reached / changed)
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    found = rights.of_trial(python)

    assert (found["user"], found["extra_groups"]) == (owner, [])
    if os.getuid() == 0:
        assert built._probe(*env_kernel(reached, site)) == f"{ALICE}\n{rights.NOBODY}", "not with the file's group"


def test_what_many_can_change_is_tried_with_the_rights_of_nobody(reached: Path, site: Site) -> None:
    python = program(reached)
    python.parent.chmod(0o777)

    assert rights.stranger(python) == (rights.NOBODY, rights.NOBODY)
    if os.getuid() == 0:
        assert built._probe(*env_kernel(reached, site)) == f"{rights.NOBODY}\n{rights.NOBODY}"


def test_what_a_group_can_change_is_tried_with_the_rights_of_that_group_alone(reached: Path, site: Site) -> None:
    python = program(reached)
    group = ALICE if os.getuid() == 0 else os.getgid()
    os.chown(python.parent, -1, group)
    python.parent.chmod(0o770)

    if os.getuid() == 0:
        os.chown(python, ALICE + 1, -1)
        assert rights.stranger(python) == (rights.NOBODY, group), "nor with the owner's"
        assert built._probe(*env_kernel(reached, site)) == f"{rights.NOBODY}\n{group}"
    else:
        assert rights.stranger(python) is None, "the group is one's own"


USER, OWNERS_GROUP, GROUP, MASK, OTHERS = 0x02, 0x04, 0x08, 0x10, 0x20  # include/uapi/linux/posix_acl.h


def let_write(path: Path, *named: tuple[int, int], mask: int = 7, of_group: int = 5) -> None:
    """Give a file a list of POSIX.1e with these entries, as ``setfacl -m u:NUMBER:rwx`` does."""
    entries = [(0x01, 7, 2**32 - 1), (OWNERS_GROUP, of_group, 2**32 - 1), (MASK, mask, 2**32 - 1)]
    entries += [(tag, 7, number) for tag, number in named] + [(OTHERS, 5, 2**32 - 1)]
    packed = b"".join(struct.pack("<HHI", *entry) for entry in sorted(entries))
    os.setxattr(path, "system.posix_acl_access", struct.pack("<I", 2) + packed)


@pytest.mark.parametrize("changed", ["env", "env/bin", "env/bin/python"])
def test_who_may_write_by_an_access_list_can_change_it_too(reached: Path, site: Site, changed: str) -> None:
    python = program(reached)
    let_write(reached / changed, (USER, ALICE))

    assert rights.stranger(python) == (ALICE, rights.NOBODY)
    if os.getuid() == 0:
        assert built._probe(*env_kernel(reached, site)) == f"{ALICE}\n{rights.NOBODY}"


@pytest.mark.parametrize(
    ("named", "mask", "of_group", "found"),
    [
        ([(GROUP, ALICE)], 7, 5, (rights.NOBODY, ALICE)),
        ([(USER, ALICE), (USER, ALICE + 1)], 7, 5, (rights.NOBODY, rights.NOBODY)),
        ([(USER, ALICE), (GROUP, ALICE)], 7, 5, (rights.NOBODY, ALICE)),
        ([(USER, ALICE)], 5, 7, None),
        ([(USER, 0)], 7, 5, None),
        ([(GROUP, 4)], 7, 5, None),
    ],
    ids=["group", "two", "both", "masked", "root", "system's group"],
)
def test_an_access_list_counts_as_far_as_its_mask_lets_it(
    reached: Path, named: list[tuple[int, int]], mask: int, of_group: int, found: tuple[int, int] | None
) -> None:
    python = program(reached)
    let_write(python.parent, *named, mask=mask, of_group=of_group)

    assert rights.stranger(python) == found


def test_an_access_list_that_cannot_be_read_may_name_everybody(reached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = program(reached)

    for answer in (OSError(errno.EIO, "away"), b"\1\0\0\0", b"\2\0\0\0\1"):
        monkeypatch.setattr(os, "getxattr", Mock(side_effect=[answer] * 99))
        assert rights.stranger(python) == (rights.NOBODY, rights.NOBODY)
    monkeypatch.setattr(os, "getxattr", Mock(side_effect=OSError(errno.EOPNOTSUPP, "no lists here")))
    assert rights.stranger(python) is None


def test_root_tries_what_is_only_its_own_with_the_rights_of_nobody_and_others_with_their_own(
    reached: Path, site: Site
) -> None:
    program(reached)

    tried_by = rights.NOBODY if os.geteuid() == 0 else os.geteuid()
    assert built._probe(*env_kernel(reached, site)).split()[0] == str(tried_by)


def test_what_a_group_alone_may_run_is_tried_as_one_of_that_group(
    reached: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = program(reached)
    monkeypatch.setattr(rights, "FIRST_OF_PEOPLE", 1)
    group = ALICE if os.getuid() == 0 else os.getgid()
    os.chown(python.parent, -1, group)
    python.parent.chmod(0o750)
    if os.getuid() == 0:
        assert built._probe(*env_kernel(reached, site)).split() == [*map(str, (rights.NOBODY, rights.NOBODY, group))]
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        assert rights.of_trial(python)["extra_groups"] == ([group] if rights.stranger(python) is None else [])


def a_python(folder: Path) -> Path:
    """What is looked at of an environment, and of the Python that it is made of."""
    python = program(folder)
    packages = folder / "env/lib/python3.11/site-packages"
    (packages / "traitlets").mkdir(parents=True)
    return python


@pytest.mark.parametrize("theirs", ["lib", "lib/python3.11/site-packages", "lib/python3.11/site-packages/traitlets"])
@pytest.mark.parametrize("key", ["environment", "python", "argv"])
def test_what_a_python_loads_counts_as_the_program_does(reached: Path, site: Site, theirs: str, key: str) -> None:
    python = a_python(reached)
    (reached / "env" / theirs).chmod(0o777)
    value = {
        "environment": str(reached / "env"),
        "python": str(python),
        "argv": (str(python), "-m", "ipykernel_launcher"),
    }

    assert built.stranger(kernel(**{key: value[key]}), site) == (rights.NOBODY, rights.NOBODY)


@pytest.mark.parametrize("start", [("env", "X=1"), ("/bin/sh", "run.sh")], ids=["env", "a script"])
def test_a_start_line_that_another_program_begins_is_others_own_choice(site: Site, start: tuple[str, ...]) -> None:
    one = kernel(argv=(*start, "python3", "-m", "ipykernel_launcher", "-f", "{connection_file}"))
    assert built.stranger(one, site) == (rights.NOBODY, rights.NOBODY)


@pytest.mark.parametrize(
    ("variable", "between"), [("PYTHONPATH", ":"), ("R_LIBS", ":"), ("LD_LIBRARY_PATH", ":"), ("LD_LIBRARY_PATH", ";")]
)
def test_what_a_variable_of_the_site_has_it_load_counts_too(
    reached: Path, site: Site, variable: str, between: str
) -> None:
    python = program(reached)
    theirs = reached / "theirs"
    theirs.mkdir()
    theirs.chmod(0o777)
    tables = site.kernels.model_copy(update={"environment": {variable: f"/usr/lib{between}{theirs}"}})

    assert built.stranger(kernel(python=str(python)), site) is None
    found = built.stranger(kernel(python=str(python)), site.model_copy(update={"kernels": tables}))
    assert found == (rights.NOBODY, rights.NOBODY)


def test_a_kernel_of_ones_own_is_tried_with_ones_own_rights_also_by_root(reached: Path, site: Site) -> None:
    program(reached)
    one = kernel(environment=str(reached / "env"))

    assert built._probe(*env_kernel(reached, site), is_own=True).split()[0] == str(os.geteuid())
    assert "kernel.json" in built.kernelspec_files(one, site, is_own=True)


def test_a_folder_of_others_that_one_of_several_links_leads_through_counts(reached: Path) -> None:
    program(reached)
    theirs = reached / "theirs"
    theirs.mkdir()
    theirs.chmod(0o777)
    (theirs / "current").symlink_to(reached / "env")
    (reached / "ml").symlink_to(theirs / "current")

    assert rights.stranger(reached / "ml/bin/python") == (rights.NOBODY, rights.NOBODY)


def test_an_image_that_is_a_folder_is_looked_into(reached: Path, site: Site) -> None:
    image = reached / "image"
    (image / "usr/bin").mkdir(parents=True)
    assert built.stranger(kernel(container=str(image)), site) is None
    (image / "usr/bin").chmod(0o777)
    assert built.stranger(kernel(container=str(image)), site) == (rights.NOBODY, rights.NOBODY)


def test_the_group_of_all_users_is_one_of_people_though_its_number_is_small(
    reached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = program(reached)
    monkeypatch.setattr(rights, "USERS", python.stat().st_gid)
    monkeypatch.setattr(os, "getegid", lambda: ALICE)
    python.chmod(0o775)

    assert rights.stranger(python) == (rights.NOBODY, python.stat().st_gid)


def test_what_belongs_to_nobody_is_others_where_all_accounts_have_numbers(
    reached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = program(reached)
    if os.getuid() == 0:
        os.chown(python, rights.NOBODY, -1)
    monkeypatch.setattr(on_the_way, "OVERFLOW", python.stat().st_uid)
    monkeypatch.setattr(os, "geteuid", lambda: ALICE)
    for numbers, found in ((["0", "0", "4294967295"], True), (["0", "1000", "1"], False)):
        monkeypatch.setattr(
            on_the_way, "ALL_NUMBERS", Path("/proc/self/uid_map").read_text().split() if found else numbers
        )
        assert (rights.stranger(python) is not None) is found


def test_of_a_program_that_goes_on_saying_something_no_more_than_a_megabyte_is_kept(reached: Path, site: Site) -> None:
    program(reached).write_text("#!/bin/sh\nexec cat /dev/zero\n")

    with pytest.raises(KernelError, match="said more than 1048576 bytes, and was ended"):
        built._probe(*env_kernel(reached, site))


def test_what_a_program_leaves_running_is_ended_and_is_not_waited_for_without_end(
    reached: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(built, "PROBE_TIMEOUT_S", 0.5)
    program(reached).write_text("#!/bin/sh\nsleep 4321 &\n")

    with pytest.raises(KernelError, match=r"did not answer within 0\.5 s"):
        built._probe(*env_kernel(reached, site))


@pytest.mark.skipif(os.geteuid() != 0, reason="tries with others' rights")
def test_what_a_program_of_others_leaves_in_a_session_of_its_own_acts_on_no_later_trial() -> None:
    """With the rights of nobody it could end, or read, what is tried next with the same."""
    left = "setsid --fork sh -c 'setsid --fork sleep 4321 >/dev/null 2>&1 & echo $$; exec sleep 4321 >/dev/null 2>&1'"
    beside = subprocess.Popen(["sleep", "4321"], user=rights.NOBODY)
    try:
        done = tried.tried(["/bin/sh", "-c", left], {"PATH": os.environ["PATH"]}, 20, rights.Rights(user=rights.NOBODY))

        assert not Path("/proc", done.stdout.strip()).exists()
        children = psutil.Process().children(recursive=True)
        assert [one.pid for one in children if one.name() == "sleep"] == [beside.pid]
        assert beside.poll() is None, "it was there before"
    finally:
        beside.kill()
        beside.wait()


@pytest.mark.skipif(os.geteuid() != 0, reason="tries with others' rights")
def test_no_trial_ends_another_one_of_the_same_account() -> None:
    """The checks of `portal doctor` try kernels in several threads."""
    others = rights.Rights(user=rights.NOBODY)
    said: dict[float, str] = {}

    def one(seconds: float) -> None:
        words = ["/bin/sh", "-c", f"sleep {seconds}; echo done"]
        said[seconds] = tried.tried(words, {"PATH": os.environ["PATH"]}, 20, others).stdout

    threads = [threading.Thread(target=one, args=[seconds]) for seconds in (0.2, 0.5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert said == {0.2: "done\n", 0.5: "done\n"}


def test_a_link_is_followed_to_who_can_change_where_it_leads(reached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = somebodys(program(reached).parent)
    (reached / "shared").symlink_to(reached / "env")
    (reached / "python").symlink_to("shared/bin/python")
    monkeypatch.setattr(os, "geteuid", lambda: ALICE + 1)

    for path in (reached / "python", reached / "shared/bin/python"):
        found = rights.stranger(path)
        assert found
        assert found[0] == owner


def test_the_doctor_of_the_hubs_account_runs_nothing_that_others_can_change(
    reached: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    somebodys(program(reached))
    some = with_kernels(site, {"name": "env", "title": "Env", "environment": str(reached / "env")})
    monkeypatch.setattr(os, "geteuid", lambda: ALICE + 1)

    found = site_checks.kernel(some.kernel[0], some)

    assert found.result == "warning"
    assert "others can change it" in found.found
    start = (str(reached / "env/bin/python"), "-m", "ipykernel_launcher", "-f", "{connection_file}")
    for one in (some, with_kernels(site, {"name": "by-argv", "title": "Env", "argv": start})):
        assert kernel_checks.kernels(one, ["gpu"]).result == "ok"
    assert not (reached / "ran").exists()


def env_kernel(folder: Path, site: Site) -> tuple[Launch, KernelTable, dict[str, str]]:
    one = kernel(environment=str(folder / "env"))
    return built.launch(one, site), one, {"PATH": "/usr/bin:/bin"}


def test_explain_says_what_a_kernel_is_made_of_and_whether_it_would_start(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines(site)
    assert explained.main(site, "tf-1.15") == 0
    told = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines())
    assert told["modules"] == "shared/tf/1.15"
    assert told["pattern"] == "shared/tf/* of [[kernel]] tf"
    assert told["starts"] == "python3 -m ipykernel_launcher -f '{connection_file}'"
    assert told["kernelspec"] == f"{site.kernels.folder}/kernels/tf-1.15"
    assert told["now"] == "it answers"

    Path(tmp_path, "bin/python3").write_text("#!/bin/sh\nexit 1\n")
    assert explained.main(site, "tf") == 1
    assert "cannot start:" in capsys.readouterr().out
    with pytest.raises(KernelError, match=r"There is no kernel x; there are tf\."):
        explained.main(site, "x")
    with pytest.raises(KernelError, match=r"There is no kernel tf-9; there are tf, tf-1\.15, tf-2\.21\."):
        explained.main(site, "tf-9")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (None, "A is taken away"),
        ("x", "A=x"),
        (("/b:", ""), "A begins with /b:"),
        (("", ":/c"), "A ends with :/c"),
        ("x" * 500, f"A={'x' * 157}…"),
    ],
)
def test_what_modules_set_is_said_in_one_line(change: Any, words: str) -> None:
    assert explained.shown("A", change) == words


@pytest.mark.parametrize(
    ("values", "letters"),
    [
        ({"title": "TensorFlow 2.21"}, "TF"),
        ({"name": "pytorch-2.7", "title": "Deep things"}, "PT"),
        ({"title": "Python 3"}, ""),
        ({"title": "R", "language": "R"}, ""),
        ({"title": "Spark", "language": "scala", "argv": ("x",)}, "sc"),
    ],
)
def test_a_framework_has_an_icon_of_its_own(values: dict[str, Any], letters: str) -> None:
    drawn = icons.icon(kernel(**values)).decode()
    assert minidom.parseString(drawn).documentElement.getAttribute("viewBox") == "0 0 64 64"
    assert (f">{letters}<" in drawn) if letters else "<text" not in drawn


def test_the_letters_of_an_icon_can_be_read() -> None:
    """Contrast as WCAG 2 has it: 4.5 : 1."""

    def light(part: int) -> float:
        value = part / 255
        return value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4

    for letters, colour in icons.FRAMEWORKS.values():
        red, green, blue = (light(int(colour[at : at + 2], 16)) for at in (1, 3, 5))
        assert 1.05 / (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05) >= 4.5, letters


def test_a_sites_icon_is_a_picture_and_nothing_that_runs(tmp_path: Path) -> None:
    file = tmp_path / "icon"
    file.write_text('<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>')
    drawn = icons.icon(kernel(icon=str(file), badge="GPU")).decode()
    assert "<script" not in drawn
    assert base64.b64encode(file.read_bytes()).decode() in drawn
    assert ">GPU<" in drawn
    assert minidom.parseString(drawn).documentElement is not None
    for content, words in ((b"text", "is no SVG or PNG"), (icons.PNG + bytes(70_000), "of at most 64 KiB")):
        file.write_bytes(content)
        with pytest.raises(KernelError, match=words):
            icons.icon(kernel(icon=str(file)))
    file.unlink()
    with pytest.raises(KernelError, match="cannot be read"):
        icons.icon(kernel(icon=str(file)))
    os.mkfifo(file)
    with pytest.raises(KernelError, match="cannot be read: is no regular file"):
        icons.icon(kernel(icon=str(file)))
