"""What only the real cluster can show: GPUs, secrets, sudo. What the hub believes of Slurm is in test_contract.py."""

from __future__ import annotations

import json
import re
import secrets
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.demo.people import GROUP_ID
from portal.doctor.person_checks import person
from portal.errors import AccountGone, ActingRefused, SlurmUnavailable
from portal.launcher import ENVIRONMENT_FILE, SESSIONS
from portal.receipts import accounted
from portal.request import SessionRequest
from portal.site import Site
from portal.slurm.cluster import Cluster
from portal.slurm.runner import run
from portal.slurm.submission import job_name, submission
from tests.inside import accounts, as_portal, eventually, home, is_root_variant, jobs_of, sh

TOKEN = "a-token-that-nobody-else-may-see"


@pytest.fixture
def cluster(site: Site) -> Cluster:
    """The hub's side, acting as the hub's own account."""
    return Cluster(site.portal.launcher, run=as_portal)


def environment() -> dict[str, str]:
    """A session whose hub does not answer: its server starts and tries to call home."""
    return {
        "JUPYTERHUB_API_TOKEN": TOKEN,
        "JUPYTERHUB_API_URL": "http://127.0.0.1:9/hub/api",
        "JUPYTERHUB_SERVICE_URL": "http://0.0.0.0:0/user/alice/",
        "DSPORTAL_SESSION": json.dumps({"notebooks": "/nowhere", "storage": []}),
    }


def environment_file(user: str, key: str) -> Path:
    return home(user) / SESSIONS / key / ENVIRONMENT_FILE


async def test_a_session_has_the_gpus_the_cores_and_the_memory_of_its_form(
    cluster: Cluster, site: Site, key: str
) -> None:
    job_id = await cluster.submit("alice", submission(SessionRequest("sxm2", 1, 1), site, key, environment()))

    shown = sh("scontrol", "show", "job", job_id)

    assert "gres/gpu=1" in shown
    assert "NumCPUs=8" in shown
    assert "48G" in shown
    await cluster.finish("alice", key, job_id)


async def test_a_job_that_dies_at_once_is_told_with_its_code_and_its_last_words(
    cluster: Cluster, site: Site, key: str
) -> None:
    spoiled = environment() | {"DSPORTAL_SESSION": "no json"}

    job_id = await cluster.submit("bob", submission(SessionRequest("sxm2", 0, 1), site, key, spoiled))
    eventually(lambda: "FAILED" in sh("scontrol", "show", "job", job_id), "the job failed")

    end = await cluster.ended(job_id)
    assert end is not None
    assert (end.state, end.exit_code) == ("FAILED", "1:0")
    assert "JSONDecodeError" in await cluster.finish("bob", key, job_id)


async def test_a_job_of_somebody_else_that_is_called_like_a_session_is_not_that_session(
    cluster: Cluster, key: str
) -> None:
    options = (f"--job-name={job_name(key)}", "--array=1-3", "--hold", "--output=/dev/null", "--chdir=/", "--wrap=true")
    theirs = sh("sbatch", "--parsable", *options, user="bob").strip()

    assert await cluster.find("alice", key) == ""

    sh("scancel", theirs)


async def test_a_job_ends_in_accounting_too(cluster: Cluster, site: Site, key: str) -> None:
    job_id = await cluster.submit("bob", submission(SessionRequest("sxm2", 0, 1), site, key, environment()))
    await cluster.finish("bob", key, job_id)

    command = ("sacct", "-n", "-P", "-X", "-j", job_id, "-o", "State")
    eventually(lambda: "CANCELLED" in sh(*command), "accounting knows the end")


async def test_accounting_tells_what_a_session_used(cluster: Cluster, site: Site, key: str) -> None:
    job_id = await cluster.submit("bob", submission(SessionRequest("sxm2", 1, 1), site, key, environment()))
    eventually(lambda: "RUNNING" in sh("scontrol", "show", "job", job_id), "the job runs")
    await cluster.finish("bob", key, job_id)
    other = {job_id: job_name(key[:-1] + ("0" if key[-1] != "0" else "1"))}

    def told(jobs: dict[str, str]) -> dict[str, accounted.Accounted]:
        return accounted.parse(sh(*accounted.command(jobs, accounted.COLUMNS)), accounted.COLUMNS)

    mine = {job_id: job_name(key)}
    eventually(lambda: any(one.is_settled for one in told(mine).values()), "accounting has settled", within_s=60)
    found = told(mine)[job_id].receipt
    assert (found.cores, found.memory_mib) == (8, 48 * 1024)
    assert accounted.with_gpus(told(mine)[job_id], 1).gpus == 1
    assert told(other) == {}, "a job of this number that has another name is not this session's"


async def test_the_job_of_somebody_whose_account_is_gone_is_ended_where_the_hub_is_an_operator(
    cluster: Cluster, site: Site, key: str
) -> None:
    job_id = await cluster.submit("alice", submission(SessionRequest("sxm2", 0, 1), site, key, environment()))

    with pytest.raises(SlurmUnavailable) as refused:
        await cluster.finish("no-longer-here", key, job_id)
    assert "the account no-longer-here is gone, and as this account: " in refused.value.detail
    assert "denied" in refused.value.detail
    with operator("portal"):
        other = submit_own("bob")
        await cluster.finish("no-longer-here", key, other)
        await cluster.finish("no-longer-here", key, job_id)

    eventually(lambda: job_id not in jobs_of("alice"), "the job is gone", within_s=60)
    assert other in jobs_of("bob"), "a job of another name is left alone"
    sh("scancel", other)


@contextmanager
def operator(account: str) -> Iterator[None]:
    """Meanwhile an account may end anybody's jobs."""
    sh("sacctmgr", "--immediate", "add", "account", "operators")
    sh("sacctmgr", "--immediate", "add", "user", account, "account=operators", "adminlevel=operator")
    eventually(lambda: "Operator" in sh("sacctmgr", "-nP", "show", "user", account), "Slurm knows the operator")
    try:
        yield
    finally:
        sh("sacctmgr", "--immediate", "delete", "user", account)
        sh("sacctmgr", "--immediate", "delete", "account", "operators")


def submit_own(user: str) -> str:
    """A batch job of a person's own."""
    options = ("--job-name=training", "--partition=requestq", "--chdir=/tmp", "--output=/dev/null", "--mem=100M")
    return sh("sbatch", "--parsable", *options, "--wrap=sleep 300", user=user).strip()


async def test_two_people_on_one_node_do_not_get_each_others_gpus(cluster: Cluster, site: Site) -> None:
    keys = {user: secrets.token_hex(8) for user in ("alice", "bob")}
    jobs = {}
    for user, key in keys.items():
        request = SessionRequest("iq", 2 if user == "bob" else 1, 1)  # iq has one node
        jobs[user] = await cluster.submit(user, submission(request, site, key, environment()))
    try:
        given = {user: _gpus_of(user, job_id) for user, job_id in jobs.items()}
    finally:
        for user, job_id in jobs.items():
            await cluster.finish(user, keys[user], job_id)

    assert [len(gpus) for gpus in given.values()] == [1, 2]
    assert not given["alice"] & given["bob"]


def _numbers(shown: str) -> set[str]:
    """The GPU numbers of ``GRES=gpu:3(IDX:0-1,3)``."""
    found: set[str] = set()
    for part in re.findall(r"IDX:([0-9,-]+)", shown)[0].split(","):
        first, _, last = part.partition("-")
        found |= {str(number) for number in range(int(first), int(last or first) + 1)}
    return found


def _gpus_of(user: str, job_id: str) -> set[str]:
    """The numbers of the GPUs that Slurm gave to a job, as its own step sees them; foreign ones cannot be opened."""
    eventually(lambda: "RUNNING" in sh("squeue", "-h", "-j", job_id, "-o", "%T"), f"job {job_id} runs")
    step = ["srun", "--overlap", f"--jobid={job_id}", "--quiet", "--ntasks=1"]
    given = _numbers(sh("scontrol", "--details", "show", "job", job_id))
    if is_root_variant():
        for number in range(4):
            said = sh(*step, "head", "-c0", f"/dev/nvidia{number}", user=user, check=False)
            expected = "No such device" if str(number) in given else "Operation not permitted"
            assert expected in said, f"{user}, GPU {number}, given {given}: {said}"
    return given


async def test_the_token_is_nowhere_where_somebody_else_could_read_it(
    cluster: Cluster, site: Site, key: str, tmp_path: Path
) -> None:
    job_id = await cluster.submit("alice", submission(SessionRequest("sxm2", 1, 1), site, key, environment()))
    eventually(lambda: "RUNNING" in sh("squeue", "-h", "-j", job_id, "-o", "%T"), "the job runs")
    eventually(lambda: "portal.singleuser.server" in sh("ps", "axww", "-o", "args"), "the server starts")

    seen = {
        "scontrol": sh("scontrol", "show", "job", job_id, user="bob"),
        "squeue": sh("squeue", "--json", user="bob"),
        "sacct": sh("sacct", "-j", job_id, "--json", check=False),
        "script": sh("sacct", "-j", job_id, "--batch-script", check=False),
        "env": sh("sacct", "-j", job_id, "--env-vars", check=False),
        "ps": sh("ps", "axeww", user="bob"),
        "state": sh("grep", "-rl", "--binary-files=text", TOKEN, "/cluster/slurm", "/cluster/logs", check=False),
    }

    for place, text in seen.items():
        assert TOKEN not in text, place
    assert seen["state"] == ""
    file = environment_file("alice", key)
    assert file.stat().st_mode & 0o777 == 0o600
    assert "Permission denied" in sh("cat", str(file), user="bob", check=False)
    await cluster.finish("alice", key, job_id)


@pytest.mark.parametrize(
    ("name", "error", "line"),
    [
        ("nobody", ActingRefused, "sudo as nobody"),  # an account of this host, in no group of the line in sudoers
        ("walter", AccountGone, "person walter"),
    ],
)
async def test_whom_the_hub_cannot_act_for_is_told_so_at_once_and_the_doctor_says_how_to_repair_it(
    cluster: Cluster, site: Site, key: str, name: str, error: type[SlurmUnavailable], line: str
) -> None:
    began = time.monotonic()

    with pytest.raises(error, match=f"Tell your administrator: `portal doctor --person {name}`"):
        await cluster.submit_or_find(name, submission(SessionRequest("sxm2", 0, 1), site, key, environment()))

    assert time.monotonic() - began < 20, "it is not asked for a minute"
    found = {check.what: check.result for check in await person(name, site, run)}
    assert found[line] == "failed"
    assert {check.result for check in await person("alice", site, run)} == {"ok"}


@pytest.fixture
def another_name_of_root() -> Iterator[None]:
    """The account toor, as some hosts have it, whose group is that of the people."""
    with accounts(f"toor:x:0:{GROUP_ID}::/root:/bin/sh"):
        yield


@pytest.mark.parametrize(
    "argv",
    [
        ("-u", "root", "--", "{launcher}"),
        ("-u", "alice", "--", "id"),
        ("-u", "alice", "--", "/bin/sh", "-c", "id"),
        ("-u", "slurm", "--", "{launcher}"),
        ("-u", "alice", "SLURM_CONF=/tmp/x", "{launcher}"),
        ("-u", "#0", "--", "{launcher}"),
        ("-u", "toor", "--", "{launcher}"),
    ],
)
@pytest.mark.usefixtures("another_name_of_root")
def test_the_hubs_account_may_run_the_launcher_as_people_and_nothing_else(site: Site, argv: tuple[str, ...]) -> None:
    words = [word.format(launcher=site.portal.launcher) for word in argv]

    done = subprocess.run(
        ["runuser", "-u", "portal", "--", "sudo", "-n", *words],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )

    assert done.returncode != 0
