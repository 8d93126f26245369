"""Environments that a person makes in a session: a real venv on a real module, a package by pip, and its kernel."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from portal.catalogue.specs import sync
from portal.environments import notes
from portal.environments.notes import EnvironmentNote, Maker, MakingState
from portal.environments.order import order_of
from portal.site import load, parse
from tests.inside import SITE_FILE, VENV_BIN
from tests.session.session_server import ARTEFACTS, HUB_SECRET, Server, answers, launch, wait_for
from tests.session.test_session_kernels import kernel, output
from tests.wheels import ANSWER, wheel

UV = ARTEFACTS.parent / "programs/session/bin/uv"  # tests/run.py brings it
ENVIRONMENTS = "dsportal/api/environments"
UPON = ["shared", "shared/python"]


def asked(server: Server, **order: object) -> tuple[int, dict[str, Any]]:
    status, text = server.ask(ENVIRONMENTS, "POST", order)
    return status, json.loads(text)


def made(server: Server, name: str) -> dict[str, Any]:
    """An environment as soon as its making is over."""
    return wait_for("end of the making", lambda: _over(server.json(f"{ENVIRONMENTS}/{name}")), 120)


def _over(view: dict[str, Any]) -> dict[str, Any]:
    return {} if view["state"] == "making" else view


def own_kernel(server: Server, name: str) -> Path:
    return server.home / ".local/share/jupyter/kernels" / f"env-{name}"


def portal_env(server: Server, *words: str) -> subprocess.CompletedProcess[str]:
    """``portal env`` as in a terminal of that session."""
    environ = Path(f"/proc/{server.process.pid}/environ").read_bytes().decode().split("\0")
    pairs = dict(pair.partition("=")[::2] for pair in environ if pair)
    argv = [str(VENV_BIN / "portal"), "env", *words]
    return subprocess.run(argv, env=pairs, cwd=server.home, capture_output=True, text=True, check=False)


def test_a_venv_on_a_module_with_a_package_is_a_kernel_at_once_until_it_is_removed(cluster_server: Server) -> None:
    server = cluster_server
    status, begun = asked(server, name="vision", title="Vision", modules=UPON, packages=["oneofmine>=1"])
    assert (status, begun["state"], begun["path"]) == (202, "making", f"{server.home}/environments/vision")

    view = made(server, "vision")

    log = server.json(f"{ENVIRONMENTS}/vision/log")
    assert (view["state"], view["words"]) == ("ready", ""), log["text"]
    assert "module load shared shared/python\n" in log["text"]
    assert log["text"].endswith("It is ready.\n")
    assert log["is_over"]
    assert view["size_bytes"] > 1_000_000
    assert server.json("api/kernelspecs")["kernelspecs"]["env-vision"]["spec"]["display_name"] == "Vision"
    with kernel(server, "env-vision") as (_, client):
        assert output(client, ANSWER) == "42\n"
        assert output(client, "import sys; print(sys.prefix)").strip() == view["path"]
        assert output(client, "import numpy; print(numpy.__file__)").startswith("/cm/shared/apps/python3/")
        assert output(client, "import shutil; print(shutil.which('pip'))").strip() == f"{view['path']}/bin/pip"
        assert HUB_SECRET not in output(client, "import os; print(dict(os.environ))")

    assert server.ask(f"{ENVIRONMENTS}/vision", "DELETE")[0] == 204
    assert "env-vision" not in server.json("api/kernelspecs")["kernelspecs"]
    assert not Path(view["path"]).exists()
    assert server.json(ENVIRONMENTS)["environments"] == []
    assert server.ask(f"{ENVIRONMENTS}/vision")[0] == 404


def test_uv_makes_one_whose_kernel_runs_until_it_is_removed(
    start_server: Callable[..., Server], tmp_path: Path
) -> None:
    """From a folder of wheels, since the cluster has no index; uv reads its own settings and not pip's."""
    assert UV.exists(), "tests/run.py brings it"
    kernels = load(str(SITE_FILE)).kernels
    told = {"title": "Test Portal", "module_path": kernels.module_path, "module_command": kernels.module_command}
    path = f"{UV.parent}:{VENV_BIN}:{os.environ['PATH']}"
    server = start_server(DSPORTAL_SESSION=json.dumps(told), PATH=path)
    wheels = wheel(tmp_path)
    wheel(tmp_path, "wheel")  # uv puts pip, setuptools and wheel into each environment of Python 3.11
    for file in Path("/usr/share/python-wheels").glob("*.whl"):
        shutil.copy(file, wheels)
    config = server.home / ".config/uv/uv.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'no-index = true\nfind-links = ["{wheels}"]\n')
    assert {"name": "uv", "is_here": True} in server.json(ENVIRONMENTS)["tools"]

    assert asked(server, name="fast", tool="uv", modules=UPON, packages=["oneofmine>=1"])[0] == 202
    view = made(server, "fast")

    log = server.json(f"{ENVIRONMENTS}/fast/log")["text"]
    assert (view["state"], view["words"]) == ("ready", ""), log
    assert f"$ {UV} venv --seed" in log
    assert "uv = " in Path(view["path"], "pyvenv.cfg").read_text()
    with kernel(server, "env-fast") as (_, client):
        assert output(client, ANSWER) == "42\n"
        assert output(client, "import sys; print(sys.prefix)").strip() == view["path"]
        assert output(client, "import numpy; print(numpy.__file__)").startswith("/cm/shared/apps/python3/")
    assert asked(server, name="odd", tool="uv", modules=UPON, packages=["oneofmine==9"])[0] == 202
    failed = made(server, "odd")
    assert (failed["state"], failed["words"][:9]) == ("failed", "uv said: "), failed
    assert "oneofmine==9" in failed["words"]

    assert server.ask(f"{ENVIRONMENTS}/fast", "DELETE")[0] == 204
    assert not Path(view["path"]).exists()
    assert "env-fast" not in server.json("api/kernelspecs")["kernelspecs"]


def break_environments(home: Path) -> None:
    """Put what has gone wrong into a home: notes, folders and kernelspecs."""
    notes_folder = home / ".local/share/dsportal/environments"
    specs = home / ".local/share/jupyter/kernels"
    for name in ("half", "dangling", "circle", "gone"):
        path = home / "environments" / name
        state = MakingState.MAKING if name == "half" else MakingState.READY
        maker = Maker(socket.gethostname(), os.getpid(), ticks=1)  # one that is not there any more
        notes.write(notes_folder, EnvironmentNote(order_of({"name": name}), str(path), state, 0, maker=maker))
        path.parent.mkdir(exist_ok=True)
        if name == "circle":
            path.symlink_to(path)
        elif name != "gone":
            (path / "bin").mkdir(parents=True)
            (path / "bin/python").symlink_to("/opt/gone/python3")
        argv = [f"{path}/bin/python", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        (specs / f"env-{name}").mkdir(parents=True)
        text = json.dumps({"argv": argv, "display_name": name, "language": "python"})
        (specs / f"env-{name}/kernel.json").write_text(text[:20] if name == "half" else text)
    (specs / "env-nowhere").symlink_to("/opt/gone")
    (specs / "env-empty").mkdir()
    (notes_folder / "cut.json").write_text('{"order": {"na')
    (notes_folder / "folder.json").mkdir()
    os.mkfifo(notes_folder / "pipe.json")


def test_a_session_starts_and_works_with_environments_that_are_broken(tmp_path: Path) -> None:
    """Half made ones, links that lead nowhere or in a circle, notes and kernelspecs that are none."""
    kernels = {"folder": str(tmp_path / "jupyter")}
    site = parse({"kernels": kernels, "kernel": [{"name": "plain", "title": "Plain", "python": sys.executable}]})
    assert [result.state for result in sync(site)] == ["written"]
    (tmp_path / "home").mkdir()
    break_environments(tmp_path / "home")
    server = launch(tmp_path, site)
    try:
        wait_for("server", lambda: answers(server))
        works_beside_what_is_broken(server)
    finally:
        server.process.kill()
        server.process.wait()
        shutil.rmtree(server.runtime, ignore_errors=True)


def works_beside_what_is_broken(server: Server) -> None:
    states = {one["name"]: one["state"] for one in server.json(ENVIRONMENTS)["environments"]}
    assert states == dict.fromkeys(("half", "dangling", "circle", "gone"), "broken")
    assert server.json("api/kernelspecs")["kernelspecs"].keys() >= {"plain", "env-dangling"}
    for name in ("env-dangling", "env-circle"):
        status, text = server.ask("api/kernels", "POST", {"name": name})
        assert (status, f"The kernel {name} cannot start: " in json.loads(text)["message"]) == (500, True), text
    with kernel(server, "plain") as (_, client):
        assert output(client, "print(6 * 7)") == "42\n"
    assert server.ask("lab")[0] == 200
    for name in states:
        assert server.ask(f"{ENVIRONMENTS}/{name}", "DELETE")[0] in (204, 400), name
    assert server.ask("api/kernels", "GET")[0] == 200


def test_what_pip_cannot_install_is_said_in_a_line_and_leaves_nothing(cluster_server: Server) -> None:
    server = cluster_server
    assert asked(server, name="odd", modules=UPON, packages=["oneofmine==9"])[0] == 202
    view = made(server, "odd")
    assert view["state"] == "failed"
    assert view["words"].startswith("pip said: Could not find a version that satisfies the requirement oneofmine==9")
    assert not (server.home / "environments/odd").exists()
    assert not own_kernel(server, "odd").exists()
    assert server.ask(f"{ENVIRONMENTS}/odd", "DELETE")[0] == 204


def test_a_making_that_is_killed_is_broken_and_one_that_is_stopped_is_gone(cluster_server: Server) -> None:
    server = cluster_server
    asked(server, name="killed", modules=UPON)
    file = server.home / ".local/share/dsportal/environments/killed.json"
    os.killpg(json.loads(file.read_text())["maker"]["pid"], signal.SIGKILL)
    view = wait_for("end of the maker", lambda: _over(server.json(f"{ENVIRONMENTS}/killed")))
    assert (view["state"], view["words"][:28]) == ("broken", "its making was interrupted: ")
    assert not own_kernel(server, "killed").exists()
    assert server.ask(f"{ENVIRONMENTS}/killed", "DELETE")[0] == 204

    asked(server, name="stopped", modules=UPON)
    assert server.ask(f"{ENVIRONMENTS}/stopped", "DELETE")[0] == 204
    assert list((server.home / "environments").iterdir()) == []
    assert server.json(ENVIRONMENTS)["environments"] == []


def test_a_module_that_is_missing_is_said_in_the_module_systems_words(cluster_server: Server) -> None:
    assert asked(cluster_server, name="odd", modules=["shared/nope"])[0] == 202
    assert "shared/nope" in made(cluster_server, "odd")["words"]
    assert cluster_server.ask(f"{ENVIRONMENTS}/odd", "DELETE")[0] == 204


def test_what_is_not_allowed_is_refused_before_anything_is_made(cluster_server: Server) -> None:
    for order, words in (
        ({"name": "a", "packages": ["-e ."]}, "packages: '-e .' is not possible here"),
        ({"name": "../a"}, "name: '../a' is not possible here"),
        ({"name": "a", "tool": "modules"}, "modules: [] is not possible here"),
        ({"name": "a", "tool": "conda"}, "There is no conda on this node"),
    ):
        status, answer = asked(cluster_server, **order)
        assert (status, words in answer["message"]) == (400, True), answer
    assert not (cluster_server.home / "environments/a").exists()
    for path, method in ((ENVIRONMENTS, "GET"), (ENVIRONMENTS, "POST"), (f"{ENVIRONMENTS}/a", "DELETE")):
        assert cluster_server.ask(path, method, token="")[0] in (302, 403), path


def test_the_command_makes_what_the_session_shows_and_a_kernel_that_is_gone_says_so_at_once(
    cluster_server: Server,
) -> None:
    server = cluster_server
    done = portal_env(server, "new", "typed", "--module", "shared", "--module", "shared/python")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Its kernel is 'typed' in the launcher." in done.stdout
    (view,) = server.json(ENVIRONMENTS)["environments"]
    assert (view["name"], view["state"]) == ("typed", "ready")

    (Path(view["path"]) / "bin").rename(Path(view["path"]) / "gone")
    status, text = server.ask("api/kernels", "POST", {"name": "env-typed"})
    assert status == 500
    assert "The kernel env-typed cannot start: The program" in text
    assert "broken: the Python that it was made of is gone" in portal_env(server, "list").stdout
    assert server.ask("api/kernels", "GET")[0] == 200, "the session goes on"

    assert portal_env(server, "remove", "typed").stdout == "typed is removed\n"
    assert not own_kernel(server, "typed").exists()
    assert portal_env(server, "remove", "typed").returncode == 1


def test_a_kernel_out_of_modules_alone_is_there_at_once_and_one_without_a_kernel_is_none(
    cluster_server: Server,
) -> None:
    server = cluster_server
    status, view = asked(server, name="plain", title="Plain", tool="modules", modules=UPON)
    assert (status, view["state"], view["path"]) == (201, "ready", "")
    with kernel(server, "env-plain") as (_, client):
        assert output(client, "import sys; print(sys.prefix)").startswith("/cm/shared/apps/python3/")
    assert portal_env(server, "remove", "plain").returncode == 0
    status, refusal = asked(server, name="plain", tool="modules", modules=["shared", "cuda91/toolkit/9.9"])
    assert status == 400
    assert "cuda91/toolkit/9.9" in refusal["message"]
    assert not own_kernel(server, "plain").exists()


def test_the_modules_of_the_cluster_are_found_and_looked_at(cluster_server: Server) -> None:
    server = cluster_server
    found = server.json("dsportal/api/modules?words=tensorflow")
    assert found["total"] == len(found["modules"]) > 0
    assert all("tensorflow" in f"{one['name']} {one['summary']}".lower() for one in found["modules"])
    (default,) = [one["name"] for one in server.json("dsportal/api/modules?words=shared/python/")["modules"]][:1]
    shown = server.json(f"dsportal/api/modules/show?name={default}")
    assert Path(shown["file"]).is_file()
    assert any(sentence.startswith("PATH begins with /cm/shared/apps/python3/") for sentence in shown["sets"])
    status, text = server.ask("dsportal/api/modules/show?name=shared/nope")
    assert (status, "Unable to locate a modulefile for 'shared/nope'" in text) == (400, True)
    assert server.ask("dsportal/api/modules?words=x", token="")[0] in (302, 403)
