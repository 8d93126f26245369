"""The lesson on Dask in a real Slurm job, with workers in others; a neighbour on the node tries every door of it."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests import pictures
from tests.browser.conftest import address
from tests.browser.portal_page import LAB_DEADLINE_MS
from tests.inside import eventually, home, sh
from tests.notebooks import dashboard_tab
from tests.notebooks.jobs import NO_GPU, PERSON, Run, finished_run, no_job_is_left
from tests.notebooks.table import FOLDER

__all__ = ["address"]  # a fixture
LESSON = "dask/slurm_cluster"
FEW = {"limit": 10_000_000, "cores": 1, "job_minutes": 5}
NEIGHBOUR = "dave"
SECRET = "secret-of-the-session"
WORKERS: dict[str, bytes] = {}  # the environments of the workers, by process
AT_KNOWN_NAMES: set[Path] = set()  # what the person had in folders whose names others know, and take first
TRIED = Path("/tmp/tried-dask")  # what the neighbour got
# Runs as a neighbour on the nodes: speaks to every port of the person's as a client of Dask, over TLS and not, and as a
# browser, and opens every socket that it finds. It writes down whom it has spoken to, and what it got.
NEIGHBOUR_TRIES = """
import asyncio, glob, json, socket, sys, warnings
from pathlib import Path
from distributed import Scheduler, Security, rpc
warnings.simplefilter("ignore")
uid, tried = sys.argv[1], {}
def keep():
    unfinished = Path(sys.argv[3] + ".new")
    unfinished.write_text(json.dumps(tried))
    unfinished.replace(sys.argv[3])  # whenever it is ended, what it has written is whole
stranger = Security.temporary()
async def dask(address, **how):
    async with asyncio.timeout(3):
        async with rpc(address, **how) as worker:
            return str(await worker.identity())
async def page(host, port):
    async with asyncio.timeout(3):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"GET /status HTTP/1.0\\r\\n\\r\\n")
        return (await reader.read(200)).decode(errors="replace")
async def said(kind, doing):
    try:
        return [kind, await doing]
    except Exception:
        return [kind, None]
async def all_of(host, port):
    tls = dict(connection_args=stranger.get_connection_args("client"))
    doors = dask(f"tls://{host}:{port}", **tls), dask(f"tcp://{host}:{port}"), page(host, port)
    return list(await asyncio.gather(*(said(*one) for one in zip(("tls", "tcp", "page"), doors))))
async def main():
    options = dict(port=0, host="127.0.0.1", dashboard_address="127.0.0.1:0")
    async with Scheduler(protocol="tls://", security=stranger, **options) as closed, Scheduler(**options) as opened:
        for one in closed, opened:  # what it is its own: so all of this finds what is to be had
            tried["own " + one.address] = [""] + await all_of("127.0.0.1", one.port)
        tried["own page"] = [""] + await all_of("127.0.0.1", opened.http_server.port)
    keep()
    while True:
        found = {}
        for line in [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]:
            host, port = line[1].split(":")
            port = int(port, 16)
            if line[3] != "0A" or line[7] != uid or port in tried:
                continue
            host = socket.inet_ntoa(bytes.fromhex(host)[::-1])
            found[port] = host
        for port, answers in zip(found, await asyncio.gather(*(all_of(host, port) for port, host in found.items()))):
            tried[port] = [found[port]] + answers
        for path in glob.glob(sys.argv[2] + "/**/*dask*.sock", recursive=True):
            tried[path] = [""]
        keep()
        await asyncio.sleep(0.2)
asyncio.run(main())
"""


# A cluster without workers: it prints who may enter the folder of a job's script, which sbatch reads a moment after it
# was written, and shows its dashboard's address.
CLUSTER = f"""
import private_dask
cluster = private_dask.Cluster(Path.home() / "{dashboard_tab.FOLDER}", 1, "1GiB")
with cluster._dummy_job.job_file() as script: print("script", oct(Path(script).parent.stat().st_mode))
"""
CLOSED = "cluster.close(); print('sockets', [one.name for one in cluster.socket.parent.iterdir()])"


@pytest.fixture(scope="module")
def ran() -> Iterator[Run]:
    """One run of the lesson, looked at by all tests; a neighbour tries all that listens meanwhile."""
    secret = f"export JUPYTERHUB_API_TOKEN={SECRET} OF_THE_SESSION={SECRET}"
    with (
        neighbour(),
        seen_by_root(),
        finished_run(LESSON, "dask-lesson", FEW, prelude=[secret], resources=NO_GPU) as run,
    ):
        yield run


@contextmanager
def neighbour() -> Iterator[None]:
    """Another person, on the same nodes."""
    sh("rm", "-rf", str(TRIED))
    program = 'module load shared shared/dask && exec python -c "$@"'
    told = (str(home(PERSON).stat().st_uid), str(home(PERSON)), str(TRIED))
    argv = ["runuser", "-u", NEIGHBOUR, "--", "bash", "-lc", program, "tries", NEIGHBOUR_TRIES, *told]
    with subprocess.Popen(argv, cwd="/", stderr=subprocess.DEVNULL) as trying:
        try:
            eventually(TRIED.exists, "the neighbour has begun", within_s=60)
            yield
        finally:
            trying.terminate()  # runuser ends what it has started


@contextmanager
def seen_by_root() -> Iterator[None]:
    """Meanwhile the environments of the workers are kept, by their process, and what lies in Dask's usual folder."""
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.3):
            for process in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):
                    if b"private_dask.QuietWorker" in (process / "cmdline").read_bytes():
                        WORKERS[process.name] = (process / "environ").read_bytes()
            for place in Path("/tmp").glob("dask-scratch-space*/*"):
                with suppress(OSError):
                    AT_KNOWN_NAMES.update({place} if place.owner() == PERSON else ())

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield
    finally:
        ended.set()
        looking.join()


def test_it_computes_on_workers_of_two_nodes_and_grows_and_shrinks(ran: Run) -> None:
    first, second = re.findall(r"workers after [\d.]+ s, on (\S+), (\S+)$", ran.text("scale"), re.MULTILINE)[0]
    assert first != second
    assert "664,579 primes below 10,000,000" in ran.text("primes")
    assert set(re.findall(r"(gpu\d+) \d+", ran.text("primes"))) == {first, second}
    assert [int(count) for count in re.findall(r"^(\d) workers", ran.text("grow"), re.MULTILINE)] == [3, 1]


def test_the_dashboard_is_an_address_of_the_session(ran: Run) -> None:
    (link,) = ran.shown("show-dashboard", "text/html")
    assert re.search(rf'href="/user/{PERSON}/sockets/dask-[0-9a-f]{{8}}/status"', link)


def test_a_neighbour_on_the_nodes_gets_nothing(ran: Run) -> None:
    tried = json.loads(TRIED.read_text())
    assert len(tried) >= 6, "the scheduler and two workers were found"
    got = {where: [kind for kind, text in answers if text] for where, (_, *answers) in tried.items()}
    own = [sorted(kinds) for where, kinds in got.items() if where.startswith("own ")]
    assert own == [["tls"], ["page", "tcp"], ["page"]], "what is open to it"
    assert {where: kinds for where, kinds in got.items() if kinds and not where.startswith("own ")} == {}
    assert not [where for where in tried if where.startswith("/")], "sockets"


def test_nothing_of_the_session_reaches_the_jobs(ran: Run) -> None:
    told = [dict(line.partition(b"=")[::2] for line in found.split(b"\0")) for found in WORKERS.values() if found]
    assert len({one[b"SLURM_JOB_ID"] for one in told}) == 3
    assert all(one[b"SLURM_JOB_NAME"].startswith(b"dask-") for one in told)
    assert [name for one in told for name, value in one.items() if SECRET.encode() in value] == []


def test_no_part_works_in_a_folder_that_a_neighbour_can_have_made(ran: Run) -> None:
    assert set() == AT_KNOWN_NAMES


def test_jobs_keys_and_folders_are_gone_with_the_cluster(ran: Run) -> None:
    no_job_is_left()
    assert [path for path in Path("/tmp").glob("dask-*") if path.owner() == PERSON] == []
    assert "No worker of this cluster is left" in ran.text("close")
    assert [path.name for path in (ran.folder / "dask-cluster").iterdir() if path.suffix not in (".err", ".out")] == []


def test_nothing_puzzling_is_printed_to_stderr(ran: Run) -> None:
    assert {name: noise for name, noise in ran.stderr.items() if noise} == {}


def test_the_dashboard_draws_itself_in_a_tab_behind_the_hub_for_its_person_alone(address: str) -> None:
    with dashboard_tab.browser_of_a_session() as browser:
        lab = dashboard_tab.open_notebook(browser, address, "Dask")
        dashboard_tab.run_cell(lab, dashboard_tab.BEGIN.format(framework="dask") + CLUSTER + dashboard_tab.SHOW)
        tab = dashboard_tab.open_dashboard(lab)

        dashboard_tab.printed(lab, "script 0o40700")  # in a folder of all a neighbour writes another script
        expect(tab).to_have_url(re.compile(rf"/user/{PERSON}/sockets/dask-[0-9a-f]{{8}}/status$"))
        # Bokeh draws once its web socket has told it what.
        expect(tab.locator(".bk-Figure").first).to_be_visible(timeout=LAB_DEADLINE_MS)
        pictures.keep(tab, FOLDER / "dask-dashboard.png")
        assert dashboard_tab.refuses(browser, address, tab, NEIGHBOUR)
        dashboard_tab.run_cell(lab, CLOSED)
        dashboard_tab.printed(lab, r"sockets \[\]")
