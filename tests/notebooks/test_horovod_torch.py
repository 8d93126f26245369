"""Horovod for PyTorch, started by each launcher in the private cluster: N processes learn what one learns."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.forms import LONG
from tests.inside import sh
from tests.notebooks.jobs import PERSON, no_job_is_left, own_folder
from tests.notebooks.test_horovod import (
    IMPATIENT,
    LAUNCHERS,
    LEARN_AND_LOSE,
    LOST_WITHIN_S,
    Run,
    it_was_ended,
    launch,
    they_are_all_there,
)

BUILT = Path("/cm/shared/apps/horovod-pytorch/0.28.1")
WORKER = Path(__file__).with_name("horovod_torch_worker.py")
torch = partial(launch, worker=WORKER, module="shared/horovod-pytorch")
CHOSEN = ("srun with four on two nodes", "horovodrun", "horovodrun with four", "mpirun")


@pytest.fixture(scope="module", autouse=True)
def folder() -> Iterator[Path]:
    """A folder of the person's, seen by all nodes."""
    assert BUILT.is_dir(), f"{BUILT} is not built: deploy/environments/horovod.py --cm FOLDER pytorch"
    folder = own_folder("horovod")
    yield folder
    sh("rm", "-r", str(folder), user=PERSON)


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    """What one process learns with the whole batches."""
    run = torch("", "equal")
    assert run.status == 0, run.text
    (result,) = run.ranks
    assert result["size"] == 1
    return result


@pytest.fixture(scope="module", params=CHOSEN)
def launcher(request: pytest.FixtureRequest) -> str:
    """Each way to start the processes."""
    return str(request.param)


@pytest.fixture(scope="module")
def many(launcher: str) -> Run:
    """What many processes learn, and how they end when one of them is killed afterwards."""
    return torch(LAUNCHERS[launcher], LEARN_AND_LOSE)


# The short form leaves out what the same launchers show for TensorFlow, and test_horovod_lesson.py for PyTorch.
if LONG:

    def test_many_processes_learn_what_one_learns_with_the_whole_batch(
        launcher: str, many: Run, alone: dict[str, Any]
    ) -> None:
        they_are_all_there(launcher, many)
        for kind in ("sgd", "adam"):
            assert len({result[kind]["weights"] for result in many.ranks}) == 1, f"{kind}: the ranks have drifted apart"
            for result in many.ranks:
                assert result[kind]["loss"] == pytest.approx(alone[kind]["loss"], abs=1e-6, rel=0)
            assert alone[kind]["loss"][1] < alone[kind]["loss"][0]

    def test_a_rank_that_dies_ends_the_run(launcher: str, many: Run) -> None:
        it_was_ended(launcher, many)

    def test_a_rank_that_hangs_ends_the_run() -> None:
        run = torch(f"{IMPATIENT} {LAUNCHERS['srun on two nodes']}", "stopped", timeout_s=LOST_WITHIN_S)
        assert "rank 1 is lost" in run.text
        assert run.status != 0
        assert "Horovod has been shut down" in run.text
        no_job_is_left()


def test_the_environment_shuts_out_the_one_for_tensorflow() -> None:
    printed = in_a_shell("module load shared/horovod-pytorch; module load shared/horovod; which horovodrun")
    assert f"{BUILT}/bin/horovodrun" in printed
    assert "conflict" in printed.lower()


def in_a_shell(script: str) -> str:
    """What the person's login shell prints."""
    return sh("env", "-i", "PATH=/usr/bin:/bin", "bash", "-lc", script, user=PERSON, check=False, timeout_s=180)


if LONG:

    def test_the_environment_has_what_its_module_says() -> None:
        printed = in_a_shell("module load shared/horovod-pytorch; horovodrun --check-build")
        for feature in ("PyTorch", "MPI", "Gloo"):
            assert f"[X] {feature}" in printed
        assert "[ ] TensorFlow" in printed
