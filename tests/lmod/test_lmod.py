"""Kernels out of a hierarchical tree of a real Lmod: what is in it is only to be seen with compiler and MPI loaded."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from portal.catalogue import explained
from portal.catalogue.specs import sync
from portal.site import Site, parse
from tests.session.session_server import Server, answers, launch, wait_for
from tests.session.test_session_kernels import kernel, output

LMOD = "/usr/share/lmod/lmod/libexec/lmod"  # Debian's
BEFORE = ("gcc/13.2", "openmpi/5.0")


def write(file: Path, *lines: str) -> None:
    """Write one modulefile of Lmod's, in Lua."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shape that Lmod's guide calls a software hierarchy: Core, then Compiler, then MPI."""
    top = tmp_path_factory.mktemp("lmod")
    of_compiler = top / "Compiler/gcc/13.2"
    of_mpi = top / "MPI/gcc/13.2/openmpi/5.0"
    write(top / "Core/gcc/13.2.lua", 'family("compiler")', f'prepend_path("MODULEPATH", "{of_compiler}")')
    write(of_compiler / "openmpi/5.0.lua", 'family("MPI")', f'prepend_path("MODULEPATH", "{of_mpi}")')
    for version in ("2.9", "2.20", "2.21"):
        path = f'prepend_path("PATH", "{Path(sys.executable).parent}")'
        write(of_mpi / f"framework/{version}.lua", path, f'setenv("FRAMEWORK", "{version}")')
    (of_mpi / "framework/default").symlink_to("2.20.lua")
    return top


@pytest.fixture(scope="module")
def site(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A site with every version of the framework, and a kernel that forgets what it needs."""
    folder = tmp_path_factory.mktemp("jupyter")
    kernels = {"folder": str(folder), "module_path": (str(tree / "Core"),), "module_command": LMOD}
    every = {"name": "framework", "title": "Framework", "modules": (*BEFORE, "framework/*")}
    alone = {"name": "alone", "title": "Alone", "modules": ("framework/2.21",)}
    return parse({"kernels": kernels, "kernel": (every, alone)})


@pytest.fixture(scope="module")
def session(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A session with what was found of them."""
    results = {result.name: result for result in sync(site)}
    assert {name: result.state for name, result in results.items()} == {
        "framework": "written",
        "framework-2.21": "written",
        "framework-2.9": "written",
        "alone": "faulty",
    }, [str(result) for result in results.values()]
    assert "framework/2.21" in results["alone"].reason
    server = launch(tmp_path_factory.mktemp("person"), site)
    wait_for("server", lambda: answers(server))
    yield server
    server.process.terminate()
    server.process.wait()


def test_a_pattern_finds_the_versions_behind_compiler_and_mpi_and_the_default(session: Server) -> None:
    found = session.json("api/kernelspecs")["kernelspecs"]
    titles = {name: one["spec"]["display_name"] for name, one in found.items() if name.startswith("framework")}
    assert titles == {
        "framework": "Framework 2.20 (default)",
        "framework-2.21": "Framework 2.21",
        "framework-2.9": "Framework 2.9",
    }


@pytest.mark.parametrize(("name", "version"), [("framework", "2.20"), ("framework-2.9", "2.9")])
def test_a_kernel_starts_in_the_hierarchy_and_again_out_of_the_cache(session: Server, name: str, version: str) -> None:
    code = "import os; print(os.environ['FRAMEWORK'], os.environ['LOADEDMODULES'])"
    for _ in range(2):
        with kernel(session, name) as (_, client):
            assert output(client, code) == f"{version} {':'.join([*BEFORE, f'framework/{version}'])}\n"


def test_what_a_kernel_gets_is_told_without_the_notes_that_lmod_keeps_for_itself(
    session: Server, site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explained.main(site, "framework") == 0
    sets = re.findall(r"^sets +(\w+)", capsys.readouterr().out, re.MULTILINE)
    assert sets == ["FRAMEWORK", "MODULEPATH", "PATH"]
