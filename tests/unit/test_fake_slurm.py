"""The double of Slurm: used as a stranger would use it, and held against what the real one was recorded to say."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from portal.errors import SlurmUnavailable, SubmitRefused
from portal.slurm.accounting import JobEnd
from portal.slurm.cluster import Cluster
from portal.slurm.jobs import Phase
from portal.slurm.runner import RunError
from portal.slurm.submission import Submission
from portal.testing import behaviours as does
from portal.testing import outages as outage
from portal.testing.cluster_parts import FakeReservation
from portal.testing.fake_slurm import FakeSlurm, SavedState
from portal.testing.output import uid
from portal.testing.queries import MIN_JOB_AGE_S
from tests.unit.recorded import case, one_line_each, rows, scenario

KEY = "0123456789abcdef"
OPTIONS = ("--partition=sxm2", "--time=60", "--gres=gpu:1", "--cpus-per-task=8")


@pytest.fixture
def slurm() -> FakeSlurm:
    """A cluster in which nothing is wrong."""
    return FakeSlurm()


@pytest.fixture
def cluster(slurm: FakeSlurm) -> Cluster:
    """The hub's side of it."""
    return Cluster("/opt/portal-launch", run=slurm, clock=slurm.clock)


async def submit(cluster: Cluster, *more: str, key: str = KEY) -> str:
    options = (f"--job-name=dsportal-{key}", *OPTIONS, *more)
    return await cluster.submit("alice", Submission(key, options, {"JUPYTERHUB_API_TOKEN": "s3"}))


async def seen(cluster: Cluster, job_id: str) -> tuple[str, str, str]:
    """State, reason and node of a job."""
    snapshot = await cluster.queue(max_age_s=-1)
    assert snapshot.error is None, snapshot.error.detail
    job = snapshot.jobs[job_id]
    return job.state, job.reason, job.node


async def test_a_job_goes_from_the_queue_to_its_end_while_time_travels(slurm: FakeSlurm, cluster: Cluster) -> None:
    slurm.next_job(does.Runs(after_s=30))
    slurm.completing_s = 5
    job_id = await submit(cluster)

    story = [await seen(cluster, job_id)]
    slurm.advance(31)
    story.append(await seen(cluster, job_id))
    await cluster.finish("alice", KEY, job_id)
    story.append(await seen(cluster, job_id))
    assert await cluster.ended(job_id) is None, "its processes live on for a moment"
    slurm.advance(5)

    end = await cluster.ended(job_id)
    assert story == [("PENDING", "Priority", ""), ("RUNNING", "", "gpu01"), ("COMPLETING", "", "gpu01")]
    assert end is not None
    assert (end.state, end.exit_code) == ("CANCELLED", "0:15")
    assert end.cancelled_by in ("alice", uid("alice"))


ENDS = {
    "completed": does.Completes(after_s=60),
    "failed3": does.FailsWith(3, after_s=60),
    "oom": does.OutOfMemory(after_s=60),
    "timeout": does.TimeLimit(after_s=60),
    "cancel_run": does.CancelledByAdmin(after_s=60),
    "nodefail": does.NodeFails(after_s=60),
}


@pytest.mark.parametrize(("label", "behaviour"), ENDS.items(), ids=ENDS)
async def test_every_end_is_the_one_that_was_recorded(
    slurm: FakeSlurm, cluster: Cluster, label: str, behaviour: does.Behaviour
) -> None:
    """In the queue's columns, in ``scontrol show job``, and in accounting, which tells no signal of Slurm's own."""
    recorded_id = scenario("22.05")[label].id
    row = next(row for row in rows(case("22.05", "squeue-us-all").stdout) if row["id"] == recorded_id)
    shown = re.search(rf"^JobId={recorded_id} .*$", case("22.05", "scontrol-show-job-o").stdout, re.MULTILINE)
    accounted = re.search(rf"^{recorded_id}\|{recorded_id}\|.*$", case("22.05", "sacct-PX").stdout, re.MULTILINE)
    assert shown is not None
    assert accounted is not None
    slurm.next_job(behaviour)
    job_id = await submit(cluster)

    slurm.advance(59)
    assert await cluster.ended(job_id) is None
    slurm.advance(1)

    state, reason, node = await seen(cluster, job_id)
    assert (state, reason or "None", bool(node)) == (row["state"], row["reason"], bool(row["node"]))
    end = await cluster.ended(job_id)
    assert end is not None
    assert f" ExitCode={end.exit_code} " in shown[0]
    told = await slurm(("sacct", "--noheader", "--allocations", f"--jobs={job_id}"))
    assert told.stdout.strip() == "|".join(accounted[0].split("|")[7:9])


async def test_a_job_that_is_cancelled_before_it_starts_keeps_the_reason_that_it_waited_for(
    slurm: FakeSlurm, cluster: Cluster
) -> None:
    """Recorded (job cancel_pend): CANCELLED, JobHeldUser, no node, and start and end are the moment of the end."""
    slurm.next_job(does.CancelledByAdmin(after_s=60, before=does.Held()))
    job_id = await submit(cluster)
    slurm.advance(61)

    job = (await cluster.queue()).jobs[job_id]
    end = await cluster.ended(job_id)

    assert (job.state, job.reason, job.node, job.priority) == ("CANCELLED", "JobHeldUser", "", 0)
    assert job.starts_at == job.ends_at == slurm.now.astimezone() - timedelta(seconds=1)
    assert end is not None
    assert (end.exit_code, end.cancelled_by) == ("0:0", "root")


async def test_a_preempted_job_ends_or_is_requeued(slurm: FakeSlurm, cluster: Cluster) -> None:
    slurm.next_job(does.Preempted(after_s=5))
    ended = await submit(cluster)
    slurm.next_job(does.Preempted(after_s=5, requeue=True))
    requeued = await submit(cluster, key="f" * 16)
    slurm.advance(5)

    assert await cluster.ended(ended) == JobEnd("PREEMPTED", "0:15")
    assert await cluster.ended(requeued) is None
    assert await seen(cluster, requeued) == ("PENDING", "BeginTime", "")


@pytest.mark.parametrize("event", [does.Requeued(after_s=60), does.NodeFails(after_s=60, requeue=True)])
async def test_a_requeued_job_waits_two_minutes_and_runs_on_another_node_under_its_id(
    slurm: FakeSlurm, cluster: Cluster, event: does.Behaviour
) -> None:
    slurm.next_job(event)
    job_id = await submit(cluster)
    before = await seen(cluster, job_id)

    slurm.advance(60)
    waiting = (await cluster.queue(max_age_s=-1)).jobs[job_id]
    told = await slurm(("sacct", f"--jobs={job_id}"))
    slurm.advance(does.BEGIN_WAIT_S)
    shown = await slurm(("scontrol", "--oneliner", "show", "job", job_id))

    assert before == ("RUNNING", "", "gpu01")
    assert (waiting.phase, waiting.reason, waiting.node) == (Phase.WAITING, "BeginTime", "")
    assert waiting.submitted_at is not None
    assert waiting.starts_at == waiting.submitted_at + timedelta(seconds=does.BEGIN_WAIT_S)
    assert told.stdout.startswith(("REQUEUED|", "NODE_FAIL|")), "the first run's end, for a moment"
    assert await seen(cluster, job_id) == ("RUNNING", "", "gpu02")
    assert " Restarts=1 " in shown.stdout
    assert await cluster.ended(job_id, was_seen=True) is None


async def test_a_job_waits_for_ever_or_is_held_and_says_why(slurm: FakeSlurm, cluster: Cluster) -> None:
    slurm.next_job(does.PendingForever("QOSMaxGRESPerUser"))
    waiting = await submit(cluster)
    slurm.next_job(does.Held("JobHeldAdmin"))
    held = await submit(cluster, key="f" * 16)
    slurm.advance(10**6)

    jobs = (await cluster.queue()).jobs
    assert (jobs[waiting].state, jobs[waiting].reason, jobs[waiting].priority) == ("PENDING", "QOSMaxGRESPerUser", 1000)
    assert (jobs[held].state, jobs[held].reason, jobs[held].priority) == ("PENDING", "JobHeldAdmin", 0)


async def test_no_job_runs_longer_than_its_time_limit(slurm: FakeSlurm, cluster: Cluster) -> None:
    slurm.next_job(does.Runs(after_s=30))
    job_id = await submit(cluster)

    slurm.advance(30 + 3599)
    assert (await seen(cluster, job_id))[0] == "RUNNING"
    slurm.advance(1)

    assert await cluster.ended(job_id) == JobEnd("TIMEOUT", "0:15", reason="TimeLimit")


async def test_slurmctld_forgets_an_ended_job_and_accounting_does_not(slurm: FakeSlurm, cluster: Cluster) -> None:
    slurm.next_job(does.FailsWith(7, after_s=1))
    job_id = await submit(cluster)
    slurm.advance(1 + MIN_JOB_AGE_S + 1)

    assert not (await cluster.queue()).jobs
    assert await cluster.ended(job_id) == JobEnd("FAILED", "7:0")


@pytest.mark.parametrize(("accounted", "end"), [("", JobEnd("COMPLETED")), ("RUNNING", None)])
async def test_a_job_that_vanishes_is_in_no_listing(
    slurm: FakeSlurm, cluster: Cluster, accounted: str, end: JobEnd | None
) -> None:
    slurm.next_job(does.Vanishes(after_s=60, accounted=accounted))
    job_id = await submit(cluster)
    slurm.advance(60)

    assert not (await cluster.queue()).jobs
    assert await cluster.ended(job_id, was_seen=True) == end
    assert await cluster.ended(job_id, was_seen=False) is None


async def test_something_may_happen_to_a_job_that_runs(slurm: FakeSlurm, cluster: Cluster) -> None:
    job_id = await submit(cluster)
    slurm.advance(600)
    slurm.happens(job_id, does.OutOfMemory(after_s=10))

    states = []
    for _ in range(2):
        states.append((await seen(cluster, job_id))[0])
        slurm.advance(10)

    assert states == ["RUNNING", "OUT_OF_MEMORY"]
    shown = await slurm(("scontrol", "--oneliner", "show", "job", job_id))
    assert " RunTime=00:10:10 " in shown.stdout


# -- the outage ----------------------------------------------------------------------------------------

STORMS = (
    outage.SlurmSilent(),
    outage.ControllerDown(),
    outage.ControllerRestarts(for_s=20),
    outage.MungeDown(),
    outage.SlurmGarbage("garbage\n"),
    outage.SlurmEmpty(),
)


@pytest.mark.parametrize("storm", STORMS, ids=lambda storm: type(storm).__name__)
async def test_in_bad_outage_the_last_picture_stays_and_no_job_has_ended(
    slurm: FakeSlurm, cluster: Cluster, storm: outage.Outage
) -> None:
    job_id = await submit(cluster)
    await cluster.queue()
    slurm.outage = storm

    picture = await cluster.queue(max_age_s=-1)

    assert picture.error is not None
    assert picture.jobs[job_id].phase is Phase.RUNNING
    assert await cluster.ended(job_id, was_seen=True) is None
    slurm.outage = outage.NoOutage()
    assert (await seen(cluster, job_id))[0] == "RUNNING"


RECORDED = {
    "ctldhang": outage.SlurmSilent(message_timeout_s=10),
    "ctlddown": outage.ControllerDown(),
    "mungedead": outage.MungeDown(),
}
COMMANDS = {
    "squeue": ("squeue",),
    "scontrol-show-job": ("scontrol", "show", "job"),
    "scontrol-show-node": ("scontrol", "show", "node"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("fault", RECORDED)
async def test_the_words_of_each_command_are_those_that_were_recorded(
    slurm: FakeSlurm, fault: str, command: str
) -> None:
    recorded = case("22.05", f"{fault}-{command}")
    slurm.outage = RECORDED[fault]

    told = await slurm(COMMANDS[command], timeout_s=15)

    assert told.returncode == recorded.returncode
    real = recorded.stderr.splitlines()
    assert told.stderr.splitlines()[-1] == real[-1]
    assert set(told.stderr.splitlines()) <= set(real)


async def test_a_silent_slurm_lets_a_command_hang_until_its_own_time_out(slurm: FakeSlurm) -> None:
    slurm.outage = outage.SlurmSilent(message_timeout_s=20)

    with pytest.raises(RunError, match="squeue did not answer within 15 s"):
        await slurm(("squeue",), timeout_s=15)
    assert "Socket timed out" in (await slurm(("squeue",), timeout_s=21)).stderr
    assert (await slurm(("sacct", "--jobs=1"), timeout_s=1)).returncode == 0, "accounting is another daemon"


@pytest.mark.parametrize("storm", [outage.SlurmSilent(), outage.ControllerDown(), outage.MungeDown()])
async def test_a_submission_in_bad_outage_is_no_refusal(
    slurm: FakeSlurm, cluster: Cluster, storm: outage.Outage
) -> None:
    slurm.outage = storm

    with pytest.raises(SlurmUnavailable):
        await submit(cluster)
    with pytest.raises(SlurmUnavailable):
        await cluster.finish("alice", KEY, "1")


async def test_what_was_sent_to_a_slurmctld_that_hangs_is_taken_when_it_goes_on(
    slurm: FakeSlurm, cluster: Cluster
) -> None:
    slurm.outage = outage.SlurmSilent()
    with pytest.raises(SlurmUnavailable):
        await submit(cluster)
    assert not slurm.jobs

    slurm.outage = outage.NoOutage()

    assert await cluster.find("alice", KEY) == "1"


async def test_a_lost_answer_and_a_refusal_are_two_things(slurm: FakeSlurm, cluster: Cluster) -> None:
    slurm.outage = outage.SbatchAnswerLost()
    with pytest.raises(SlurmUnavailable):
        await submit(cluster)
    assert await cluster.find("alice", KEY) == "1"
    assert KEY in slurm.environments, "the job needs it"

    slurm.outage = outage.SbatchRefuses("Invalid account")
    with pytest.raises(SubmitRefused, match="Batch job submission failed: Invalid account"):
        await submit(cluster, key="f" * 16)
    assert "f" * 16 not in slurm.environments


async def test_a_controller_that_restarts_comes_back_by_itself(slurm: FakeSlurm, cluster: Cluster) -> None:
    job_id = await submit(cluster)
    slurm.outage = outage.ControllerRestarts(for_s=20)

    slurm.advance(19)
    assert (await cluster.queue(max_age_s=-1)).error is not None
    slurm.advance(1)
    assert (await seen(cluster, job_id))[0] == "RUNNING"


async def test_an_empty_queue_is_believed_of_a_cluster_that_is_well_only(slurm: FakeSlurm, cluster: Cluster) -> None:
    assert (await cluster.queue(max_age_s=-1)).error is None

    slurm.outage = outage.SlurmEmpty()

    assert (await cluster.queue(max_age_s=-1)).error is not None


async def test_a_job_that_slurm_hides_has_not_ended(slurm: FakeSlurm, cluster: Cluster) -> None:
    slurm.outage = outage.JobsHidden()
    job_id = await submit(cluster)

    picture = await cluster.queue(max_age_s=-1)

    assert picture.error is None
    assert not picture.jobs
    assert await cluster.ended(job_id, was_seen=False) is None


async def test_without_accounting_an_end_is_still_known_but_not_who_cancelled(
    slurm: FakeSlurm, cluster: Cluster
) -> None:
    slurm.next_job(does.CancelledByAdmin(after_s=5))
    job_id = await submit(cluster)
    slurm.advance(6)

    with_accounting = await cluster.ended(job_id)
    slurm.outage = outage.AccountingDown()
    without = await cluster.ended(job_id)

    assert with_accounting is not None
    assert with_accounting.cancelled_by == "root"
    assert without is not None
    assert (without.state, without.cancelled_by) == ("CANCELLED", "")


# -- commands -------------------------------------------------------------------------------------------


async def test_free_gpus_cores_and_memory_are_those_that_no_job_has(slurm: FakeSlurm, cluster: Cluster) -> None:
    await submit(cluster, "--mem=49152M")

    nodes = (await cluster.nodes()).nodes
    rules = await cluster.partitions()

    assert {name: node.gpus_free[""] for name, node in nodes.items()} == {"gpu01": 3} | dict.fromkeys(
        ("gpu02", "gpu03", "gpu04"), 4
    )
    assert (nodes["gpu01"].cores_free, nodes["gpu01"].memory_free_mib) == (32, 393216 - 49152)
    assert all(node.is_usable for node in nodes.values())
    assert {name: part.time_limit_min for name, part in rules.partitions.items()} == {
        "sxm2": 1440,
        "hipri": 720,
        "iq": 240,
        "requestq": 480,
    }
    assert not rules.reservations


async def test_a_maintenance_is_shown(slurm: FakeSlurm, cluster: Cluster) -> None:
    begin = slurm.now + timedelta(hours=2)
    slurm.reservations.append(FakeReservation("upgrade", begin, begin + timedelta(hours=8), ("gpu01", "gpu02")))

    (found,) = (await cluster.partitions()).reservations.values()

    assert (found.name, found.starts_at, found.is_maintenance) == ("upgrade", begin.astimezone(), True)
    assert found.nodes == {"gpu01", "gpu02"}


def fields(line: str) -> list[str]:
    return re.findall(r"(?:^| )([A-Za-z][\w/:&]*)=", line)


@pytest.mark.parametrize(
    ("recorded", "first", "command"),
    [
        ("scontrol-show-job-o", "JobId", ("show", "job", "1")),
        ("scontrol-show-node-o", "NodeName", ("--details", "show", "node")),
        ("scontrol-show-partition-o", "PartitionName", ("show", "partition")),
        ("scontrol-show-reservation-o", "ReservationName", ("show", "reservation")),
    ],
)
async def test_what_scontrol_shows_has_the_real_ones_fields_in_their_order(
    slurm: FakeSlurm, cluster: Cluster, recorded: str, first: str, command: tuple[str, ...]
) -> None:
    slurm.reservations.append(FakeReservation("m", slurm.now, slurm.now + timedelta(days=1), ("gpu01",)))
    await submit(cluster)
    lines = one_line_each(case("22.05", recorded).stdout, first).splitlines()
    of_details = ["GresDrain", "GresUsed"]  # not recorded with --details
    done = await slurm(("scontrol", "--oneliner", *command))

    ours = [name for name in fields(done.stdout.splitlines()[0]) if name not in of_details]

    orders = [[name for name in fields(line) if name in ours] for line in lines]
    assert ours in orders, f"the real one has {orders[0]}"


async def test_squeue_prints_the_columns_that_it_is_asked_for(slurm: FakeSlurm, cluster: Cluster) -> None:
    await submit(cluster)
    slurm.advance(65)

    shape = "%i|%T|%P|%u|%N|%V|%S|%e|%r|%Q|%b|%D|%j|%l|%M|%.4i|%4D|%Z"
    done = await slurm(("squeue", "--all", f"--format={shape}"))

    assert done.stdout.splitlines() == [
        "JOBID|STATE|PARTITION|USER|NODELIST|SUBMIT_TIME|START_TIME|END_TIME|REASON|PRIORITY|TRES_PER_NODE|NODES|NAME"
        "|TIME_LIMIT|TIME|JOBI|NODE|",
        "1|RUNNING|sxm2|alice|gpu01|2026-11-21T09:00:00|2026-11-21T09:00:00|2026-11-21T10:00:00|None|1000|gres:gpu:1|1"
        f"|dsportal-{KEY}|1:00:00|1:05|   1|1   |",
    ]


async def test_squeue_lists_ended_jobs_only_where_they_are_asked_for(slurm: FakeSlurm, cluster: Cluster) -> None:
    slurm.next_job(does.Completes(after_s=1))
    ended = await submit(cluster)
    runs = await submit(cluster, key="f" * 16)
    slurm.advance(2)

    async def ids(*options: str) -> list[str]:
        return (await slurm(("squeue", "--noheader", "--format=%i", *options))).stdout.split()

    assert await ids() == [runs]
    assert await ids("--states=all") == [ended, runs]
    assert await ids("--states=completed,pending") == [ended]
    assert await ids(f"--jobs={ended}") == []
    assert await ids("--states=all", f"--jobs={ended},99") == [ended]
    assert await ids(f"--name=dsportal-{'f' * 16}") == [runs]


@pytest.mark.parametrize(
    ("command", "status", "words"),
    [
        (("squeue", "--jobs=99"), 1, "slurm_load_jobs error: Invalid job id specified"),
        (("squeue", "--frobnicate"), 1, "unrecognized option '--frobnicate'"),
        (("scontrol", "show", "job", "99"), 1, "slurm_load_jobs error: Invalid job id specified"),
        (("scontrol", "show", "burstbuffer"), 1, "burstbuffer"),
        (("rm", "-rf", "/"), 127, "rm: command not found"),
        (("scontrol", "show", "config"), 0, "MinJobAge               = 300 sec"),
        (("sinfo", "--version"), 0, "slurm-wlm 22.05.8"),
        (("sacct", "--jobs=99"), 0, ""),
    ],
)
async def test_a_command_that_cannot_be_done_says_so_as_slurm_does(
    slurm: FakeSlurm, command: tuple[str, ...], status: int, words: str
) -> None:
    done = await slurm(command)

    assert done.returncode == status
    assert words in done.stdout + done.stderr
    assert slurm.asked == [command]


async def test_every_command_is_remembered(slurm: FakeSlurm, cluster: Cluster) -> None:
    await cluster.queue()

    assert [command[0] for command in slurm.asked] == ["squeue", "scontrol"], "an empty queue is asked about"


# -- portal-launch --------------------------------------------------------------------------------------


async def launch(slurm: FakeSlurm, request: Any, user: str = "alice") -> dict[str, Any]:
    done = await slurm(("sudo", "--user", user, "--", "/opt/portal-launch"), stdin=json.dumps(request))
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"verb": "run"}, "portal-launch: the verbs are submit, finish, look and test"),
        ({"key": "../x"}, "portal-launch: key '../x' is not one that a session may have"),
        ({"options": ["--wrap=id"]}, "portal-launch: option '--wrap=id' is not one"),
        ({"options": None}, "portal-launch: options is a list"),
        ({"environment": {"PATH": "/tmp"}}, "portal-launch: environment variable 'PATH' is not one"),
        ({"options": ["--partition=nope"]}, "sbatch: error: invalid partition specified: nope"),
        ({"options": ["--partition=iq", "--time=241"]}, "Requested time limit is invalid"),
    ],
)
async def test_what_portal_launch_or_sbatch_refuses_is_refused(
    slurm: FakeSlurm, change: dict[str, object], words: str
) -> None:
    request = {"verb": "submit", "key": KEY, "options": [], "environment": {}, **change}

    answer = await launch(slurm, request)

    assert not answer["ok"]
    assert words in answer["message"]
    assert not slurm.jobs
    assert not slurm.environments


async def test_a_key_is_used_once(slurm: FakeSlurm, cluster: Cluster) -> None:
    await submit(cluster)

    with pytest.raises(SubmitRefused, match=r"environment\.json: File exists"):
        await submit(cluster)


async def test_finishing_takes_the_secrets_away_answers_the_log_and_may_be_done_twice(
    slurm: FakeSlurm, cluster: Cluster
) -> None:
    job_id = await submit(cluster)
    slurm.logs[KEY] = "last words"

    assert await cluster.finish("alice", KEY, job_id) == "last words"
    assert await cluster.finish("alice", KEY, job_id) == "last words"
    assert not slurm.environments


async def test_nobody_ends_somebody_elses_job(slurm: FakeSlurm, cluster: Cluster) -> None:
    job_id = await submit(cluster)

    with pytest.raises(SlurmUnavailable, match="could not be cancelled") as error:
        await cluster.finish("bob", KEY, job_id)

    assert "Access/permission denied" in error.value.detail
    assert (await seen(cluster, job_id))[0] == "RUNNING"


def test_the_example_of_the_docs_runs_and_prints_what_it_says() -> None:
    page = Path(__file__).parents[2] / "docs" / "howto" / "fake-slurm.md"
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    expected = re.findall(r"\)  # (.*)", code)

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines() == expected


# -- several outages, and a slurmctld with an older state -----------------------------------------------


async def test_of_several_outages_the_one_that_began_first_answers_and_each_ends_by_itself(
    slurm: FakeSlurm, cluster: Cluster
) -> None:
    nonsense = outage.SlurmGarbage("garbage\n")
    dead = outage.AccountingDown()
    slurm.begin(nonsense)
    slurm.begin(dead)
    assert slurm.outage is nonsense
    assert (await cluster.queue(-1)).error is not None
    assert (await slurm(("sacct", "--jobs=1"))).returncode == 1

    slurm.end(nonsense)

    assert (await cluster.queue(-1)).error is None
    assert (await slurm(("sacct", "--jobs=1"))).returncode == 1
    slurm.end(dead)
    assert isinstance(slurm.outage, outage.NoOutage)
    slurm.end(dead)
    assert (await slurm(("sacct", "--jobs=1"))).returncode == 0


async def test_what_was_sent_to_a_slurmctld_that_hangs_waits_for_the_end_of_that_very_outage(
    slurm: FakeSlurm, cluster: Cluster
) -> None:
    silent = outage.SlurmSilent()
    slurm.begin(silent)
    with pytest.raises(SlurmUnavailable):
        await submit(cluster)

    slurm.begin(outage.AccountingDown())
    assert not slurm.jobs
    slurm.end(silent)

    assert [job.user for job in slurm.jobs.values()] == ["alice"]


@pytest.mark.parametrize(
    ("storm", "state"), [(outage.ScancelUnanswered(), "RUNNING"), (outage.ScancelAnswerLost(), "CANCELLED")]
)
async def test_a_scancel_without_an_answer_may_have_been_done(
    slurm: FakeSlurm, cluster: Cluster, storm: outage.Outage, state: str
) -> None:
    job_id = await submit(cluster)
    slurm.outage = storm

    with pytest.raises(SlurmUnavailable, match="could not be cancelled"):
        await cluster.finish("alice", KEY, job_id)

    assert slurm.status(slurm.jobs[job_id]).state == state


async def test_a_launcher_that_sudo_does_not_start_does_nothing(slurm: FakeSlurm, cluster: Cluster) -> None:
    slurm.outage = outage.LauncherFails()

    with pytest.raises(SlurmUnavailable) as error:
        await submit(cluster)

    assert "sudo: account validation failure" in error.value.detail
    assert not slurm.jobs
    assert not slurm.environments


async def test_a_slurmctld_without_its_state_knows_no_job_and_gives_every_number_once_more(
    slurm: FakeSlurm, cluster: Cluster
) -> None:
    lost = await submit(cluster)

    slurm.restore(SavedState())

    assert not (await cluster.queue(-1)).jobs
    assert (await slurm(("sacct", f"--jobs={lost}"))).stdout.startswith("RUNNING|"), "accounting heard of no end"
    assert await submit(cluster, key="f" * 16) == lost


async def test_a_slurmctld_with_an_older_state_forgets_new_jobs_and_requeues_those_that_ended_since(
    slurm: FakeSlurm, cluster: Cluster
) -> None:
    lives = await submit(cluster)
    ends = await submit(cluster, "--requeue", key="e" * 16)
    saved = slurm.saved_state()
    late = await submit(cluster, key="f" * 16)
    await cluster.finish("alice", "e" * 16, ends)
    slurm.advance(60)

    slurm.restore(saved)

    jobs = (await cluster.queue(-1)).jobs
    assert {job_id: job.state for job_id, job in jobs.items()} == {lives: "RUNNING", ends: "PENDING"}
    assert await submit(cluster, key="a" * 16) == late


async def test_a_listing_shows_a_job_as_it_is_now(slurm: FakeSlurm, cluster: Cluster) -> None:
    """Lines are kept while nothing changes; the time that a job has run always does."""
    await submit(cluster)
    command = ("squeue", "--noheader", "--format=%i %T %M")
    first = (await slurm(command)).stdout
    slurm.advance(61)
    second = (await slurm(command)).stdout
    await cluster.finish("alice", KEY, "1")

    third = (await slurm((*command, "--states=all"))).stdout

    assert (first.split(), second.split()) == (["1", "RUNNING", "0:00"], ["1", "RUNNING", "1:01"])
    assert third.split()[:2] == ["1", "CANCELLED"]
