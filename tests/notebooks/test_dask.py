"""The lesson on Dask in a real Slurm job, with workers in others; a neighbour on the node tries every door of it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.inside import home, sh
from tests.notebooks.jobs import NO_GPU, PERSON, Run, finished_run, no_job_is_left

LESSON = "dask/slurm_cluster"
FEW = {"limit": 10_000_000, "cores": 1, "job_minutes": 5}
NEIGHBOUR = "dave"
TRIED = Path("/tmp/tried-dask")  # what the neighbour got
# Runs as a neighbour on the nodes: speaks to every port of the person's as a client of Dask, over TLS and not, and as a
# browser, and opens every socket that it finds. It writes down whom it has spoken to, and what it got.
NEIGHBOUR_TRIES = """
import asyncio, glob, json, socket, sys, warnings
from pathlib import Path
from distributed import Security, rpc
warnings.simplefilter("ignore")
uid, tried = sys.argv[1], {}
stranger = Security.temporary()
async def dask(address, **how):
    async with asyncio.timeout(3):
        async with rpc(address, **how) as worker:
            return str(await worker.identity())
async def page(port):
    async with asyncio.timeout(3):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /status HTTP/1.0\\r\\n\\r\\n")
        return (await reader.read(200)).decode(errors="replace")
async def said(kind, doing):
    try:
        return [kind, await doing]
    except Exception as error:
        return [kind, None]
async def main():
    while True:
        for line in [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]:
            host, port = line[1].split(":")
            port = int(port, 16)
            if line[3] != "0A" or line[7] != uid or port in tried:
                continue
            host = socket.inet_ntoa(bytes.fromhex(host)[::-1])
            tls = dict(connection_args=stranger.get_connection_args("client"))
            tried[port] = [host] + [await said(*one) for one in (
                ("tls", dask(f"tls://{host}:{port}", **tls)),
                ("tcp", dask(f"tcp://{host}:{port}")),
                ("page", page(port)),
            )]
        for path in glob.glob(sys.argv[2] + "/**/*dask*.sock", recursive=True):
            tried[path] = [""]
        Path(sys.argv[3]).write_text(json.dumps(tried))
        await asyncio.sleep(0.2)
asyncio.run(main())
"""


@pytest.fixture(scope="module")
def ran() -> Iterator[Run]:
    """One run of the lesson, looked at by all tests; a neighbour tries all that listens meanwhile."""
    with neighbour(), finished_run(LESSON, "dask-lesson", FEW, resources=NO_GPU) as run:
        yield run


@contextmanager
def neighbour() -> Iterator[None]:
    """Another person, on the same nodes."""
    sh("rm", "-rf", str(TRIED))
    program = 'module load shared shared/dask && exec python -c "$@"'
    told = (str(home(PERSON).stat().st_uid), str(home(PERSON)), str(TRIED))
    argv = ["runuser", "-u", NEIGHBOUR, "--", "bash", "-lc", program, "tries", NEIGHBOUR_TRIES, *told]
    with subprocess.Popen(argv, cwd="/") as trying:
        try:
            yield
        finally:
            trying.terminate()  # runuser ends what it has started


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
    assert len(tried) >= 3, "the scheduler and two workers were found"
    got = {where: answers for where, (_, *answers) in tried.items() if any(text for _, text in answers)}
    assert got == {}
    assert not [where for where in tried if where.startswith("/")], "sockets"


def test_jobs_and_keys_are_gone_with_the_cluster(ran: Run) -> None:
    no_job_is_left()
    assert "No worker of this cluster is left" in ran.text("close")
    assert [path.name for path in (ran.folder / "dask-cluster").iterdir() if path.suffix not in (".err", ".out")] == []


def test_nothing_puzzling_is_printed_to_stderr(ran: Run) -> None:
    assert {name: noise for name, noise in ran.stderr.items() if noise} == {}
