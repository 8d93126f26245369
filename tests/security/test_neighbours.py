"""Two people on one node: what is meant for the session of one does not reach the other, whatever has ended."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx
import pytest

from portal.launcher import ENVIRONMENT_FILE, SESSIONS
from tests.forms import of_long_form
from tests.hub.conftest import Hub, Person
from tests.inside import eventually, has_no_job, home, sh

FOLDER = Path("/cluster/test-neighbours")
PORT = 18700
ON_ONE_NODE = {"gpus": "0", "partition": "sxm2"}
ASKED_FOR_S = 5.0  # of a browser that asks again and again
# Runs as the neighbour, with the certificate of a session of theirs or without one: waits for the port, takes it the
# moment it is free, and notes what it is told.
LISTEN = """
import pathlib, socket, ssl, sys, time
folder, port, certificate = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
if certificate:
    context.load_cert_chain(certificate)
(folder / "waits").touch()
while not (folder / "listens").exists():
    try:
        listener = socket.create_server(("0.0.0.0", port), reuse_port=False)
        (folder / "listens").touch()
    except OSError:
        time.sleep(0.01)
while True:
    connection, _ = listener.accept()
    with (folder / "connections").open("a") as file:
        file.write("1")
    try:
        connection.settimeout(2)
        connection = context.wrap_socket(connection, server_side=True) if certificate else connection
        with (folder / "heard").open("ab") as file:
            file.write(connection.recv(65536))
        connection.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n")
    except OSError:
        pass
    finally:
        connection.close()
"""
# Runs as the neighbour: opens connections again and again, and says nothing in them.
CONNECT = """
import collections, resource, socket, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (10000, 10000))
kept = collections.deque(maxlen=9000)
for number in range(10**6):
    try:
        kept.append(socket.create_connection((sys.argv[1], int(sys.argv[2]))))
    except OSError:
        pass
    if number == 6000:
        print("many", flush=True)
    if number >= 6000:
        time.sleep(0.005)
"""


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    """One hub for these tests."""
    ours = Hub(FOLDER, PORT)
    ours.prepare()
    ours.start()
    yield ours
    ours.stop()


@pytest.fixture
def neighbours(hub: Hub) -> Iterator[dict[str, Person]]:
    """Alice and Bob, each with a session on the same node."""
    both = {name: Person(name, hub.url) for name in ("alice", "bob")}
    for person in both.values():
        assert person.login().status_code == 200
        person.start(**ON_ONE_NODE)
    yield both
    for name, person in both.items():
        person.stop()
        person.http.close()
        sh("scancel", f"--user={name}")
        eventually(partial(has_no_job, name), "no job is left")


def address_of(hub: Hub, name: str) -> tuple[str, int]:
    """Node and port of a session."""
    node, port = re.findall(rf"user/{name}/? => https://([a-z0-9]+):(\d+)", hub.log())[-1]
    return node, int(port)


def kill_server(name: str) -> None:
    """kill -9 of a session's server: nobody hears a farewell."""
    sh("pkill", "-KILL", "-u", name, "-f", "portal.singleuser.server")


@pytest.mark.parametrize(
    "with_certificate", [True, of_long_form(False)], ids=["with a session's certificate", "with none"]
)
def test_who_takes_the_port_of_a_session_that_died_hears_nothing(
    hub: Hub, neighbours: dict[str, Person], with_certificate: bool
) -> None:
    alice = neighbours["alice"]
    node, port = address_of(hub, "alice")
    assert node == address_of(hub, "bob")[0], "they are neighbours"
    place = prepared_place()
    certificate = certificate_of("bob", place) if with_certificate else ""

    if with_certificate:
        assert "ANSWERED" not in said_to(node, port, certificate), "a session lets the hub and its proxy in alone"
        assert neighbours["alice"].is_ready()

    argv = ["runuser", "-u", "bob", "--", "/usr/bin/python3", "-I", "-c", LISTEN, str(place), str(port), certificate]
    listener = subprocess.Popen(argv, cwd="/")
    try:
        eventually((place / "waits").exists, "the neighbour waits for the port", every_s=0.02)
        assert not (place / "listens").exists(), "the port is that of a session that runs"
        with ThreadPoolExecutor() as pool:
            with hub.frozen():  # which would take the session's route away, were it the first to hear of its death
                kill_server("alice")
                eventually((place / "listens").exists, "the neighbour listens", every_s=0.02)
                asking = pool.submit(asked_again_and_again, alice)
                eventually((place / "connections").exists, "the proxy comes")
            statuses = asking.result()
    finally:
        sh("pkill", "-KILL", "-u", "bob", "-f", str(place), check=False)
        listener.wait()

    heard = (place / "heard").read_bytes() if (place / "heard").exists() else b""
    assert b"HTTP" not in heard
    assert b"ookie" not in heard
    assert 200 not in statuses
    assert neighbours["bob"].is_ready(), "the neighbour's own session goes on"


def test_who_connects_to_a_session_again_and_again_and_says_nothing_takes_none_of_its_files(
    hub: Hub, neighbours: dict[str, Person]
) -> None:
    alice = neighbours["alice"]
    node, port = address_of(hub, "alice")
    (server,) = sh("pgrep", "-u", "alice", "-f", "portal.singleuser.server").split()
    before = len(list(Path(f"/proc/{server}/fd").iterdir()))
    argv = ["runuser", "-u", "bob", "--", "/usr/bin/python3", "-I", "-c", CONNECT, node, str(port)]
    with subprocess.Popen(argv, cwd="/", stdout=subprocess.PIPE) as connecting:
        try:
            assert connecting.stdout
            assert connecting.stdout.readline() == b"many\n"
            with ThreadPoolExecutor(12) as pool:  # the proxy makes new connections for them
                statuses = set(pool.map(lambda _: status_of(alice, "api/contents", {}), range(48)))
            held = len(list(Path(f"/proc/{server}/fd").iterdir())) - before
        finally:
            sh("pkill", "-KILL", "-u", "bob", "-f", "create_connection", check=False)

    assert (statuses, held < 2000) == ({200}, True), held


def prepared_place() -> Path:
    """A folder in which the neighbour writes."""
    place = home("bob") / "neighbour"
    sh("rm", "-rf", str(place))
    sh("mkdir", str(place), user="bob")
    return place


def certificate_of(name: str, place: Path) -> str:
    """What the hub gave a session of this person, as its owner can read it."""
    found = (home(name) / SESSIONS).rglob(ENVIRONMENT_FILE)  # sessions whose hub was ended have left theirs
    file = max(found, key=lambda one: one.stat().st_mtime)
    given = json.loads(json.loads(file.read_text())["DSPORTAL_TLS"])
    pem = place / "own.pem"
    pem.write_text(given["keyfile"] + given["certfile"])
    sh("chown", name, str(pem))
    return str(pem)


def asked_again_and_again(person: Person) -> set[int]:
    """What a browser with a login gets while it goes on asking: pages, the API, web sockets."""
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    statuses = set()
    ends_at = time.monotonic() + ASKED_FOR_S
    while time.monotonic() < ends_at:
        for path, headers in (("lab", {}), ("api/contents", {}), ("api/events/subscribe", upgrade)):
            statuses.add(status_of(person, path, headers))
    return statuses


def status_of(person: Person, path: str, headers: dict[str, str]) -> int:
    """The status of an answer; 0 where the proxy only closes the connection, as it may do with a web socket."""
    try:
        return person.http.get(f"/user/{person.name}/{path}", headers=headers, follow_redirects=False).status_code
    except httpx.RemoteProtocolError:
        return 0


def said_to(node: str, port: int, certificate: str) -> str:
    """What the neighbour is told who asks the session itself, with a certificate of the same authority.

    A traceback of Python 3.13 shows the program, so the word that tells of an answer is not whole in it.
    """
    code = (
        "import ssl, sys, http.client as h; c = ssl._create_unverified_context(); c.load_cert_chain(sys.argv[3]); "
        "k = h.HTTPSConnection(sys.argv[1], int(sys.argv[2]), context=c, timeout=10); "
        "k.request('GET', '/user/alice/api'); print('ANSWER' 'ED', k.getresponse().read())"
    )
    return sh("/usr/bin/python3", "-I", "-c", code, node, str(port), certificate, user="bob", check=False)
