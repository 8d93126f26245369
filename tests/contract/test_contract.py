"""One contract, two Slurms: what the portal believes is the same on a FakeSlurm and on the real one."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from portal.errors import SlurmUnavailable, SubmitRefused
from portal.forecasts.asked_starts import parse_test
from portal.request import SessionRequest
from portal.site import Site
from portal.slurm.jobs import Phase
from portal.slurm.submission import Submission, submission
from portal.testing.bad_answers import READ_RIGHTLY, bad_answers
from portal.testing.outages import SlurmEmpty
from spawners.messages import ended
from tests.contract.stages import FakeStage, Stage
from tests.inside import is_root_variant, settings

BOTH = ("fake", "real")
ONLY_FAKE = ("fake",)  # the demo's Slurm preempts nobody, keeps every job in accounting, and is never quite empty
NEEDS_CGROUPS = BOTH if is_root_variant() else ONLY_FAKE


def asked(site: Site, key: str, partition: str = "sxm2", hours: int = 1, gpus: int = 0) -> Submission:
    """A session whose hub does not answer: its server starts and tries to call home."""
    environment = {
        "JUPYTERHUB_API_TOKEN": "secret",
        "JUPYTERHUB_API_URL": "http://127.0.0.1:9/hub/api",
        "JUPYTERHUB_SERVICE_URL": "http://0.0.0.0:0/user/alice/",
        "DSPORTAL_SESSION": json.dumps({"notebooks": "/nowhere", "storage": []}),
    }
    return submission(SessionRequest(partition, gpus, hours), site, key, environment)


# -- a session ------------------------------------------------------------------------------------------


async def test_a_session_is_submitted_found_seen_on_its_node_and_cancelled(slurm: Stage, site: Site, key: str) -> None:
    job_id = await slurm.cluster.submit("alice", asked(site, key))
    assert slurm.has_secrets("alice", key)
    await slurm.reaches(job_id, Phase.RUNNING)

    job = slurm.cluster.last_queue.jobs[job_id]
    assert (job.user, job.partition, job.reason) == ("alice", "sxm2", "")
    assert job.node in {"gpu01", "gpu02", "gpu03"}
    assert job.starts_at is not None
    assert job.ends_at is not None
    assert (job.ends_at - job.starts_at).total_seconds() == 3600
    assert await slurm.cluster.find("alice", key) == job_id
    assert await slurm.cluster.ended(job_id) is None

    await slurm.cluster.finish("alice", key, job_id)
    await slurm.reaches(job_id, Phase.ENDED)

    end = await slurm.cluster.ended(job_id)
    assert end is not None
    assert (end.state, end.cancelled_by) == ("CANCELLED", "alice")
    assert not slurm.has_secrets("alice", key)
    assert await slurm.cluster.find("alice", key) == "", "a job that has ended is not found by its key"
    await slurm.cluster.finish("alice", key, job_id)  # twice is no fault


async def test_slurm_says_when_a_session_would_start_and_takes_no_job(slurm: Stage, site: Site, key: str) -> None:
    wanted = asked(site, key, gpus=1)
    request = {"verb": "test", "key": key, "options": list(wanted.options), "environment": {}}

    answer = await slurm.cluster.launcher.call("alice", request)
    refused = await slurm.cluster.launcher.call(
        "alice", {**request, "options": [option.replace("--time=60", "--time=999999") for option in wanted.options]}
    )

    assert answer["ok"], answer
    assert parse_test(str(answer["message"])), answer
    assert not refused["ok"]
    assert parse_test(str(refused["message"])) is None
    assert not slurm.has_secrets("alice", key)
    assert await slurm.cluster.find("alice", key) == ""


@pytest.mark.parametrize(
    ("partition", "hours", "words"),
    [("nope", 1, "invalid partition specified: nope"), ("iq", 400, "Requested time limit is invalid")],
)
async def test_slurms_own_words_come_back_when_it_refuses(
    slurm: Stage, site: Site, key: str, partition: str, hours: int, words: str
) -> None:
    known = site.partitions[0].model_copy(update={"name": partition})
    elsewhere = site.model_copy(update={"partitions": (known,)})

    with (
        settings(f'[session]\nhours_max = 400\n[[partition]]\nname = "{partition}"\n'),
        pytest.raises(SubmitRefused, match=words),
    ):
        await slurm.cluster.submit("alice", asked(elsewhere, key, partition, hours))

    assert not slurm.has_secrets("alice", key)
    assert await slurm.cluster.find("alice", key) == ""


async def test_an_option_that_no_session_may_have_is_refused_before_slurm_is_asked(
    slurm: Stage, site: Site, key: str
) -> None:
    what = asked(site, key)

    with pytest.raises(SubmitRefused, match="portal-launch: option '--wrap=id' is not one"):
        await slurm.cluster.submit("alice", replace(what, options=(*what.options, "--wrap=id")))


async def test_a_key_is_used_once(slurm: Stage, site: Site, key: str) -> None:
    job_id = await slurm.cluster.submit("alice", asked(site, key))

    with pytest.raises(SubmitRefused, match="File exists"):
        await slurm.cluster.submit("alice", asked(site, key))

    await slurm.cluster.finish("alice", key, job_id)


async def test_nobody_ends_somebody_elses_job(slurm: Stage, key: str) -> None:
    job_id = await slurm.start("runs", key)
    await slurm.reaches(job_id, Phase.RUNNING)

    with pytest.raises(SlurmUnavailable) as error:
        await slurm.cluster.finish("bob", key, job_id)

    assert "Access/permission denied" in error.value.detail
    assert await slurm.cluster.ended(job_id) is None


async def test_a_job_is_known_by_its_submission_too_and_a_number_alone_ends_nothing(slurm: Stage, key: str) -> None:
    job_id = await slurm.start("runs", key)
    await slurm.reaches(job_id, Phase.RUNNING)
    submitted_at = slurm.cluster.last_queue.jobs[job_id].submitted_at
    assert submitted_at is not None
    other = "f" * 16  # as for a job that its owner has called otherwise

    await slurm.cluster.finish("alice", other, job_id, int(submitted_at.timestamp()) - 60)
    assert await slurm.cluster.ended(job_id) is None
    await slurm.cluster.finish("alice", other, job_id, int(submitted_at.timestamp()))

    await slurm.reaches(job_id, Phase.ENDED)


async def test_a_job_with_a_key_is_listed_and_is_nobody_elses(slurm: Stage, key: str) -> None:
    job_id = await slurm.start("runs", key)
    await slurm.reaches(job_id, Phase.RUNNING)

    (found,) = await slurm.cluster.sessions(key[:6])

    assert (found.id, found.user, found.key) == (job_id, "alice", key), "the whole name is listed"
    assert await slurm.cluster.confirmed(found)
    assert not await slurm.cluster.confirmed(replace(found, user="bob"))
    assert not await slurm.cluster.confirmed(replace(found, key="f" * 16))


async def test_a_job_that_runs_takes_from_its_node_what_it_asked_for(slurm: Stage, site: Site, key: str) -> None:
    job_id = await slurm.cluster.submit("alice", asked(site, key, gpus=1))
    await slurm.reaches(job_id, Phase.RUNNING)

    node = (await slurm.cluster.nodes(max_age_s=-1)).nodes[slurm.cluster.last_queue.jobs[job_id].node]

    assert (node.gpus[""], node.gpus_free[""]) == (4, 3)
    assert node.cores_used == site.cores(1)
    assert node.memory_used_mib == site.memory_mib(1)
    assert "sxm2" in node.partitions
    await slurm.cluster.finish("alice", key, job_id)


async def test_partitions_and_their_limits_are_the_same(slurm: Stage) -> None:
    rules = await slurm.cluster.partitions()

    assert rules.error is None
    limits = {name: (part.time_limit_min, part.nodes, part.is_default) for name, part in rules.partitions.items()}
    assert limits == {
        "sxm2": (1440, 3, True),
        "hipri": (720, 3, False),
        "iq": (240, 1, False),
        "requestq": (480, 4, False),
    }
    assert not rules.reservations


# -- what happens to jobs -------------------------------------------------------------------------------

ENDS = [
    ("completes", "COMPLETED", "0:0", "The session ended by itself.", BOTH),
    ("fails with 3", "FAILED", "3:0", "The session's job failed with exit code 3.", BOTH),
    ("takes too much memory", "OUT_OF_MEMORY", "0:125", "The session used more memory", NEEDS_CGROUPS),
    ("runs out of time", "TIMEOUT", "0:15", "The session used up its hours.", BOTH),
    ("is cancelled by root", "CANCELLED", "0:15", "The session was cancelled by root.", BOTH),
    ("is cancelled while it waits", "CANCELLED", "0:0", "The session was cancelled by root.", BOTH),
    ("loses its node", "NODE_FAIL", "0:0", "The node of this session failed.", BOTH),
    ("is preempted", "PREEMPTED", "0:15", "A job with a higher priority took the place", ONLY_FAKE),
]
SINCE_24_11 = {"NODE_FAIL": "0:1"}  # nobody is told a code of these


@pytest.mark.parametrize(
    ("slurm", "what", "state", "exit_code", "words"),
    [(where, *end[:4]) for end in ENDS for where in end[4]],
    indirect=["slurm"],
)
async def test_an_end_is_seen_with_its_reason(
    slurm: Stage, key: str, what: str, state: str, exit_code: str, words: str
) -> None:
    job_id = await slurm.start(what, key)

    await slurm.reaches(job_id, Phase.ENDED)

    assert slurm.cluster.last_queue.jobs[job_id].state == state, "slurmctld still shows it"
    end = await slurm.cluster.ended(job_id, was_seen=True)
    assert end is not None
    assert end.state == state
    assert end.exit_code in (exit_code, SINCE_24_11.get(state))
    assert ended(end).startswith(words)


@pytest.mark.parametrize("slurm", ONLY_FAKE, indirect=True)
async def test_a_job_that_nobody_knows_any_more_has_ended_only_if_it_was_seen_before(slurm: Stage, key: str) -> None:
    job_id = await slurm.start("vanishes", key)

    await slurm.reaches(job_id, Phase.ENDED)

    assert await slurm.cluster.ended(job_id, was_seen=False) is None
    assert (await slurm.cluster.ended(job_id, was_seen=True)) is not None


@pytest.mark.parametrize(
    ("what", "reason"), [("waits", "BeginTime"), ("is held", "JobHeldUser"), ("is held by root", "JobHeldAdmin")]
)
async def test_a_job_that_waits_says_why_and_has_not_ended(slurm: Stage, key: str, what: str, reason: str) -> None:
    job_id = await slurm.start(what, key)

    await slurm.reaches(job_id, Phase.WAITING)

    job = slurm.cluster.last_queue.jobs[job_id]
    assert (job.state, job.reason, job.user, job.node) == ("PENDING", reason, "alice", "")
    assert (job.priority == 0) == what.startswith("is held")
    assert await slurm.cluster.ended(job_id, was_seen=True) is None
    assert await slurm.cluster.find("alice", key) == job_id


@pytest.mark.parametrize("what", ["is requeued", "loses its node and is requeued"])
async def test_a_job_that_is_requeued_waits_and_runs_again_with_the_same_id(slurm: Stage, key: str, what: str) -> None:
    job_id = await slurm.start(what, key)

    await slurm.reaches(job_id, Phase.WAITING)
    waiting = slurm.cluster.last_queue.jobs[job_id]
    assert (waiting.state, waiting.node) == ("PENDING", "")
    assert await slurm.cluster.ended(job_id, was_seen=True) is None, "whatever accounting says of its first run"
    assert await slurm.cluster.find("alice", key) == job_id

    await slurm.reaches(job_id, Phase.RUNNING)
    again = slurm.cluster.last_queue.jobs[job_id]
    assert again.node
    assert again.submitted_at == waiting.submitted_at


# -- what is wrong with the cluster ---------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["silent", "munge"])
async def test_no_answer_is_no_end_and_the_last_picture_stays(slurm: Stage, key: str, fault: str) -> None:
    job_id = await slurm.start("runs", key)
    await slurm.reaches(job_id, Phase.RUNNING)
    before = slurm.cluster.last_queue

    async with slurm.fault(fault):
        seen = await slurm.cluster.queue(max_age_s=-1)
        assert seen.error is not None
        assert (seen.jobs, seen.taken_at) == (before.jobs, before.taken_at)
        assert await slurm.cluster.ended(job_id, was_seen=True) is None

    await slurm.reaches(job_id, Phase.RUNNING)


async def test_a_job_that_was_sent_to_a_silent_slurm_is_there_when_it_speaks_again(
    slurm: Stage, site: Site, key: str
) -> None:
    async with slurm.fault("silent"):
        with pytest.raises(SlurmUnavailable) as error:
            await slurm.cluster.submit("alice", asked(site, key))
    assert "Socket timed out" in error.value.detail
    assert slurm.has_secrets("alice", key), "the job will read them"

    await slurm.reaches(job_id := await _appears(slurm, key), Phase.RUNNING)
    await slurm.cluster.finish("alice", key, job_id)


async def _appears(slurm: Stage, key: str) -> str:
    """The job with a key, a moment later."""
    for _ in range(20):
        if job_id := await slurm.cluster.find("alice", key):
            return job_id
    raise AssertionError("the job is not there")


async def test_a_lost_answer_of_sbatch_is_not_a_lost_job(slurm: Stage, site: Site, key: str) -> None:
    async with slurm.deaf():
        with pytest.raises(SlurmUnavailable):
            await slurm.cluster.submit("alice", asked(site, key))

    job_id = await slurm.cluster.find("alice", key)
    assert job_id
    await slurm.cluster.finish("alice", key, job_id)
    await slurm.reaches(job_id, Phase.ENDED)


async def test_without_accounting_an_end_is_known_but_not_who_cancelled(slurm: Stage, key: str) -> None:
    async with slurm.fault("accounting"):
        job_id = await slurm.start("is cancelled by root", key)
        await slurm.reaches(job_id, Phase.ENDED)
        end = await slurm.cluster.ended(job_id)

    assert end is not None
    assert (end.state, end.cancelled_by) == ("CANCELLED", "")


async def test_no_bad_answer_of_squeue_ends_a_session(slurm: Stage, key: str) -> None:
    job_id = await slurm.start("runs", key)
    await slurm.reaches(job_id, Phase.RUNNING)
    good = slurm.cluster.last_queue

    for name, answer in bad_answers(await slurm.listing(), job_id).items():
        async with slurm.lie(answer):
            seen = await slurm.cluster.queue(max_age_s=-1)
            assert (seen.error is None) == (name in READ_RIGHTLY), name
            assert seen.error is None or seen.jobs == good.jobs, name
            assert await slurm.cluster.ended(job_id, was_seen=True) is None, name
        good = await slurm.cluster.queue(max_age_s=-1)
        assert good.error is None, name
        assert good.jobs[job_id].phase is Phase.RUNNING


@pytest.mark.parametrize("slurm", ONLY_FAKE, indirect=True)
async def test_an_empty_queue_is_believed_only_with_a_controller_that_is_up(slurm: FakeStage) -> None:
    assert (await slurm.cluster.queue(max_age_s=-1)).error is None

    slurm.slurm.outage = SlurmEmpty()

    assert (await slurm.cluster.queue(max_age_s=-1)).error is not None
