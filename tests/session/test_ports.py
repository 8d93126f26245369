"""A whole session on its node: who else is there finds one port, that of the server, whatever kernels run."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import websocket
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_server.services.kernels.connection.base import deserialize_msg_from_ws_v1, serialize_msg_to_ws_v1

from portal.site import load
from tests.inside import SITE_FILE
from tests.session.session_server import DEADLINE_S, wait_for
from tests.session.stub_hub import PREFIX, TOKEN, StubHub
from tests.session.test_session_kernels import output
from tests.session.test_start import COMMAND, Session

V1 = "v1.kernel.websocket.jupyter.org"
LISTENS = "0A"  # proc(5), /proc/net/tcp
PYTHON_LINE = ["-m", "ipykernel_launcher", "-f", "{connection_file}"]
KERNELS = ("python3", "ir", "own", "own-shell", "own-provisioner")
FORK = """
import multiprocessing, os, sys
def work(number):
    print(f"process {number} says so", flush=True)
    os.system("echo and its shell")
process = multiprocessing.get_context("fork").Process(target=work, args=(7,))
process.start()
process.join()
print("the end", flush=True)
"""


def own_kernel(home: Path, name: str, argv: list[str], **metadata: object) -> None:
    """Install a kernel as people do."""
    folder = home / ".local/share/jupyter/kernels" / name
    folder.mkdir(parents=True, exist_ok=True)
    spec = {"argv": argv, "display_name": name, "language": "python", "metadata": {"debugger": True, **metadata}}
    (folder / "kernel.json").write_text(json.dumps(spec))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session with the demo's kernels and three of the person's own; each of them has debugpy."""
    folder = tmp_path_factory.mktemp("session")
    session = Session(folder, StubHub(), COMMAND, JUPYTER_PATH=load(str(SITE_FILE)).kernels.folder)
    own_kernel(session.home, "own", [sys.executable, *PYTHON_LINE])
    own_kernel(session.home, "own-shell", ["/bin/sh", "-c", f"exec {sys.executable} {' '.join(PYTHON_LINE)}"])
    by_itself = {"provisioner_name": "local-provisioner"}
    own_kernel(session.home, "own-provisioner", [sys.executable, *PYTHON_LINE], kernel_provisioner=by_itself)
    assert session.ask("api")[0] == 200
    yield session
    session.away()
    session.hub.shutdown()
    session.hub.server_close()


@contextmanager
def kernel(session: Session, name: str) -> Iterator[tuple[str, BlockingKernelClient]]:
    """A kernel that the session started, and a client on its sockets."""
    status, text = start_kernel(session, name)
    assert status == 201, text
    identifier = json.loads(text)["id"]
    (runtime,) = session.temporary.glob("dsp-*")
    client = BlockingKernelClient(connection_file=str(runtime / f"kernel-{identifier}.json"))
    client.load_connection_file()
    client.start_channels(hb=False)  # a busy machine is late with beats
    try:
        wait_for("kernel", lambda: is_ready(client))
        yield identifier, client
    finally:
        client.stop_channels()
        session.ask(f"api/kernels/{identifier}", "DELETE")


def is_ready(client: BlockingKernelClient) -> bool:
    """Whether a kernel answers; jupyter_client takes a heart that does not beat yet, as that of R, for a dead one."""
    try:
        client.wait_for_ready(timeout=DEADLINE_S)
    except RuntimeError:
        return False
    return True


def start_kernel(session: Session, name: str) -> tuple[int, str]:
    """What the server answers to a browser that starts a kernel."""
    return session.ask("api/kernels", "POST", body={"name": name})


def processes(session: Session) -> list[Path]:
    """All that the session has started, also what has left it: it has the person's home in its environment."""
    home = f"HOME={session.home}".encode()
    return [file.parent for file in Path("/proc").glob("[0-9]*/environ") if home in content(file).split(b"\0")]


def content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:  # it has ended meanwhile
        return b""


def ports(session: Session) -> list[int]:
    """The TCP ports at which a process of the session listens."""
    sockets = {link_of(file) for process in processes(session) for file in process.glob("fd/*")}
    rows = [row.split() for name in ("tcp", "tcp6") for row in Path("/proc/net", name).read_text().splitlines()[1:]]
    listening = [row for row in rows if row[3] == LISTENS and f"socket:[{row[9]}]" in sockets]
    return sorted(int(row[1].rpartition(":")[2], 16) for row in listening)


def link_of(file: Path) -> str:
    try:
        return str(file.readlink())
    except OSError:  # it was closed meanwhile
        return ""


@pytest.mark.parametrize("name", KERNELS)
def test_with_a_kernel_the_session_has_its_own_port_and_no_other(session: Session, name: str) -> None:
    with kernel(session, name):
        assert ports(session) == [session.port]


@pytest.mark.parametrize("name", ["python3", "own", "own-shell"])
def test_what_a_forked_process_prints_arrives_in_the_notebook(session: Session, name: str) -> None:
    with kernel(session, name) as (_, client):
        text = output(client, FORK)
        assert "process 7 says so" in text
        assert "the end" in text
        assert ports(session) == [session.port]


@pytest.mark.parametrize("name", ["python3", "own"])
def test_what_a_kernel_starts_finds_nothing_of_it_in_its_environment(session: Session, name: str) -> None:
    with kernel(session, name) as (_, client):
        text = output(client, "import os; print([name for name in os.environ if 'PYTHONPATH' in name], flush=True)")
    assert text == "[]\n"


@pytest.mark.parametrize("name", ["python3", "own", "own-shell", "own-provisioner"])
@pytest.mark.parametrize("protocol", ["", V1])
def test_a_debugger_is_refused_in_words_and_listens_nowhere(session: Session, name: str, protocol: str) -> None:
    with kernel(session, name) as (identifier, client):
        answer = ask_by_web_socket(session, identifier, debug_request(client), protocol)

        assert answer["content"]["success"] is False
        assert "kernels.debugger" in answer["content"]["message"]
        assert ports(session) == [session.port]


@pytest.mark.parametrize("protocol", ["", V1])
def test_a_debugger_is_refused_however_its_name_is_spelt(session: Session, protocol: str) -> None:
    with kernel(session, "own") as (identifier, client):
        answer = ask_by_web_socket(session, identifier, debug_request(client), protocol, spelling=r"debug\u005Frequest")

        assert "kernels.debugger" in answer["content"]["message"]


@pytest.mark.parametrize("name", ["python3", "own"])
def test_a_kernel_that_is_asked_directly_refuses_too_and_offers_no_debugger(session: Session, name: str) -> None:
    with kernel(session, name) as (_, client):
        client.control_channel.send(debug_request(client))
        answer = client.get_control_msg(timeout=DEADLINE_S)
        offered = client.kernel_info(reply=True, timeout=DEADLINE_S)["content"].get("supported_features", [])

        assert answer["msg_type"] == "debug_reply"
        assert not answer["content"].get("success")
        assert "debugger" not in offered
        assert ports(session) == [session.port]


def test_jupyterlab_offers_no_debugger_for_any_kernel(session: Session) -> None:
    specs = json.loads(session.ask("api/kernelspecs")[1])["kernelspecs"]
    assert set(KERNELS) <= set(specs)
    assert [name for name, found in specs.items() if found["spec"]["metadata"]["debugger"]] == []


def test_where_the_site_wants_debuggers_they_work(tmp_path: Path) -> None:
    settings = json.dumps({"title": "Test", "debugger": True})
    session = Session(tmp_path, StubHub(), COMMAND, DSPORTAL_SESSION=settings)
    try:
        own_kernel(session.home, "own", [sys.executable, *PYTHON_LINE])
        assert session.ask("api")[0] == 200
        with kernel(session, "own") as (identifier, client):
            answer = ask_by_web_socket(session, identifier, debug_request(client), V1)
            assert answer["content"]["success"] is True
            assert len(ports(session)) > 1, "this is what the setting says"
    finally:
        session.away()
        session.hub.shutdown()
        session.hub.server_close()


def debug_request(client: BlockingKernelClient) -> dict[str, Any]:
    """What JupyterLab's debugger says first."""
    arguments = {"clientID": "jupyterlab", "adapterID": "", "linesStartAt1": True, "pathFormat": "path"}
    content = {"type": "request", "seq": 1, "command": "initialize", "arguments": arguments}
    message: dict[str, Any] = client.session.msg("debug_request", content)
    return message


def ask_by_web_socket(
    session: Session, identifier: str, message: dict[str, Any], protocol: str, spelling: str = "debug_request"
) -> dict[str, Any]:
    """Send a message as a browser does, its type spelt like this in JSON, and wait for its reply."""
    address = f"ws://127.0.0.1:{session.port}{PREFIX}api/kernels/{identifier}/channels?session_id=test"
    headers = {"Authorization": f"token {TOKEN}"}
    connection = websocket.create_connection(
        address, timeout=DEADLINE_S, header=headers, subprotocols=[protocol] if protocol else None
    )
    try:
        if protocol:
            sent = serialize_msg_to_ws_v1(message, "control", lambda part: spelt(part, spelling))
            connection.send_binary(sent)
        else:
            connection.send(spelt({**message, "channel": "control"}, spelling).decode())
        return wait_for("reply", lambda: reply_in(connection.recv(), message["header"]["msg_id"]))
    finally:
        connection.close()


def spelt(part: object, spelling: str) -> bytes:
    return json.dumps(part, default=str).replace("debug_request", spelling).encode()


def reply_in(received: str | bytes, msg_id: str) -> dict[str, Any]:
    """A message of the kernel, where it is the debugger's reply to ours; else an empty one."""
    if isinstance(received, bytes):
        _, parts = deserialize_msg_from_ws_v1(received)
        names = ("header", "parent_header", "metadata", "content")
        message: dict[str, Any] = {name: json.loads(part) for name, part in zip(names, parts, strict=False)}
    else:
        message = json.loads(received)
    is_reply = message["header"]["msg_type"] == "debug_reply" and message["parent_header"].get("msg_id") == msg_id
    return message if is_reply else {}
