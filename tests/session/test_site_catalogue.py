"""A site's whole catalogue in a running session: versions of a module, a real container, an environment, groups."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from portal.catalogue.specs import sync
from portal.kernels.modules import ModuleSystem
from portal.site import Site, parse
from tests.session.session_server import DEADLINE_S, Server, answers, launch, wait_for, write_module
from tests.session.test_session_kernels import kernel, output

OF_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("catalogue")
    for one in (made, *made.parents[:2]):  # root tries kernels as nobody, who passes there as people do
        one.chmod(0o755)
    return made


@pytest.fixture(scope="module")
def image(folder: Path) -> Path:
    """A folder that Charliecloud starts: nothing but a mark, and places where this node's programs are seen."""
    top = folder / "image"
    for place in (*OF_SYSTEM, "/dev", "/proc", "/sys", "/tmp", "/run", "/home", *seen()):
        (top / place.lstrip("/")).mkdir(parents=True, exist_ok=True)
    (top / "etc").mkdir()
    for file in ("passwd", "group", "hosts", "resolv.conf", "nsswitch.conf", "localtime"):
        (top / "etc" / file).touch()
    (top / "mark").write_text("of the image")
    return top


def seen() -> list[str]:
    """Where this Python lies, beside the system's folders."""
    places = {sys.prefix, sys.base_prefix}
    return sorted(place for place in places if not place.startswith(OF_SYSTEM))


@pytest.fixture(scope="module")
def listed(folder: Path, image: Path, module_system: ModuleSystem) -> Site:
    """A site with a kernel of each kind."""
    tree = folder / "modulefiles"
    for version in ("1.9", "1.10", "1.11"):
        path = f"prepend-path PATH {Path(sys.executable).parent}"
        write_module(tree / "many" / version, path, f"setenv MANY {version}", "prepend-path PYTHONPATH /outside")
    write_module(tree / "many/.version", 'set ModulesVersion "1.10"')
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    (own,) = (folder / "env/lib").glob("python3*/site-packages")
    (packages,) = Path(sys.prefix, "lib").glob("python3*/site-packages")
    (own / "below.pth").write_text(f"{packages}\n")
    binds = [place for place in (*OF_SYSTEM, *seen()) if Path(place).is_dir()]
    kernels = {"folder": str(folder / "jupyter"), "module_path": (str(tree),), "module_command": module_system.command}
    boxed = {"container": str(image), "binds": tuple(binds), "python": sys.executable}
    return parse(
        {
            "kernels": kernels,
            "kernel": (
                {"name": "many", "title": "Many", "modules": ("many/*",)},
                {"name": "boxed", "title": "Boxed", "modules": ("many/1.9",), "badge": "box", **boxed},
                {"name": "env", "title": "Environment", "environment": str(folder / "env")},
                {"name": "lost", "title": "Lost", **boxed},
                {"name": "staff", "title": "For staff", "python": sys.executable, "groups": ("staff",)},
            ),
        }
    )


@pytest.fixture(scope="module")
def session(folder: Path, listed: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A session with these kernels; the image of one of them is gone since."""
    results = [str(result) for result in sync(listed)]
    assert results == [
        f"{name}: written" for name in ("many", "many-1.11", "many-1.9", "boxed", "env", "lost", "staff")
    ]
    spec = Path(listed.kernels.folder, "kernels/lost/kernel.json")
    spec.write_text(spec.read_text().replace(f"{folder}/image", f"{folder}/gone"))
    server = launch(tmp_path_factory.mktemp("person"), listed)
    wait_for("server", lambda: answers(server))
    yield server
    server.process.terminate()
    server.process.wait()


def test_every_version_of_a_module_is_a_kernel_and_the_default_is_marked(session: Server) -> None:
    found = session.json("api/kernelspecs")["kernelspecs"]
    titles = {name: one["spec"]["display_name"] for name, one in found.items()}
    assert "staff" not in titles, "that of a group"
    assert {name: title for name, title in titles.items() if name not in ("ir", "python3")} == {  # this machine's own
        "many": "Many 1.10 (default)",
        "many-1.11": "Many 1.11",
        "many-1.9": "Many 1.9",
        "boxed": "Boxed",
        "env": "Environment",
        "lost": "Lost",
    }


@pytest.mark.parametrize(("name", "version"), [("many", "1.10"), ("many-1.11", "1.11"), ("many-1.9", "1.9")])
def test_a_version_runs_out_of_its_own_module(session: Server, name: str, version: str) -> None:
    with kernel(session, name) as (_, client):
        assert output(client, "import os; print(os.environ['MANY'])") == f"{version}\n"


def test_a_kernel_in_a_container_sees_its_image_the_home_and_no_paths_of_outside(session: Server) -> None:
    code = (
        "import json, os, sys; print(json.dumps([open('/mark').read(), os.getcwd(), os.environ['MANY'], "
        "'/outside' in sys.path, os.path.isdir(os.path.expanduser('~')), "
        "[name for name in os.environ if 'JUPYTERHUB_API' in name]]))"
    )
    with kernel(session, "boxed") as (identifier, client):
        mark, here, many, is_outside, has_home, secrets = json.loads(output(client, code))
        sockets = [file for file in session.runtime.glob(f"kernel-{identifier}-ipc-*") if file.is_socket()]
        asleep = "import time; print('asleep', flush=True); time.sleep(60)"
        client.execute(asleep, stop_on_error=False)  # else ipykernel drops what it is sent just after an error
        while client.get_iopub_msg(timeout=DEADLINE_S)["msg_type"] != "stream":
            pass
        assert session.ask(f"api/kernels/{identifier}/interrupt", "POST")[0] == 204
        assert client.get_shell_msg(timeout=DEADLINE_S)["content"].get("ename") == "KeyboardInterrupt"
        assert output(client, "print('goes on')") == "goes on\n"
    assert (mark, here, many, is_outside, has_home) == ("of the image", str(session.home), "1.9", False, True)
    assert secrets == []
    assert len(sockets) == 6, "no port of it is open on the node"


def test_an_environment_is_its_own_prefix(session: Server, folder: Path) -> None:
    with kernel(session, "env") as (_, client):
        shown = output(client, "import os, sys; print(sys.prefix, os.environ['PATH'].split(':')[0])")
    assert shown.split() == [f"{folder}/env", f"{folder}/env/bin"]


def test_a_container_whose_image_is_gone_says_so_at_once(session: Server, folder: Path) -> None:
    status, text = session.ask("api/kernels", "POST", {"name": "lost"})
    assert (status, json.loads(text)["message"]) == (
        500,
        f"The kernel lost cannot start: The image {folder}/gone is not there, or closed to you.",
    )
