"""The ResNet50 lesson of Horovod, in a real Slurm job, which submits another job: its launchers, small images."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forms import LONG
from tests.inside import home
from tests.notebooks.jobs import NO_GPU, PERSON, Run, finished_run, in_a_job, no_job_is_left, own_folder

LESSON = "horovod/resnet50"
LAUNCHERS = ["srun", "mpirun"] if LONG else ["mpirun"]  # of the job; test_horovod.py has more of them in both forms
PROCESSES = [1, 2] if LONG else [1]  # here; every process compiles the network for itself
NETWORK = "ResNet50" if LONG else "VGG16"  # with few layers, which TensorFlow compiles in a seventh of the time
SIZES = {"network": NETWORK, "image_size": 32, "batch_per_process": 8, "steps": 3, "epochs": 2}
FEW = {**SIZES, "processes": PROCESSES, "launchers": LAUNCHERS}
HERE = [f"{count} horovodrun, here" for count in PROCESSES]
LABELS = [*HERE, *(f"2 {launcher}, 2 nodes" for launcher in LAUNCHERS)]


def of_open_mpi() -> Path:
    """Where Open MPI makes the folders of its sessions, which it removes."""
    return home(PERSON) / ".cache/dsportal-openmpi"


@pytest.fixture(scope="module")
def trained() -> Iterator[Run]:
    """One small run of the lesson, looked at by all tests."""
    shutil.rmtree(of_open_mpi(), ignore_errors=True)
    with finished_run(LESSON, "horovod-resnet50-lesson", FEW, resources=NO_GPU, minutes=20) as run:
        yield run


def test_each_launcher_trains_and_all_its_processes_end_with_the_same_weights(trained: Run) -> None:
    here, job = trained.text("train-here"), trained.text("follow-job")
    ended = re.compile(
        r"^(\d \w+, .*): [\d,.]+ images/s on CPU, weights ([0-9a-f]{16}) on (\d) processes$", re.MULTILINE
    )
    found = {label: (weights, int(count)) for label, weights, count in ended.findall(here + job)}
    assert [(label, count) for label, (_, count) in found.items()] == [(label, int(label[0])) for label in LABELS]
    ranks = sorted(str(rank) for count in PROCESSES for rank in range(count))
    for text, expected in {here: ranks, job: sorted(len(LAUNCHERS) * ["0", "1"])}.items():
        assert sorted(re.findall(r"^rank (\d): weights ", text, re.MULTILINE)) == expected
    assert found[LABELS[0]][0] != found[LABELS[1]][0], "two processes have seen what one saw"


def test_it_tells_how_far_it_is(trained: Run) -> None:
    line = r"^epoch (\d): [\d,.]+ images/s, loss on rank 0: \d+\.\d{4}(?: \(not measured\))?$"
    for cell, trainings in {"train-here": len(HERE), "follow-job": len(LAUNCHERS)}.items():
        assert re.findall(line, trained.text(cell), re.MULTILINE) == trainings * ["1", "2"]


def test_the_job_runs_on_two_nodes(trained: Run) -> None:
    assert "#SBATCH --nodes=2\n" in trained.text("job-script")
    assert re.search(r"Submitted job \d+\n", trained.text("follow-job"))
    assert "RUNNING gpu[" in trained.text("follow-job")


def test_the_table_has_speed_up_and_efficiency_beside_the_sources(trained: Run) -> None:
    rows = {line[:22].strip(): line[22:].split() for line in trained.text("table").splitlines()[1:]}
    assert list(rows) == [*LABELS, "32 V100, FP32", "32 V100, FP16"]
    assert rows["32 V100, FP32"] == ["GPU", "21.95", "69%"]
    assert rows["32 V100, FP16"] == ["GPU", "23.72", "74%"]
    assert rows[LABELS[0]][2:4] == ["1.00", "100%"]
    alone = float(rows[LABELS[0]][1])
    losses = [float(rows[label][4]) for label in LABELS[1:]]
    assert losses == pytest.approx([losses[0]] * len(losses), rel=1e-3), "the launchers of two processes do not agree"
    for label in LABELS:
        device, speed, speed_up, efficiency, _ = rows[label]
        assert device == "CPU"
        assert float(speed_up) == pytest.approx(float(speed) / alone, abs=0.02)
        assert int(efficiency.rstrip("%")) == pytest.approx(100 * float(speed_up) / int(label[0]), abs=1.5)


def test_it_draws_and_checks_itself_and_says_that_there_is_no_gpu(trained: Run) -> None:
    assert len(trained.shown("plot", "image/png")) == 1
    assert f"As expected: {len(LABELS)} trainings, in each of them equal weights" in trained.text("check")
    assert "No GPU here: the processes share the CPU cores" in trained.text("imports")


def test_a_bar_shows_how_many_epochs_are_done(trained: Run) -> None:
    assert trained.bars("train-here") == [1.0]


def test_mpirun_has_kept_its_files_below_the_home_and_none_under_a_known_name_in_tmp(trained: Run) -> None:
    assert trained.status == 0
    assert of_open_mpi().is_dir()
    assert not list(of_open_mpi().iterdir())
    assert not list(Path("/tmp").glob(f"ompi.*.{of_open_mpi().stat().st_uid}"))


def test_nothing_puzzling_is_printed_to_stderr(trained: Run) -> None:
    assert {name: noise for name, noise in trained.stderr.items() if noise} == {}


if LONG:

    def test_with_too_little_memory_it_says_so_before_it_starts_a_process() -> None:
        folder = own_folder("horovod-resnet50-memory")
        run = in_a_job(LESSON, folder, {"processes": [1, 64]}, resources=NO_GPU)
        assert run.status != 0
        assert re.search(
            r"the cell 'memory' failed with AssertionError: 64 processes need about [\d,]+ MiB of memory, and this "
            r"session has 49,152 MiB: start a session with more, or lower processes",
            run.log,
        ), run.log
        no_job_is_left()
        shutil.rmtree(folder)
