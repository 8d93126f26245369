"""Horovod with Keras 3, started by each launcher in the private cluster: N processes learn what one learns."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deploy.environments.horovod_wheel import CHANGES
from tests.forms import LONG
from tests.inside import home, sh
from tests.notebooks.jobs import PERSON, no_job_is_left, own_folder

WORKER = Path(__file__).with_name("horovod_worker.py")
BUILT = Path("/cm/shared/apps/horovod/0.28.1")
TENSORFLOW = Path("/cm/shared/apps/tensorflow/2.21")
LAUNCHERS = {
    "horovodrun": "horovodrun --gloo -np 2",
    "horovodrun with four": "horovodrun --gloo -np 4",
    "mpirun": "mpirun --oversubscribe -np 2",
    "srun on two nodes": "srun --nodes=2 --ntasks=2 --kill-on-bad-exit=1",
    "srun with four on two nodes": "srun --nodes=2 --ntasks=4 --kill-on-bad-exit=1",
}
# The short form has more than one process on each of two nodes; horovodrun is in that of test_horovod_lesson.py, and
# mpirun in that of test_horovod_resnet50.py.
CHOSEN = tuple(LAUNCHERS) if LONG else ("srun with four on two nodes",)
LEARN_AND_LOSE = "equal killed"  # one start for both: they learn, and then train again until a rank is killed
IMPATIENT = "env HOROVOD_GLOO_TIMEOUT_SECONDS=10"  # Gloo itself waits half a minute for a rank that hangs
LOST_WITHIN_S = 100  # a run with a lost rank must be over by then; otherwise subprocess ends the test


@dataclass(frozen=True)
class Run:
    """How a launch ended: its exit status, all it printed, and each rank's result."""

    status: int
    text: str

    @property
    def ranks(self) -> list[dict[str, Any]]:
        """The results, by rank."""
        found = [json.loads(line) for line in re.findall(r"RESULT (\{.*\})", self.text)]
        return sorted(found, key=lambda result: result["rank"])


def launch(
    launcher: str, tasks: str, timeout_s: float = 240, worker: Path = WORKER, module: str = "shared/horovod"
) -> Run:
    """Run a worker as a person would from a login shell."""
    script = f"module load shared {module} && cd ~/horovod && exec {launcher} python {worker} {tasks}"
    clean = ["env", "-i", "PATH=/usr/bin:/bin", f"HOME={home(PERSON)}", f"USER={PERSON}", "bash", "-lc", script]
    argv = ["runuser", "-u", PERSON, "--", *clean]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False, cwd="/")
    return Run(done.returncode, done.stdout + done.stderr)


@pytest.fixture(scope="module", autouse=True)
def folder() -> Iterator[Path]:
    """A folder of the person's, seen by all nodes."""
    assert BUILT.is_dir(), f"{BUILT} is not built: deploy/environments/horovod.py --cm FOLDER"
    folder = own_folder("horovod")
    yield folder
    sh("rm", "-r", str(folder), user=PERSON)


def test_what_is_put_into_horovods_sources_for_gpus_compiles_against_tensorflow(tmp_path: Path) -> None:
    """The compiler looks at it with TensorFlow's own headers; in CUDA's, not needed here, a stream is a pointer."""
    (added,) = (new.replace(old, "") for name, old, new in CHANGES if name.endswith("mpi_ops.cc"))
    (tmp_path / "stream.cc").write_text(
        f'#include "xla/stream_executor/stream.h"\nusing GpuStreamHandle = struct CUstream_st*;\n{added}'
    )
    (headers,) = TENSORFLOW.glob("lib/python3.*/site-packages/tensorflow/include")
    sh("g++", "-std=c++17", "-fsyntax-only", "-isystem", str(headers), str(tmp_path / "stream.cc"))


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    """What one process learns with the whole batches."""
    run = launch("", "equal")
    assert run.status == 0, run.text
    (result,) = run.ranks
    assert result["size"] == 1
    return result


@pytest.fixture(scope="module")
def refused() -> dict[str, Any]:
    """What two ranks say of things that cannot work."""
    run = launch(LAUNCHERS["horovodrun"], "refused")
    assert run.status == 0, run.text
    first, second = run.ranks
    assert first["refused"] == second["refused"], "the ranks do not agree"
    return {**first, "other means": second["normalised"]["means"], "other scaled": second["scaled"]}


@pytest.fixture(scope="module", params=CHOSEN)
def launcher(request: pytest.FixtureRequest) -> str:
    """Each way to start the processes."""
    return str(request.param)


@pytest.fixture(scope="module")
def many(launcher: str) -> Run:
    """What many processes learn, and how they end when one of them is killed afterwards."""
    return launch(LAUNCHERS[launcher], LEARN_AND_LOSE)


def test_many_processes_learn_what_one_learns_with_the_whole_batch(
    launcher: str, many: Run, alone: dict[str, Any]
) -> None:
    they_are_all_there(launcher, many)
    for result in many.ranks:
        assert result["embedding"] == pytest.approx(alone["embedding"], abs=1e-9, rel=0), "sparse gradients"
    for kind in ("sgd", "adam"):
        assert len({result[kind]["weights"] for result in many.ranks}) == 1, f"{kind}: the ranks have drifted apart"
        for result in many.ranks:
            assert result[kind]["loss"] == pytest.approx(alone[kind]["loss"], abs=1e-6, rel=0)
            assert result[kind]["accuracy"] == pytest.approx(alone[kind]["accuracy"], abs=1e-6, rel=0)


def they_are_all_there(launcher: str, run: Run) -> None:
    """Each rank has one result, where the launcher was to start it."""
    size = 4 if "four" in launcher else 2
    assert [(result["rank"], result["size"]) for result in run.ranks] == [(rank, size) for rank in range(size)], (
        run.text
    )
    assert {result["node"] for result in run.ranks} == ({"gpu01", "gpu02"} if "srun" in launcher else {""})


def test_a_rank_that_dies_ends_the_run(launcher: str, many: Run) -> None:
    it_was_ended(launcher, many)


def it_was_ended(launcher: str, run: Run) -> None:
    """The run ended with its killed rank: its launcher names that, and no rank came to its end."""
    they_are_all_there(launcher, run)  # from before, and nothing of afterwards
    assert "rank 1 is lost" in run.text
    assert run.status != 0
    said = r"Process name: 1\nExit code: 137|process rank 1 .* exited on signal 9|gpu0[12]: task 1: Killed"
    assert re.search(said, run.text), run.text
    no_job_is_left()


def test_a_rank_that_hangs_ends_the_run() -> None:
    patience = "" if LONG else IMPATIENT
    run = launch(f"{patience} {LAUNCHERS['srun on two nodes']}", "stopped", LOST_WITHIN_S)
    assert "rank 1 is lost" in run.text
    assert run.status != 0
    assert "Horovod has been shut down" in run.text
    no_job_is_left()


def test_without_a_start_of_horovod_it_says_so(refused: dict[str, Any]) -> None:
    assert refused["before"] == "RuntimeError: Horovod has not been started: call keras3_horovod.init() first"


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("plain", "the model's optimizer is a plain SGD, and every rank would train by itself"),
        ("xla", r"write model\.compile\(\.\.\., jit_compile=False\)"),
        ("scaled", r"compile the model with DistributedOptimizer\(keras\.optimizers\.LossScaleOptimizer"),
        ("apart", r"add BroadcastState\(\) to the callbacks"),
        ("uneven", "the ranks have 4, 3 steps in an epoch"),
        ("twice", "this SGD is a DistributedOptimizer already"),
        ("used", "this SGD was used before"),
        ("unequal", r"the arrays have \[3, 384\] samples"),
        ("indivisible", "a batch of 3 cannot be divided among 2 ranks"),
    ],
)
def test_what_cannot_work_is_refused_on_every_rank(case: str, words: str, refused: dict[str, Any]) -> None:
    assert re.search(words, refused["refused"][case])


def test_a_saved_model_loads_with_the_plain_optimizer_and_its_state(refused: dict[str, Any]) -> None:
    saved = refused["saved"]
    assert saved["class"].endswith("adam.Adam")
    assert saved["step"] == 12
    assert saved["rate"] == pytest.approx(0.1 * 0.5**1.2)


def test_the_moving_means_of_normalisation_are_the_same_on_every_rank(refused: dict[str, Any]) -> None:
    assert refused["normalised"]["means"] == refused["other means"]
    assert min(refused["normalised"]["means"]) > 0.02, "rank 1's numbers are around 1: half of them must show"


def test_loss_scaling_stays_in_step_on_every_rank(refused: dict[str, Any]) -> None:
    assert refused["scaled"] == refused["other scaled"]
    assert refused["scaled"]["loss"][1] < 0.8 * refused["scaled"]["loss"][0]


if LONG:

    def test_the_environment_has_what_its_module_says() -> None:
        where = "import keras3_horovod; print(keras3_horovod)"
        script = f"module load shared/horovod; horovodrun --check-build; python -c '{where}'"
        printed = sh("env", "-i", "PATH=/usr/bin:/bin", "bash", "-lc", script, user=PERSON, timeout_s=180)
        for feature in ("TensorFlow", "MPI", "Gloo"):
            assert f"[X] {feature}" in printed
        assert f"{BUILT}/lib/python3.11/site-packages/keras3_horovod.py" in printed
