"""One hostile person costs the others nothing: real homes, real Slurm, a real hub behind its real proxy."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx
import pytest

from portal.launcher import ENVIRONMENT_FILE, LOG_FILE, SESSIONS
from spawners.timings import FOLLOWED_AT_ONCE
from tests.forms import of_long_form
from tests.hub.conftest import PORT, URL, Hub, Person, hub, people
from tests.inside import eventually, has_no_job, home, jobs_of, sh

__all__ = ["hub", "people"]
HUB_PORT = PORT + 81
NOTICED_WITHIN_S = 25.0  # the hub looks every 12 s
OTHERS_WITHIN_S = 4.0
BIG = 30 * 2**20
# Runs as somebody on another address: opens connections again and again, says the first byte of TLS, and keeps them.
CONNECT = """
import collections, resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (4000, 4000))
kept = collections.deque(maxlen=3000)
for number in range(10**6):
    try:
        kept.append(socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5, ("127.0.0.7", 0)))
        kept[-1].sendall(bytes.fromhex(sys.argv[2]))
    except OSError:
        pass
    if number == 1500:
        print("many", flush=True)
"""


def put_pipe(person: str, key: str) -> None:
    """A pipe in the place of a session's log, as its owner puts it there."""
    log = home(person) / SESSIONS / key / LOG_FILE
    sh("rm", "-f", str(log), user=person)
    sh("mkdir", "-p", str(log.parent), user=person)
    sh("mkfifo", str(log), user=person)


def secrets_of(person: str) -> list[Path]:
    """The environments of sessions that lie in a home."""
    return list((home(person) / SESSIONS).rglob(ENVIRONMENT_FILE))


def launchers_of(person: str) -> list[str]:
    """The launchers that run as a person."""
    return sh("pgrep", "--full", f"^sudo .*--user {person} .*portal-launch", check=False).split()


@pytest.fixture
def lost_jobs(hub: Hub) -> Iterator[list[str]]:
    """Many jobs of alice that are called like this hub's sessions, each with a pipe for a log; then one of bob."""
    hub_id = (hub.folder / "state" / "hub_id").read_text().strip()
    submit = ("sbatch", "--parsable", "--chdir=/", "--output=/dev/null", "--time=5", "--mem=10M", "--wrap=sleep 300")
    for number in range(20):
        put_pipe("alice", f"{hub_id}{number:010x}")
        sh(*submit, f"--job-name=dsportal-{hub_id}{number:010x}", user="alice")
    bobs = sh(*submit, f"--job-name=dsportal-{hub_id}{99:010x}", user="bob").strip()
    yield [bobs]
    for name in ("alice", "bob"):
        sh("scancel", f"--user={name}")
        eventually(partial(has_no_job, name), "no job is left")
        shutil.rmtree(home(name) / SESSIONS, ignore_errors=True)


def test_the_ends_of_all_are_noticed_and_cleaned_up_whatever_lies_in_one_home(people: dict[str, Person]) -> None:
    for person in people.values():
        person.start(gpus="0")
    (key,) = [file.parent.name for file in secrets_of("alice")]
    put_pipe("alice", key)

    began = time.monotonic()
    for name in people:
        sh("scancel", f"--user={name}")
    eventually(lambda: not any(person.server() for person in people.values()), "both ends", within_s=NOTICED_WITHIN_S)
    eventually(lambda: not any(map(secrets_of, people)), "all secrets are gone", within_s=NOTICED_WITHIN_S)

    eventually(lambda: not launchers_of("alice"), "no launcher waits in her home", within_s=10)
    assert time.monotonic() - began < NOTICED_WITHIN_S + 5


def test_a_lost_job_is_ended_in_time_although_somebody_has_many_that_look_like_one(lost_jobs: list[str]) -> None:
    (bobs,) = lost_jobs

    eventually(lambda: bobs not in jobs_of("bob"), "bob's lost job is ended", within_s=NOTICED_WITHIN_S)


def memory_mib(hub: Hub) -> int:
    """What the hub's process holds."""
    return memory_of_mib((hub.folder / "state" / "hub.pid").read_text().strip())


def memory_of_mib(pid: str) -> int:
    """What a process holds."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) // 1024


def others_page_s() -> float:
    """How long a page of somebody else takes."""
    began = time.monotonic()
    assert httpx.get(f"{URL}/hub/health", trust_env=False, timeout=30).status_code == 200
    return time.monotonic() - began


def upload(port: int) -> int:
    """A big form for the login page; the status, or 0 when the connection is cut."""
    try:
        url = f"http://127.0.0.1:{port}/hub/login"
        return httpx.post(url, content=b"x" * BIG, trust_env=False, timeout=30).status_code
    except httpx.HTTPError:
        return 0


@pytest.mark.parametrize("port", [PORT, HUB_PORT])
def test_big_forms_do_not_fill_the_hubs_memory(hub: Hub, port: int) -> None:
    before = memory_mib(hub)

    with ThreadPoolExecutor(12) as pool:
        statuses = set(pool.map(upload, [port] * 12))
        took = others_page_s()

    assert statuses <= {0, 413}
    assert memory_mib(hub) - before < 30
    assert took < OTHERS_WITHIN_S


def test_stalled_forms_are_cut_and_hold_little_memory(hub: Hub) -> None:
    before = memory_mib(hub)
    head = b"POST /hub/login HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
    stalled = [socket.create_connection(("127.0.0.1", HUB_PORT)) for _ in range(200)]
    for connection in stalled:
        connection.sendall(head + b"x" * 500_000) if connection.fileno() % 2 else connection.sendall(head)

    assert others_page_s() < OTHERS_WITHIN_S
    assert memory_mib(hub) - before < 60
    for connection in stalled:
        connection.settimeout(30)
        with connection:
            assert was_cut(connection)


def test_who_has_no_login_to_a_session_does_not_fill_its_memory_and_who_has_saves_much(
    people: dict[str, Person],
) -> None:
    alice = people["alice"]
    alice.start(gpus="0")
    (server,) = sh("pgrep", "-u", "alice", "-f", "portal.singleuser.server").split()
    contents = "/user/alice/api/contents/much.txt"
    before = memory_of_mib(server)

    def upload_without_login(_: int) -> int:
        with httpx.Client(base_url=URL, trust_env=False, timeout=60) as stranger:
            return stranger.put(contents, content=b"x" * BIG).status_code

    with ThreadPoolExecutor(8) as pool:
        statuses = set(pool.map(upload_without_login, range(8)))
    after = memory_of_mib(server)
    cookie = next(one for one in alice.http.cookies.jar if one.name == "_xsrf" and one.path.startswith("/user/alice"))
    much = {"type": "file", "format": "text", "content": "y" * 5 * 2**20}
    saved = alice.http.put(contents, json=much, headers={"X-XSRFToken": cookie.value or ""})

    print(f"her server: {before} MiB, {after} MiB after 8 × {BIG // 2**20} MiB without a login")
    assert statuses == {403}
    assert after - before < 30
    assert saved.status_code in (200, 201), saved.text
    assert (home("alice") / "much.txt").stat().st_size == 5 * 2**20


def was_cut(connection: socket.socket) -> bool:
    """Wait until the hub ends a connection, whatever it says before; False when it does not."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def test_fifty_clicks_in_a_second_of_one_person_cost_another_nothing(people: dict[str, Person]) -> None:
    alice, bob = people["alice"], people["bob"]
    until = time.monotonic() + 5
    cookies = dict(alice.http.cookies)

    def click(number: int) -> int:
        count = 0
        with httpx.Client(base_url=URL, cookies=cookies, trust_env=False, timeout=30) as browser:
            while time.monotonic() < until:
                browser.get(("/hub/home", "/hub/spawn", "/hub/api/users/alice", "/hub/token")[number % 4])
                count += 1
        return count

    quiet = max(page_s(bob) for _ in range(5))
    with ThreadPoolExecutor(8) as pool:
        clicking = [pool.submit(click, number) for number in range(8)]
        took = [page_s(bob) for _ in range(20)]
        clicks = sum(one.result() for one in clicking)

    print(
        f"{clicks / 5:.0f} clicks/s; bob's page: {quiet:.3f} s alone, {sorted(took)[10]:.3f} s, {max(took):.3f} s most"
    )
    assert clicks / 5 > 20, "this machine is too busy to click"
    assert max(took) < OTHERS_WITHIN_S


@pytest.mark.parametrize("said", ["", of_long_form("16")], ids=["nothing", "the first byte of TLS"])
def test_who_opens_connections_to_the_hub_again_and_again_keeps_nobody_from_starting(
    hub: Hub, people: dict[str, Person], said: str
) -> None:
    pid = (hub.folder / "state" / "hub.pid").read_text().strip()
    argv = ["runuser", "-u", "bob", "--", "/usr/bin/python3", "-I", "-c", CONNECT, str(HUB_PORT), said]
    with subprocess.Popen(argv, cwd="/", stdout=subprocess.PIPE) as connecting:
        try:
            assert connecting.stdout
            assert connecting.stdout.readline() == b"many\n"
            held = len(list(Path(f"/proc/{pid}/fd").iterdir()))
            people["alice"].start(gpus="0")
        finally:
            sh("pkill", "-KILL", "-u", "bob", "-f", "create_connection", check=False)

    assert held < 800, held


@pytest.fixture
def full_partition() -> Iterator[None]:
    """Somebody else has all GPUs of sxm2: the next job waits in the queue."""
    taken = ("sbatch", "--parsable", "--partition=sxm2", "--nodes=3", "--gres=gpu:4", "--time=10", "--wrap=sleep 600")
    sh(*taken, "--chdir=/", "--output=/dev/null", user="grace")
    eventually(lambda: "R" in sh("squeue", "--noheader", "--user=grace", "--format=%t").split(), "the job runs")
    yield
    sh("scancel", "--user=grace")
    eventually(partial(has_no_job, "grace"), "no job is left")


def test_of_many_windows_that_follow_one_start_the_newest_are_told_what_happens_and_nobody_else_waits(
    people: dict[str, Person], full_partition: None
) -> None:
    alice, bob = people["alice"], people["bob"]
    windows = 60
    assert alice.spawn(gpus="1", partition="sxm2").status_code == 200
    assert any("waits" in words for words in alice.progress())

    with ThreadPoolExecutor(windows) as pool:
        following = [pool.submit(lambda: list(alice.progress())) for _ in range(windows)]
        eventually(lambda: sum(one.done() for one in following) >= windows - FOLLOWED_AT_ONCE, "the oldest give way")
        took = max(page_s(bob) for _ in range(5))
        assert sum(not one.done() for one in following) == FOLLOWED_AT_ONCE
        alice.stop()  # which ends the others
    gave_way = ["followed in more than" in one.result()[-1] for one in following]

    assert sum(gave_way) == windows - FOLLOWED_AT_ONCE
    assert took < OTHERS_WITHIN_S


def page_s(person: Person) -> float:
    """How long the server page of a person takes."""
    began = time.monotonic()
    assert person.http.get("/hub/home").status_code == 200
    return time.monotonic() - began


def test_a_job_that_shall_begin_after_the_end_of_all_calendars_keeps_nobody_from_starting(
    people: dict[str, Person],
) -> None:
    for begin in ("now+999999weeks", "now+99999999weeks", "now+9223372036854775807"):
        sh("sbatch", f"--begin={begin}", "--chdir=/", "--output=/dev/null", "--wrap=true", user="bob")

    people["alice"].start(gpus="0")


def test_nobodys_job_is_taken_for_somebody_elses_session_whatever_its_name_says(
    hub: Hub, people: dict[str, Person]
) -> None:
    hub_id = (hub.folder / "state" / "hub_id").read_text().strip()
    submit = (
        "sbatch",
        "--parsable",
        "--hold",
        "--chdir=/",
        "--output=/dev/null",
        "--time=5",
        "--mem=10M",
        "--wrap=true",
    )
    bobs = sh(*submit, user="bob").strip()
    forged = f"dsportal-{hub_id}{1:010x} UserId=alice({home('alice').stat().st_uid}) x"
    lines = [f"{number}|alice|dsportal-{hub_id}{number:010x}" for number in range(1, 16)]  # more than one look takes
    name = "\n".join([forged, f"{bobs}|alice|dsportal-{hub_id}{1:010x}", *lines])
    sh("scontrol", "update", f"JobId={bobs}", f"JobName={name}", user="bob")

    for number in (2, 3):  # one after the other: then it has looked at all of the first time
        sh(*submit, f"--job-name=dsportal-{hub_id}{number:010x}", user="alice")
        eventually(partial(has_no_job, "alice"), "the hub ends her lost job", within_s=NOTICED_WITHIN_S)

    assert f"Job {bobs} of alice" not in hub.log()
    assert bobs in jobs_of("bob")
