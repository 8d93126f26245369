"""A session from the click to its end, on a real hub, real LDAP and real Slurm."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import httpx
import pytest

from portal.hub.database import FILE
from portal.launcher import ENVIRONMENT_FILE, SESSIONS
from portal.request import WORDS_OF_A_LINK, SessionRequest
from portal.site import load
from portal.slurm.cluster import Cluster
from portal.slurm.submission import submission
from tests.forms import of_long_form
from tests.hub.conftest import URL, Hub, Person
from tests.inside import SITE_FILE, as_portal, eventually, home, jobs_of, sh, start_again


def test_a_click_becomes_a_job_and_a_lab_and_a_stop_ends_both(alice: Person) -> None:
    job_id = alice.start(gpus="1", hours="2", partition="sxm2")

    shown = sh("scontrol", "show", "job", job_id)
    assert "TimeLimit=02:00:00" in shown
    assert "gres/gpu=1" in shown
    names = {item["name"] for item in alice.http.get("/user/alice/api/contents").json()["content"]}
    assert {"templates", "isilon"} <= names
    alice.stop()
    eventually(lambda: not jobs_of("alice"), "the job is gone", within_s=15)
    assert not list((home("alice") / SESSIONS).rglob(ENVIRONMENT_FILE))


def test_nothing_in_a_home_changes_the_session_server(alice: Person) -> None:
    for name in ("random.py", "json.py", "queue.py"):
        (home("alice") / name).write_text("raise SystemExit('imported from the home')")
    (home("alice") / "tornado").mkdir(exist_ok=True)
    try:
        alice.start(gpus="0")
    finally:
        sh("rm", "-rf", *(str(home("alice") / name) for name in ("random.py", "json.py", "queue.py", "tornado")))


def test_kernels_come_from_the_site(alice: Person) -> None:
    alice.start(gpus="0")

    kernels = alice.http.get("/user/alice/api/kernelspecs").json()["kernelspecs"]

    titles = {spec["spec"]["display_name"] for spec in kernels.values()}
    assert {"Python 3", "R", "TensorFlow 2.21"} <= titles


def test_two_people_do_not_see_each_others_files_or_servers(people: dict[str, Person]) -> None:
    for person in people.values():
        person.start(gpus="1")

    assert people["bob"].http.get("/user/alice/api/contents").status_code == 403
    assert "Permission denied" in sh("ls", str(home("alice")), user="bob", check=False)
    assert httpx.get(f"{URL}/user/alice/api/contents", trust_env=False).status_code == 403


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gpus": 5}, "gpus: 5 is not possible here"),
        ({"hours": -1}, "hours: -1 is not possible here"),
        ({"partition": '"; rm -rf'}, "partition: '"),
        ({"partition": "sxm2\n#SBATCH --account=vip"}, "partition: "),
        ({"partition": ["sxm2"]}, "partition: ['sxm2'] is not possible here"),
        ({"gpus": [1]}, "gpus: [1] is not possible here"),
        ({"cmd": "id"}, "options: 'cmd' is not possible here"),
        ({"partition": "iq"}, "partition: 'iq' is not possible here"),
    ],
)
def test_what_is_not_allowed_is_refused_by_rest_with_400_and_makes_no_job(
    alice: Person, options: dict[str, object], words: str
) -> None:
    answer = alice.api("POST", "/users/alice/server", json=options)

    assert answer.status_code == 400
    assert answer.json()["message"].startswith(words)
    assert not jobs_of("alice")


def test_what_is_not_allowed_is_refused_by_the_form_with_400_and_the_reason(alice: Person) -> None:
    answer = alice.spawn(gpus="5", hours="8", partition="sxm2")

    assert answer.status_code == 400
    assert "a whole number from 0 to 4" in answer.text
    assert not jobs_of("alice")


@pytest.mark.parametrize(
    ("query", "status", "says"),
    [
        ("opt-gpus=4", 200, WORDS_OF_A_LINK),
        ("gpus=4&partition=sxm2", 200, WORDS_OF_A_LINK),
        ("gpus=5", 400, "a whole number from 0 to 4"),
        ("profile=x", 400, "profile"),
    ],
)
def test_a_link_starts_nothing(alice: Person, query: str, status: int, says: str) -> None:
    answer = alice.http.get(f"/hub/spawn/alice?{query}")

    assert (answer.status_code, says in answer.text) == (status, True), answer.text
    assert not jobs_of("alice")


def test_slurms_own_words_reach_the_person_when_it_refuses(alice: Person) -> None:
    sh("scontrol", "update", "PartitionName=sxm2", "MaxTime=60")
    try:
        alice.api("POST", "/users/alice/server", json={"hours": 8})
        page = eventually(lambda: _failure(alice), "the page tells the failure", within_s=30)
    finally:
        sh("scontrol", "update", "PartitionName=sxm2", "MaxTime=1440")

    assert "Slurm did not accept the session" in page
    assert "time limit" in page


def test_a_job_that_dies_before_its_server_answers_is_told_in_seconds(alice: Person) -> None:
    with ThreadPoolExecutor(1) as pool:  # the server starts in half a second: it is stopped in the middle of that
        stop = ("pkill", "-STOP", "--uid", "alice", "--full", "portal.singleuser.server")
        stopped = pool.submit(eventually, lambda: not subprocess.call(stop), "the server starts", every_s=0.01)
        alice.spawn(gpus="0")
        stopped.result()
    (job_id,) = jobs_of("alice")
    assert alice.server()["pending"] == "spawn"
    sh("scancel", "--full", "--signal=KILL", job_id)

    page = eventually(lambda: _failure(alice), "the page tells the failure", within_s=15)

    assert "The session" in page
    assert not jobs_of("alice")


def _failure(person: Person) -> str:
    """The page of a start that failed, once it has."""
    if person.server().get("pending"):
        return ""
    return person.http.get(f"/hub/spawn-pending/{person.name}").text


@pytest.mark.parametrize("daemon", ["slurmctld", of_long_form("munged")])
def test_a_slurm_that_is_silent_ends_no_session(hub: Hub, alice: Person, daemon: str) -> None:
    job_id = alice.start(gpus="0")
    before = len(hub.log())

    sh("pkill", "-STOP", "-x", daemon)
    try:
        eventually(lambda: "Slurm does not answer" in hub.log()[before:], "the hub notices", within_s=60)
        assert alice.server()["ready"]
        assert alice.http.get("/user/alice/api/contents").status_code == 200
    finally:
        sh("pkill", "-CONT", "-x", daemon)

    eventually(lambda: "Slurm answers again" in hub.log()[before:], "the hub notices again", within_s=60)
    assert alice.is_ready()
    assert jobs_of("alice") == [job_id]


def test_a_start_that_is_stopped_at_once_leaves_no_job(alice: Person) -> None:
    for _ in range(3):
        alice.api("POST", "/users/alice/server", json={"gpus": 0})
        alice.stop()

    eventually(lambda: not jobs_of("alice"), "no job is left", within_s=15)


def test_fifty_clicks_at_once_make_one_job(alice: Person) -> None:
    before = sh("sbatch", "--parsable", "--wrap=true", "--output=/dev/null").strip()

    def click(_: int) -> int:
        headers, cookies = {"X-XSRFToken": alice.xsrf}, alice.http.cookies
        with httpx.Client(trust_env=False, timeout=60, cookies=cookies) as client:
            return client.post(f"{URL}/hub/api/users/alice/server", headers=headers, json={"gpus": 0}).status_code

    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(click, range(50)))

    eventually(alice.is_ready, "the session is ready", within_s=60)
    assert len(jobs_of("alice")) == 1
    assert sum(code in (201, 202) for code in answers) >= 1, answers
    assert set(answers) <= {201, 202, 400}, answers
    first, last = (
        int(job) for job in (before, sh("sbatch", "--parsable", "--wrap=true", "--output=/dev/null").strip())
    )
    assert last - first == 2, "one job came between the one before the clicks and the one after"


@pytest.mark.long
def test_a_session_outlives_a_hub_that_is_killed(hub: Hub, alice: Person) -> None:
    job_id = alice.start(gpus="1")

    hub.kill()
    hub.start()

    eventually(alice.is_ready, "the session is there again", within_s=30)
    assert jobs_of("alice") == [job_id]
    alice.stop()
    eventually(lambda: not jobs_of("alice"), "the job is gone", within_s=15)


def test_a_session_whose_node_is_silent_keeps_no_other_one_waiting_when_the_hub_comes_back(
    hub: Hub, people: dict[str, Person]
) -> None:
    alice, bob = people["alice"], people["bob"]
    job_id = alice.start(gpus="0")
    bob.start(gpus="0")
    servers = sh("pgrep", "--uid", "alice", "-f", "portal.singleuser.server").split()
    sh("kill", "-STOP", *servers)
    try:
        hub.kill()
        hub.start()

        eventually(bob.is_ready, "the other session is there again", within_s=30)
        assert alice.server().get("ready"), "Slurm says that it lives; that is enough"
    finally:
        sh("kill", "-CONT", *servers)
    eventually(alice.is_ready, "the session is there again", within_s=60)
    assert jobs_of("alice") == [job_id]


def test_a_session_that_waits_outlives_a_hub_that_is_killed_and_starts_when_there_is_room(
    hub: Hub, people: dict[str, Person]
) -> None:
    sh("scontrol", "update", "PartitionName=sxm2", "State=DOWN")
    try:
        alice = people["alice"]
        alice.spawn(gpus="1", partition="sxm2")
        (job_id,) = eventually(lambda: jobs_of("alice"), "the job waits")
        hub.kill()
        hub.start()
        eventually(lambda: alice.server().get("pending") == "spawn", "the session is taken up again")
        assert jobs_of("alice") == [job_id]
    finally:
        sh("scontrol", "update", "PartitionName=sxm2", "State=UP")

    eventually(alice.is_ready, "the session is ready", within_s=60)
    assert jobs_of("alice") == [job_id]


def test_a_session_that_started_while_the_hub_was_away_is_taken_up_too(hub: Hub, alice: Person) -> None:
    alice.spawn(gpus="0")
    (job_id,) = eventually(lambda: jobs_of("alice"), "the job is there")
    hub.kill()
    eventually(lambda: "RUNNING" in sh("squeue", "-h", "-j", job_id, "-o", "%T"), "the job runs")
    hub.start()

    eventually(alice.is_ready, "the session is ready", within_s=60)
    assert jobs_of("alice") == [job_id]


def test_a_hub_that_dies_just_after_the_servers_word_remembers_it(hub: Hub, alice: Person) -> None:
    before = len(hub.log())
    alice.spawn(gpus="0")
    eventually(lambda: "POST /hub/api/dsportal/ready" in hub.log()[before:], "the server's word", every_s=0.005)
    hub.kill()
    hub.start()

    eventually(alice.is_ready, "the session is ready", within_s=30)
    assert len(jobs_of("alice")) == 1


async def test_a_job_that_no_session_holds_is_ended_and_other_hubs_jobs_are_not(hub: Hub) -> None:
    site = load(str(SITE_FILE))
    cluster = Cluster(site.portal.launcher, run=as_portal)
    hub_id = (hub.folder / "state" / "hub_id").read_text()
    ours, others = f"{hub_id}0123456789", "fedcba9876543210"
    environment = {"JUPYTERHUB_API_URL": "http://127.0.0.1:9/hub/api", "JUPYTERHUB_API_TOKEN": "x"}
    environment |= {"JUPYTERHUB_SERVICE_URL": "http://0.0.0.0:0/", "DSPORTAL_SESSION": '{"notebooks": "/nowhere"}'}
    request = SessionRequest("sxm2", 0, 1)
    jobs = [await cluster.submit("alice", submission(request, site, key, environment)) for key in (ours, others)]
    lookalike = [f"--job-name=dsportal-{hub_id}\n1", "--output=/dev/null", "--wrap=sleep 60"]
    named_alike = sh("sbatch", "--parsable", *lookalike, user="bob").strip()

    eventually(lambda: jobs[0] not in jobs_of("alice"), "the job that nobody holds is gone", within_s=30)

    assert jobs[1] in jobs_of("alice")
    assert named_alike in jobs_of("bob")
    await cluster.finish("alice", others, jobs[1])
    sh("scancel", named_alike)


@pytest.mark.long
def test_a_session_that_an_administrator_cancels_is_gone_for_the_hub_too(alice: Person) -> None:
    job_id = alice.start(gpus="0")

    sh("scancel", job_id)

    eventually(lambda: not alice.server(), "the hub knows that it ended", within_s=30)
    secrets = home("alice") / SESSIONS
    eventually(lambda: not list(secrets.rglob(ENVIRONMENT_FILE)), "its secrets are gone too", within_s=20)
    for page in ("/hub/home", "/user/alice/lab"):
        assert "The session was cancelled by root." in alice.http.get(page).text, page


def test_a_session_that_is_requeued_goes_on_at_its_new_place(hub: Hub, alice: Person) -> None:
    job_id = alice.start(gpus="0")
    before = len(hub.log())

    sh("scontrol", "requeue", job_id)
    eventually(lambda: "was requeued" in hub.log()[before:], "the hub notices")
    start_again(job_id)

    eventually(lambda: "continues at" in hub.log()[before:], "the session has a new address", within_s=90)
    eventually(alice.is_ready, "the session answers there", within_s=60)
    assert jobs_of("alice") == [job_id]


def _token_of(person: Person) -> str:
    """A token that somebody has made on the token page."""
    return str(person.api("POST", f"/users/{person.name}/tokens", json={"note": "test"}).json()["token"])


def announced_port(hub: Hub, name: str) -> int:
    """Where the database says that a person's session listens."""
    query = "SELECT spawners.state FROM spawners JOIN users ON users.id = user_id WHERE users.name = ?"
    with closing(sqlite3.connect(hub.folder / "state" / FILE)) as database:
        return int(json.loads(database.execute(query, (name,)).fetchone()[0])["port"])


def test_the_callback_takes_a_port_from_a_starting_session_and_nothing_else(
    hub: Hub, people: dict[str, Person]
) -> None:
    alice = people["alice"]
    job_id = alice.start(gpus="0")
    (file,) = (home("alice") / SESSIONS).rglob(ENVIRONMENT_FILE)
    token = json.loads(file.read_text())["JUPYTERHUB_API_TOKEN"]

    def call(body: object, token: str = token, path: str = "/hub/api/dsportal/ready") -> int:
        headers = {"Authorization": f"token {token}"}
        return httpx.post(f"{URL}{path}", json=body, headers=headers, trust_env=False).status_code

    before = len(hub.log())
    port = announced_port(hub, alice.name)
    assert call({"port": port, "restarts": 0}) == 204, "a server says the same again, for ever"
    assert call({"port": 5000}) == 409
    eventually(lambda: "409 POST /hub/api/dsportal/ready" in hub.log()[before:], "a refusal is logged")
    assert "204 POST /hub/api/dsportal/ready" not in hub.log()[before:], "the same again is not"
    assert call({"port": "5000"}) == 400
    assert call({"port": 5000, "exec_prefix": "id"}) == 400
    assert call({"exec_prefix": "id"}) == 400
    assert call({"port": 5000}, token="wrong") == 403
    assert call({"port": 5000}, token=_token_of(people["alice"])) == 403, "her own, but not the session's"
    assert call({"port": 5000}, token=_token_of(people["bob"])) == 403
    assert call({}, path="/hub/api/dsportal/ending") == 204, "a hint to ask Slurm, which says that it runs"
    assert call({}, path="/hub/api/dsportal/ending", token=_token_of(people["bob"])) == 403
    assert call({"port": 5000}, path="/hub/api/batchspawner") == 404
    assert jobs_of("alice") == [job_id]
    assert alice.is_ready()
    alice.stop()
    assert call({"port": 5000}) == 403, "a session that is over has no word any more"


def test_no_secret_is_in_the_hubs_log(hub: Hub, alice: Person) -> None:
    alice.start(gpus="0")
    (file,) = (home("alice") / SESSIONS).rglob(ENVIRONMENT_FILE)

    assert json.loads(file.read_text())["JUPYTERHUB_API_TOKEN"] not in hub.log()
    assert "alice-demo" not in hub.log()
