"""The double of Slurm, used as a stranger would use it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from portal import fake_behaviours as fakes
from portal.cluster import Cluster
from portal.errors import SlurmUnavailable, SubmitRefused
from portal.fake_slurm import FakeSlurm
from portal.script import Submission
from portal.slurm import Phase

KEY = "0123456789abcdef"
OPTIONS = (f"--job-name=dsportal-{KEY}", "--partition=sxm2", "--time=60")


@pytest.fixture
def slurm() -> FakeSlurm:
    """A cluster in which nothing is wrong."""
    return FakeSlurm()


@pytest.fixture
def cluster(slurm: FakeSlurm) -> Cluster:
    """The hub's side of it."""
    return Cluster("/opt/portal-launch", run=slurm, clock=slurm.clock)


async def submit(cluster: Cluster) -> str:
    return await cluster.submit("alice", Submission(KEY, OPTIONS, {}))


async def test_a_job_goes_from_the_queue_to_its_end_while_time_travels(slurm: FakeSlurm, cluster: Cluster) -> None:
    slurm.next_job(fakes.Runs(after_s=30))
    job_id = await submit(cluster)

    phases = []
    for _ in range(2):
        phases.append((await cluster.snapshot(max_age_s=-1)).jobs[job_id].phase)
        slurm.advance(31)
    await cluster.finish("alice", KEY, job_id)
    end = await cluster.ended(job_id)

    assert phases == [Phase.WAITING, Phase.RUNNING]
    assert end is not None
    assert (end.state, end.cancelled_by) == ("CANCELLED", "alice")


async def test_free_gpus_are_those_that_no_job_has(slurm: FakeSlurm, cluster: Cluster) -> None:
    await submit(cluster)

    nodes = (await cluster.machines()).nodes
    rules = await cluster.rules()

    assert sum(sum(node.gpus_free.values()) for node in nodes.values()) == 15
    assert rules.partitions["sxm2"].time_limit_min == 24 * 60
    assert not rules.reservations


@pytest.mark.parametrize(
    "weather", [fakes.SlurmSilent(), fakes.ControllerDown(), fakes.MungeDown(), fakes.SlurmEmpty()]
)
async def test_in_bad_weather_the_last_picture_stays_and_nothing_can_be_submitted(
    slurm: FakeSlurm, cluster: Cluster, weather: fakes.Weather
) -> None:
    job_id = await submit(cluster)
    await cluster.snapshot()
    slurm.weather = weather

    seen = await cluster.snapshot(max_age_s=-1)

    assert seen.error is not None
    assert seen.jobs[job_id].phase is Phase.RUNNING
    assert await cluster.ended(job_id, was_seen=True) is None


@pytest.mark.parametrize("weather", [fakes.SlurmSilent(), fakes.ControllerDown(), fakes.MungeDown()])
async def test_a_submission_in_bad_weather_is_no_refusal(
    slurm: FakeSlurm, cluster: Cluster, weather: fakes.Weather
) -> None:
    slurm.weather = weather

    with pytest.raises(SlurmUnavailable):
        await submit(cluster)


async def test_a_lost_answer_and_a_refusal_are_two_things(slurm: FakeSlurm, cluster: Cluster) -> None:
    slurm.weather = fakes.SbatchAnswerLost()
    with pytest.raises(SlurmUnavailable):
        await submit(cluster)
    assert await cluster.find(KEY) == "1"

    slurm.weather = fakes.SbatchRefuses("sbatch: error: Invalid account")
    with pytest.raises(SubmitRefused, match="Invalid account"):
        await submit(cluster)


async def test_without_accounting_an_end_is_still_known_but_not_who_cancelled(
    slurm: FakeSlurm, cluster: Cluster
) -> None:
    slurm.next_job(fakes.CancelledByAdmin(after_s=5))
    job_id = await submit(cluster)
    slurm.advance(6)

    with_accounting = await cluster.ended(job_id)
    slurm.weather = fakes.AccountingDown()
    without = await cluster.ended(job_id)

    assert with_accounting is not None
    assert with_accounting.cancelled_by == "root"
    assert without is not None
    assert (without.state, without.cancelled_by) == ("CANCELLED", "")


async def test_every_command_is_remembered(slurm: FakeSlurm, cluster: Cluster) -> None:
    await cluster.snapshot()

    assert [command[0] for command in slurm.asked] == ["squeue", "scontrol"], "an empty queue is asked about"


def test_the_example_of_the_docs_runs_and_prints_what_it_says() -> None:
    page = Path(__file__).parents[2] / "docs" / "howto" / "fake-slurm.md"
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    expected = re.findall(r"\)  # (.*)", code)

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines() == expected
