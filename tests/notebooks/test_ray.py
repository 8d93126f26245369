"""The lesson on Ray in a real Slurm job, with workers in another; a neighbour on the nodes tries every door of it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests import pictures
from tests.browser.conftest import address
from tests.browser.portal_page import LAB_DEADLINE_MS
from tests.inside import eventually, home, sh
from tests.notebooks import dashboard_tab
from tests.notebooks.jobs import NO_GPU, PERSON, TEMPLATES, Run, finished_run, no_job_is_left
from tests.notebooks.table import FOLDER

__all__ = ["address"]  # a fixture
LESSON = "ray/slurm_cluster"
FEW = {"images": 5000, "epochs": 3, "cores": 1, "memory_mib": 2048, "job_minutes": 5}
NEIGHBOUR = "dave"
TRIED = Path("/tmp/tried-ray")  # what the neighbour got
SHUT = ("UNAVAILABLE", "DEADLINE_EXCEEDED")  # no connection, so not even the question for the token
# The dashboard's empty frame, its mark that asks for the token, and whether a service lives: they tell nobody anything.
HARMLESS = {"/", "/api/authentication_mode", "/api/healthz", "/api/local_raylet_healthz"}
# Runs as a neighbour on the nodes: speaks to every port of the person's as a part of Ray, with keys and a token of its
# own, over TLS and not, and as a browser. It writes down whom it has spoken to, and what was answered.
NEIGHBOUR_TRIES = """
import concurrent.futures, http.client, http.server, json, socket, sys, tempfile, threading, time
from pathlib import Path
import grpc
sys.path.insert(0, sys.argv[3])
import private_keys
uid, kept, own = sys.argv[1], Path(sys.argv[2]), Path(tempfile.mkdtemp())
private_keys.for_cluster(own / "keys")
private_keys.for_node(own / "keys", own, "127.0.0.1")
authority, key, chain = [(own / name).read_bytes() for name in ("keys/authority.crt", "node.key", "node.crt")]
bearer = "Bearer " + (own / "keys/token").read_text()
CALLS = ["NodeInfoGcsService/GetAllNodeInfo", "JobInfoGcsService/AddJob", "InternalKVGcsService/InternalKVGet",
         "NodeManagerService/GetNodeStats", "NodeManagerService/RequestWorkerLease", "CoreWorkerService/PushTask",
         "ObjectManagerService/Pull", "ReporterService/GetTraceback"]
PAGES = ["/", "/metrics", "/api/authentication_mode", "/api/healthz", "/api/local_raylet_healthz", "/api/version",
         "/api/jobs/", "/nodes?view=summary", "/api/v0/logs", "/static/../api/jobs/", "//api/jobs/"]
POSTS = ["/api/jobs/", "/api/job_agent/jobs/", "/get_or_create_runtime_env"]
def called(channel):
    for call in CALLS:
        try:
            channel.unary_unary("/ray.rpc." + call)(b"", timeout=3, metadata=[("authorization", bearer)])
            yield "OK"
        except grpc.RpcError as error:
            yield error.code().name
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                return  # it speaks something else
def asked(host, port):
    for method, path in [*(("GET", page) for page in PAGES), *(("POST", page) for page in POSTS)]:
        connection = http.client.HTTPConnection(host, port, timeout=3)
        try:
            connection.request(method, path, body="{}" if method == "POST" else None, headers={"Authorization": bearer})
            if connection.getresponse().status < 400:
                yield path
        except TimeoutError:
            return
        except Exception:
            pass
        finally:
            connection.close()
def all_of(host, port):
    keys = grpc.ssl_channel_credentials(authority, key, chain)
    believed = [("grpc.ssl_target_name_override", "127.0.0.1")]
    with grpc.secure_channel(f"{host}:{port}", keys, believed) as channel:
        tls = sorted(set(called(channel)))
    with grpc.insecure_channel(f"{host}:{port}") as channel:
        plain = sorted(set(called(channel)))
    return {"tls": tls, "plain": plain, "pages": list(asked(host, port))}
def listening():
    for table in "tcp", "tcp6":
        for line in [line.split() for line in Path("/proc/net", table).read_text().splitlines()[1:]]:
            host, port = line[1].split(":")
            if line[3] == "0A" and line[7] == uid:
                host = socket.inet_ntoa(bytes.fromhex(host[-8:])[::-1])
                yield int(port, 16), "127.0.0.1" if host == "0.0.0.0" else host
threads, at_work = concurrent.futures.ThreadPoolExecutor(16), {}
server = grpc.server(threads)
pair = grpc.ssl_server_credentials([(key, chain)], authority, require_client_auth=True)
page = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=page.serve_forever, daemon=True).start()
own_ports = [server.add_secure_port("127.0.0.1:0", pair), server.add_insecure_port("127.0.0.1:0"), page.server_port]
server.start()
tried = {"own " + name: all_of("127.0.0.1", port) for name, port in zip(("tls", "plain", "page"), own_ports)}
while True:
    unfinished = kept.with_suffix(".new")
    unfinished.write_text(json.dumps(tried))
    unfinished.replace(kept)  # whenever it is ended, what it has written is whole
    for port, host in dict(listening()).items():
        if port not in at_work:
            at_work[port] = threads.submit(all_of, host, port)
    tried |= {str(port): work.result() for port, work in at_work.items() if work.done()}
    time.sleep(0.2)
"""
# A head without workers.
CLUSTER = f"""
import private_ray
cluster = private_ray.Cluster(Path.home() / "{dashboard_tab.FOLDER}", 1, 1024)
print("own", cluster.own, "kernel", os.getpid())
"""


@pytest.fixture(scope="module")
def ran() -> Iterator[Run]:
    """One run of the lesson, looked at by all tests; a neighbour tries all that listens meanwhile."""
    with neighbour(), finished_run(LESSON, "ray-lesson", FEW, resources=NO_GPU) as run:
        yield run


@contextmanager
def neighbour() -> Iterator[None]:
    """Another person, on the same nodes."""
    sh("rm", "-rf", str(TRIED))
    program = 'module load shared shared/ray && exec python -c "$@"'
    told = (str(home(PERSON).stat().st_uid), str(TRIED), str(TEMPLATES / "ray"))
    argv = ["runuser", "-u", NEIGHBOUR, "--", "bash", "-lc", program, "tries", NEIGHBOUR_TRIES, *told]
    with subprocess.Popen(argv, cwd="/", stderr=subprocess.DEVNULL) as trying:
        try:
            eventually(TRIED.exists, "the neighbour has begun", within_s=60)
            yield
        finally:
            trying.terminate()  # runuser ends what it has started


def test_it_searches_on_workers_of_two_nodes(ran: Run) -> None:
    assert re.search(r"^2 workers after [\d.]+ s, in job \d+$", ran.text("add-workers"), re.MULTILINE)
    assert len(set(re.findall(r"(gpu\d+) \d+", ran.text("search")))) == 2
    assert float(re.findall(r"^Best: ([\d.]+)%", ran.text("search"), re.MULTILINE)[0]) > 75


def test_the_dashboard_is_an_address_of_the_session(ran: Run) -> None:
    (link,) = ran.shown("show-dashboard", "text/html")
    assert re.search(rf'href="/user/{PERSON}/sockets/ray-[0-9a-f]{{8}}/"', link)


def test_a_neighbour_on_the_nodes_gets_nothing(ran: Run) -> None:
    tried = json.loads(TRIED.read_text())
    own = {name: tried.pop(f"own {name}") for name in ("tls", "plain", "page")}
    assert own["tls"] == {"tls": ["UNIMPLEMENTED"], "plain": ["UNAVAILABLE"], "pages": []}, "what is open to it"
    assert own["plain"]["plain"] == ["UNIMPLEMENTED"]
    assert own["page"]["pages"] == ["/"]
    assert len(tried) >= 15, "the services of the head and of two workers were found"
    got = {(port, kind): answer for port, found in tried.items() for kind, answer in found.items()}
    assert {where: answer for where, answer in got.items() if not set(answer) <= {*SHUT, *HARMLESS}} == {}


def test_jobs_keys_and_folders_are_gone_with_the_cluster(ran: Run) -> None:
    no_job_is_left()
    assert "No worker of this cluster is left" in ran.text("close")
    assert [path.name for path in (ran.folder / "ray-cluster").iterdir() if path.suffix != ".log"] == []
    assert [path for path in Path("/tmp").glob("ray-*") if path.owner() == PERSON] == []


def test_the_token_is_in_no_log(ran: Run) -> None:
    said = "".join(path.read_text() for path in (ran.folder / "ray-cluster").glob("*.log"))
    assert "Ray runtime started" in said
    assert re.findall(r"[0-9a-f]{64}", said + ran.log) == []


def test_nothing_puzzling_is_printed_to_stderr(ran: Run) -> None:
    assert {name: noise for name, noise in ran.stderr.items() if noise} == {}


def test_the_dashboard_is_a_tab_behind_the_hub_for_its_person_alone_and_ends_with_its_kernel(address: str) -> None:
    with dashboard_tab.browser_of_a_session() as browser:
        lab = dashboard_tab.open_notebook(browser, address, "Ray")
        dashboard_tab.run_cell(lab, dashboard_tab.BEGIN.format(framework="ray") + CLUSTER + dashboard_tab.SHOW)
        tab = dashboard_tab.open_dashboard(lab)
        own, kernel = dashboard_tab.printed(lab, r"own (\S+) kernel (\d+)").groups()
        assert oct(Path(own).stat().st_mode) == oct(0o40700), "Ray opens its own folder to everybody"
        expect(tab).to_have_url(re.compile(rf"/user/{PERSON}/sockets/ray-[0-9a-f]{{8}}/"))
        tab.goto(f"{tab.url}#/cluster")
        expect(tab.get_by_text("ALIVE").first).to_be_visible(timeout=LAB_DEADLINE_MS)
        assert "ray-authentication-token" not in {cookie["name"] for cookie in tab.context.cookies()}
        pictures.keep(tab, FOLDER / "ray-dashboard.png")
        assert dashboard_tab.refuses(browser, address, tab, NEIGHBOUR)
        of_ray = {pid: _words(Path("/proc", pid)) for pid in processes_of(own)}
        (head,) = [int(pid) for pid, words in of_ray.items() if b"be_head" in words and b"setpriv" not in words]
        assert int(kernel) not in map(os.getpgid, map(int, of_ray)), "who interrupts the kernel would end the cluster"
        for _ in range(2):  # as kernels do with all that they have started
            os.kill(head, signal.SIGTERM)
        os.kill(int(kernel), signal.SIGKILL)
        eventually(lambda: not processes_of(own), "all of Ray has ended with its kernel", within_s=20)
        eventually(lambda: not Path(own).exists(), "its folder is gone", within_s=20)
        left = [path.name for path in (home(PERSON) / dashboard_tab.FOLDER).iterdir() if path.is_dir()]
        assert left == [], "keys and token"


def processes_of(folder: str) -> list[str]:
    """The processes of Ray whose node has this folder."""
    return [one.name for one in Path("/proc").glob("[0-9]*") if folder.encode() in _words(one)]


def _words(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""
