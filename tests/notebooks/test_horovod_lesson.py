"""The Horovod lessons on MNIST on their own kernels, in a real Slurm job, which submits another job on two nodes."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator

import pytest

from tests.forms import LONG
from tests.notebooks.jobs import NO_GPU, Run, finished_run, in_a_job, no_job_is_left, own_folder

LESSONS = {"horovod/mnist": "horovod-runs", "horovod/pytorch_mnist": "horovod-pytorch-runs"}  # and their folders
FEW = {"processes": [1, 2], "train_images": 5_120, "job_minutes": 5}


@pytest.fixture(scope="module", params=LESSONS)
def trained(request: pytest.FixtureRequest) -> Iterator[Run]:
    """One small run of each lesson, looked at by all tests."""
    with finished_run(request.param, "horovod-lesson", FEW, resources=NO_GPU) as run:
        yield run


def test_the_mean_of_the_ranks_gradients_is_the_gradient_of_the_whole_batch(trained: Run) -> None:
    line = re.compile(r"rank (\d): my gradient (\d\.\d{6}), mean of all (\d\.\d{6}), whole batch (\d\.\d{6})")
    ranks = line.findall(trained.text("train-here"))
    assert [rank for rank, *_ in ranks[:1] + sorted(ranks[1:])] == ["0", "0", "1"], "one alone, then two in any order"
    for _, _, mean, whole in ranks:
        assert float(mean) == pytest.approx(float(whole), abs=3e-6)
    assert ranks[1][1] != ranks[2][1], "the two ranks looked at the same images"


def test_the_job_on_two_nodes_is_submitted_followed_and_read_back(trained: Run) -> None:
    printed = trained.text("follow-job")
    assert re.search(r"Submitted job \d+\n", printed)
    assert "RUNNING gpu[" in printed
    assert len(re.findall(r"^rank [01]: my gradient", printed, re.MULTILINE)) == 2
    assert "2 processes: " in printed
    assert "#SBATCH --nodes=2\n" in trained.text("job-script")
    assert json.loads((trained.folder / LESSONS[trained.notebook] / "job.json").read_text())["processes"] == 2


def test_the_table_has_our_figures_beside_the_sources(trained: Run) -> None:
    rows = {line[:20].strip(): line[20:].split() for line in trained.text("table").splitlines()}
    assert rows["1 in this session"][1:3] == ["1.00", "100%"]
    assert rows["32 V100, FP32"] == ["21.95", "69%"]
    assert rows["32 V100, FP16"] == ["23.72", "74%"]
    losses = [float(rows[label][3]) for label in ("1 in this session", "2 in this session", "2 on 2 nodes")]
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-4)
    for label in ("1 in this session", "2 in this session", "2 on 2 nodes"):
        assert float(rows[label][0].replace(",", "")) > 0


def test_it_draws_the_speed_up_and_checks_itself(trained: Run) -> None:
    assert len(trained.shown("plot", "image/png")) == 1
    assert re.search(
        r"As expected: the same loss 3 times, \d\.\d{6}, and no accuracy below 0\.5", trained.text("check")
    )


def test_the_processes_of_pytorch_end_with_the_same_weights(trained: Run) -> None:
    """Those of Keras are compared by the tests of its module; here the lesson itself looks at them."""
    if trained.notebook == "horovod/pytorch_mnist":
        assert "All processes of a training ended with the same weights" in trained.text("check")
        for file, count in {"session-1": 1, "session-2": 2, "job": 2}.items():
            result = json.loads((trained.folder / LESSONS[trained.notebook] / f"{file}.json").read_text())
            assert (len(result["weights"]), len(set(result["weights"])), result["device"]) == (count, 1, "cpu")


def test_a_bar_shows_how_many_trainings_are_done(trained: Run) -> None:
    assert trained.bars("train-here") == [1.0]


def test_nothing_puzzling_is_printed_to_stderr(trained: Run) -> None:
    assert {name: noise for name, noise in trained.stderr.items() if noise} == {}


if LONG:

    @pytest.mark.parametrize("lesson", LESSONS)
    def test_without_horovod_it_says_so_in_one_sentence_and_stops(lesson: str) -> None:
        folder = own_folder("horovod-without")
        run = in_a_job(lesson, folder, {**FEW, "horovod_modules": ["shared", "shared/horovod/0.1"]}, resources=NO_GPU)
        assert run.status != 0
        assert "the cell 'imports' failed with AssertionError: Horovod cannot be had from the modules shared" in run.log
        no_job_is_left()
        shutil.rmtree(folder)

    def test_a_job_that_gets_no_nodes_in_time_is_cancelled() -> None:
        folder = own_folder("horovod-waits")
        few = {**FEW, "processes": [1], "wait_seconds": 3, "sbatch_options": "--begin=now+1hour"}
        run = in_a_job("horovod/mnist", folder, few, resources=NO_GPU)
        assert run.status != 0
        assert re.search(r"job \d+ did not end within 3 seconds and was cancelled \(its state: PENDING", run.log), (
            run.log
        )
        no_job_is_left()
        shutil.rmtree(folder)

    def test_with_too_little_memory_the_lesson_of_pytorch_says_so_before_it_starts_a_process() -> None:
        folder = own_folder("horovod-memory")
        run = in_a_job("horovod/pytorch_mnist", folder, {"processes": [1, 64]}, resources=NO_GPU)
        assert run.status != 0
        said = r"'memory' failed with AssertionError: 64 processes need about [\d,]+ MiB .* has 49,152 MiB: start"
        assert re.search(said, run.log), run.log
        shutil.rmtree(folder)
