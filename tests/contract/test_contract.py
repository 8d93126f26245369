"""One contract, two Slurms: what the portal believes is the same on a FakeSlurm and on the real one."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from portal.fake_behaviours import SbatchRefuses
from portal.request import SessionRequest
from portal.script import submission
from portal.session import ended
from portal.site import load
from portal.slurm import Phase
from tests.contract.stages import FakeStage, RealStage
from tests.inside import SITE_FILE, eventually, is_root_variant, jobs_of, sh

SITE = load(str(SITE_FILE))
BOTH = [FakeStage, RealStage]
ONLY_FAKE = [FakeStage]  # the demo's Slurm preempts nobody, and keeps every job in accounting
NEEDS_CGROUPS = BOTH if is_root_variant() else ONLY_FAKE


def stages(of: list[type]) -> list[str]:
    """The names of stages, for pytest."""
    return [stage.__name__ for stage in of]


@pytest.fixture
def stage(request: pytest.FixtureRequest) -> Iterator[FakeStage | RealStage]:
    """One of the two Slurms; nothing of alice's is left in the real one."""
    if request.param is FakeStage:
        yield FakeStage()
        return
    yield RealStage(SITE.portal.launcher)
    sh("scancel", "--user=alice")
    eventually(lambda: not jobs_of("alice"), "no job is left")


@pytest.fixture
def key() -> str:
    """A new session key."""
    return secrets.token_hex(8)


ENDS = [
    ("completes", "COMPLETED", "0:0", "The session ended by itself.", BOTH),
    ("fails with 3", "FAILED", "3:0", "The session's job failed with exit code 3.", BOTH),
    ("takes too much memory", "OUT_OF_MEMORY", "0:125", "The session used more memory", NEEDS_CGROUPS),
    ("runs out of time", "TIMEOUT", "", "The session used up its hours.", BOTH),
    ("is cancelled by root", "CANCELLED", "", "The session was cancelled by root.", BOTH),
    ("loses its node", "NODE_FAIL", "", "The node of this session failed.", BOTH),
    ("is preempted", "PREEMPTED", "", "A job with a higher priority took the place", ONLY_FAKE),
]


@pytest.mark.parametrize(
    ("stage", "what", "state", "exit_code", "words"),
    [(where, *end[:4]) for end in ENDS for where in end[4]],
    indirect=["stage"],
)
async def test_an_end_is_seen_with_its_reason(
    stage: FakeStage | RealStage, key: str, what: str, state: str, exit_code: str, words: str
) -> None:
    job_id = await stage.start(what, key)

    await stage.reaches(job_id, Phase.ENDED)

    end = await stage.cluster.ended(job_id, was_seen=True)
    assert end is not None
    assert end.state == state
    assert end.exit_code.startswith(exit_code)
    assert ended(end).startswith(words)
    assert await stage.cluster.find(key) == "", "a job that has ended is not found by its key"


@pytest.mark.parametrize("stage", ONLY_FAKE, indirect=True)
async def test_a_job_that_nobody_knows_any_more_has_ended_only_if_it_was_seen_before(
    stage: FakeStage, key: str
) -> None:
    job_id = await stage.start("vanishes", key)

    await stage.reaches(job_id, Phase.ENDED)

    assert await stage.cluster.ended(job_id, was_seen=False) is None
    assert (await stage.cluster.ended(job_id, was_seen=True)) is not None


@pytest.mark.parametrize("stage", BOTH, indirect=True)
@pytest.mark.parametrize(("what", "reason"), [("waits", "BeginTime"), ("is held", "JobHeldUser")])
async def test_a_job_that_waits_says_why_and_has_not_ended(
    stage: FakeStage | RealStage, key: str, what: str, reason: str
) -> None:
    job_id = await stage.start(what, key)

    await stage.reaches(job_id, Phase.WAITING)

    job = stage.cluster.last.jobs[job_id]
    assert (job.reason, job.user, job.partition) == (reason, "alice", "sxm2")
    assert (job.priority == 0) == (what == "is held")
    assert await stage.cluster.ended(job_id, was_seen=True) is None
    assert await stage.cluster.find(key) == job_id


@pytest.mark.parametrize("stage", BOTH, indirect=True)
async def test_a_job_that_runs_has_a_node_and_an_end(stage: FakeStage | RealStage, key: str) -> None:
    job_id = await stage.start("runs", key)

    await stage.reaches(job_id, Phase.RUNNING)

    job = stage.cluster.last.jobs[job_id]
    assert job.node in (await stage.cluster.machines(max_age_s=-1)).nodes
    assert job.starts_at is not None
    assert job.ends_at is not None
    assert job.starts_at < job.ends_at
    (found,) = await stage.cluster.sessions(key[:6])
    assert (found.id, found.user, found.key) == (job_id, "alice", key)
    assert await stage.cluster.confirmed(found)


@pytest.mark.parametrize("stage", BOTH, indirect=True)
async def test_a_job_that_is_requeued_waits_and_runs_again_with_the_same_id(
    stage: FakeStage | RealStage, key: str
) -> None:
    job_id = await stage.start("is requeued", key)

    await stage.reaches(job_id, Phase.WAITING)
    assert await stage.cluster.ended(job_id, was_seen=True) is None
    assert await stage.cluster.find(key) == job_id

    await stage.reaches(job_id, Phase.RUNNING)
    assert stage.cluster.last.jobs[job_id].node


@pytest.mark.parametrize("stage", BOTH, indirect=True)
@pytest.mark.parametrize("fault", ["silent", "munge"])
async def test_no_answer_is_no_end_and_the_last_picture_stays(
    stage: FakeStage | RealStage, key: str, fault: str
) -> None:
    job_id = await stage.start("runs", key)
    await stage.reaches(job_id, Phase.RUNNING)

    async with stage.fault(fault):
        seen = await stage.cluster.snapshot(max_age_s=-1)
        assert seen.error is not None
        assert seen.jobs[job_id].phase is Phase.RUNNING
        assert await stage.cluster.ended(job_id, was_seen=True) is None

    await stage.reaches(job_id, Phase.RUNNING)
    assert (await stage.cluster.snapshot(max_age_s=-1)).error is None


@pytest.mark.parametrize("stage", BOTH, indirect=True)
async def test_a_lost_answer_of_sbatch_is_not_a_lost_job(stage: FakeStage | RealStage, key: str) -> None:
    environment = {"JUPYTERHUB_API_TOKEN": "secret", "JUPYTERHUB_API_URL": "http://127.0.0.1:9/hub/api"}
    environment |= {"JUPYTERHUB_SERVICE_URL": "http://0.0.0.0:0/", "DSPORTAL_SESSION": '{"notebooks": "/nowhere"}'}

    await stage.lost_submission(submission(SessionRequest("sxm2", 0, 1), SITE, key, environment))

    job_id = await stage.cluster.find(key)
    assert job_id
    await stage.cluster.finish("alice", key, job_id)
    await stage.reaches(job_id, Phase.ENDED)


async def test_a_fake_refuses_in_the_words_it_was_given() -> None:
    stage = FakeStage()
    stage.slurm.weather = SbatchRefuses("sbatch: error: no")

    with pytest.raises(Exception, match="sbatch: error: no"):
        await stage.cluster.submit("alice", submission(SessionRequest("sxm2", 0, 1), SITE, "0" * 16, {}))
