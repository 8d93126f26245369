"""Kernels in a running session: their environment, their sockets, their end."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from nbclient import NotebookClient

from portal.kernels.modules import ModuleSystem
from portal.kernels.run_kernel import Launch
from portal.site import Site
from tests.forms import of_long_form
from tests.session.session_server import DEADLINE_S, HUB_SECRET, Server, wait_for

SHOW_ENVIRONMENT = "import json, os, sys; print(json.dumps([sys.executable, dict(os.environ)]))"


@contextmanager
def kernel(server: Server, name: str) -> Iterator[tuple[str, BlockingKernelClient]]:
    """A kernel that the server started, and a client on its sockets."""
    identifier = server.json("api/kernels", "POST", {"name": name})["id"]
    client = BlockingKernelClient(connection_file=str(connection_file(server, identifier)))
    client.load_connection_file()
    client.start_channels(hb=False)  # a busy machine is late with beats
    try:
        client.wait_for_ready(timeout=DEADLINE_S)
        yield identifier, client
    finally:
        client.stop_channels()
        server.ask(f"api/kernels/{identifier}", "DELETE")


def connection_file(server: Server, identifier: str) -> Path:
    return server.runtime / f"kernel-{identifier}.json"


def output(client: BlockingKernelClient, code: str) -> str:
    """What ``code`` prints."""
    texts: list[str] = []

    def collect(message: dict[str, Any]) -> None:
        texts.append(message["content"].get("text", ""))

    client.execute_interactive(code, output_hook=collect, timeout=DEADLINE_S)
    return "".join(texts)


def test_a_kernel_has_the_environment_of_its_module(server: Server) -> None:
    with kernel(server, "tensorflow") as (_, client):
        executable, env = json.loads(output(client, SHOW_ENVIRONMENT))
    assert executable == str(Path(sys.executable).with_name("python3"))
    assert env["TENSORFLOW_MODULE"] == "2.21"
    assert env["LOADEDMODULES"].split(":") == ["shared/jupyter/1.0", "shared/tensorflow/2.21"]


@pytest.mark.parametrize("name", ["tensorflow", "plain"])
def test_no_kernel_learns_the_secrets_of_the_session(server: Server, name: str) -> None:
    with kernel(server, name) as (_, client):
        _, env = json.loads(output(client, SHOW_ENVIRONMENT))
    assert HUB_SECRET not in env.values()
    assert [key for key in env if key.startswith(("JUPYTERHUB_", "DSPORTAL_", "JPY_API", "JUPYTER_RUNTIME"))] == []


def test_a_restarted_kernel_has_the_same_environment(server: Server) -> None:
    """Nothing is put before PATH a second time."""
    with kernel(server, "tensorflow") as (identifier, client):
        before = json.loads(output(client, SHOW_ENVIRONMENT))
        assert server.ask(f"api/kernels/{identifier}/restart", "POST")[0] == 200
        client.wait_for_ready(timeout=DEADLINE_S)
        assert json.loads(output(client, SHOW_ENVIRONMENT)) == before


def test_a_kernel_is_started_without_the_wrapper_in_between(server: Server) -> None:
    with kernel(server, "tensorflow") as (_, client):
        shown = output(client, "import os; print(open('/proc/self/cmdline').read(), os.getppid())")
    assert "ipykernel_launcher" in shown
    assert "run_kernel" not in shown
    assert shown.split()[-1] == str(server.process.pid)


def test_the_sockets_of_a_kernel_are_files_that_only_the_person_reaches(server: Server) -> None:
    """With TCP, another user of the node reads what a kernel prints."""
    with kernel(server, "tensorflow") as (identifier, _):
        information = json.loads(connection_file(server, identifier).read_text())
        assert information["transport"] == "ipc"
        sockets = list(server.runtime.glob(f"kernel-{identifier}-ipc-*"))
        assert len(sockets) == 6, "its five channels, and the one for what forked processes print"
        assert all(socket.is_socket() for socket in sockets)
    assert server.runtime.stat().st_mode & 0o777 == 0o700


def test_another_user_cannot_connect_to_a_kernel(server: Server) -> None:
    other = pwd.getpwnam("nobody")
    code = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    with kernel(server, "tensorflow") as (identifier, _):
        socket = next(server.runtime.glob(f"kernel-{identifier}-ipc-*"))
        argv = [sys.executable, "-I", "-S", "-c", code, str(socket)]
        assert subprocess.run(argv, check=False).returncode == 0, "the person can"
        refused = subprocess.run(
            ["/usr/bin/python3", *argv[1:]],
            user=other.pw_uid,
            group=other.pw_gid,
            extra_groups=[],
            capture_output=True,
            text=True,
            cwd="/",
            check=False,
        )
    assert "PermissionError" in refused.stderr


def test_other_jupyter_clients_start_the_same_kernel(site: Site, tmp_path: Path, monkeypatch: Any) -> None:
    """papermill and nbconvert run a notebook through this client: they see the kernelspec, and its wrapper works."""
    monkeypatch.setenv("JUPYTER_PATH", site.kernels.folder)
    monkeypatch.setenv("HOME", str(tmp_path))
    cell = nbformat.v4.new_code_cell("import os; print(os.environ['TENSORFLOW_MODULE'])")
    notebook = nbformat.v4.new_notebook(cells=[cell])
    NotebookClient(notebook, kernel_name="tensorflow", timeout=DEADLINE_S).execute(cwd=str(tmp_path))
    assert cell.outputs[0]["text"] == "2.21\n"
    assert list((tmp_path / ".cache/dsportal/modules").iterdir())


def test_a_module_that_does_not_load_is_told_in_the_answer(server: Server) -> None:
    status, text = server.ask("api/kernels", "POST", {"name": "gone"})
    assert status == 500
    assert json.loads(text)["message"] == (
        "The kernel gone cannot start: module load shared/soon-gone failed: "
        "Unable to locate a modulefile for 'shared/soon-gone'"
    )


def own_kernel(server: Server, name: str, argv: list[str], language: str = "python") -> None:
    """A kernelspec in the person's home: it is tried by nobody before it is started."""
    folder = server.home / f".local/share/jupyter/kernels/{name}"
    folder.mkdir(parents=True)
    spec = {"argv": argv, "display_name": name.capitalize(), "language": language}
    (folder / "kernel.json").write_text(json.dumps(spec))


ENDS = {
    "bare": (
        ["/usr/bin/python3", "-I", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "python",
        "ModuleNotFoundError: No module named 'ipykernel'",
    ),
    "r-bare": (
        ["/usr/bin/R", "--slave", "-e", "IRkernel2::main()", "--args", "{connection_file}"],
        "R",
        "Error in loadNamespace(x) : there is no package called ‘IRkernel2’",
    ),
    "shell": (["/bin/sh", "-c", "echo no licence >&2; exit 7", "{connection_file}"], "bash", "no licence"),
    "silent": (["/bin/false"], "odd", "its program ended at once, with exit status 1, and said nothing"),
    "nowhere": (["/opt/not/there/python3"], "python", "No such file or directory: /opt/not/there/python3"),
}


@pytest.mark.parametrize("name", ["bare", *map(of_long_form, ("r-bare", "shell")), "silent", of_long_form("nowhere")])
def test_a_kernel_that_ends_at_its_start_says_why_at_once_and_is_not_tried_again(
    start_server: Callable[[], Server], name: str
) -> None:
    server = start_server()
    argv, language, why = ENDS[name]
    own_kernel(server, name, argv, language)
    began_s = time.monotonic()

    status, text = server.ask("api/kernels", "POST", {"name": name})

    taken_s = time.monotonic() - began_s
    folder = server.home / f".local/share/jupyter/kernels/{name}"
    expected = f"The kernel {name} cannot start: {why}. More: its kernelspec in {folder}"
    assert (status, json.loads(text)["message"]) == (500, expected)
    assert taken_s < DEADLINE_S / 6
    assert server.json("api/kernels") == []
    log = server.log.read_text()
    assert expected in log
    assert "restarting kernel" not in log
    if name == "bare":
        assert log.index("Traceback (most recent call last)") < log.index(expected), "all that it said is there"


def test_modules_that_exclude_each_other_are_told_in_the_answer(server: Server, module_system: ModuleSystem) -> None:
    command = ("python3", "-m", "ipykernel_launcher", "-f", "{connection_file}")
    start = Launch("both", ("shared/tensorflow", "shared/pytorch"), module_system, command)
    own_kernel(server, "both", start.argv())
    status, text = server.ask("api/kernels", "POST", {"name": "both"})
    shutil.rmtree(server.home / ".local/share/jupyter/kernels/both")
    message = json.loads(text)["message"]
    assert status == 500
    assert message.startswith("The kernel both cannot start: module load shared/tensorflow shared/pytorch failed: ")
    assert "conflict" in message.lower()


@pytest.mark.parametrize("how", ["signal", of_long_form("api")])
def test_a_server_with_a_kernel_that_failed_to_start_still_stops(start_server: Callable[[], Server], how: str) -> None:
    """Beside a kernel that runs; in Slurm the job would otherwise stay until it is killed."""
    server = start_server()
    good = server.json("api/kernels", "POST", {"name": "plain"})["id"]
    assert server.ask("api/kernels", "POST", {"name": "gone"})[0] == 500
    assert [running["id"] for running in server.json("api/kernels")] == [good]
    if how == "api":
        server.ask("api/shutdown", "POST")
    else:
        server.process.terminate()
    server.process.wait(timeout=DEADLINE_S)
    assert not processes_with(good), "no kernel is left behind"


def processes_with(word: str) -> list[str]:
    """The command lines of this machine that hold ``word``."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = process.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if word in line and process.parent.name != str(os.getpid()):
            found.append(line)
    return found


def test_a_killed_server_leaves_no_kernel(start_server: Callable[[], Server]) -> None:
    server = start_server()
    identifier = server.json("api/kernels", "POST", {"name": "tensorflow"})["id"]
    wait_for("kernel", lambda: processes_with(identifier))
    server.process.kill()
    server.process.wait()
    wait_for("end of the kernel", lambda: not processes_with(identifier))
