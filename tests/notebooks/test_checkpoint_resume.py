"""The lesson on jobs that end before their training: a real job is told, requeued by Slurm, and goes on."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forms import LONG
from tests.inside import eventually
from tests.notebooks.jobs import NO_GPU, TEMPLATES, Run, finished_run, no_job_is_left

LESSON = "cluster/checkpoint_resume"
PYTHON = "/cm/shared/apps/pytorch/2.13/bin/python"
FEW = {"steps": 150, "save_every": 25, "stop_at": 25, "step_seconds": 0.03, "job_minutes": 5}
# Slurm sends the signal up to a minute earlier than asked, so within the 30 to 90 seconds after the start.
BY_SLURM = {"steps": 200, "stop_at": 0, "step_seconds": 0.6, "job_minutes": 2, "notice_seconds": 30}


@pytest.fixture(scope="module")
def resumed() -> Iterator[Run]:
    """One small run of the lesson, looked at by all tests."""
    with finished_run(LESSON, "resume-lesson", FEW, resources=NO_GPU) as run:
        yield run


def test_a_job_that_is_told_saves_is_requeued_and_goes_on_at_its_step(resumed: Run) -> None:
    (job,) = re.findall(r"^Submitted stopped: job (\d+)$", resumed.text("submit-jobs"), re.MULTILINE)
    printed = resumed.text("follow-jobs")
    assert f"the signal is sent to job {job}" in printed
    (saved,) = re.findall(r"stopped: step (\d+): told that the time is over; saved, back into the queue", printed)
    assert f"stopped: step {saved}: run 2 begins on gpu0" in printed
    runs = re.findall(r"^(\w+) +run (\d): from step +(\d+) on gpu0\d", resumed.text("join-curves"), re.MULTILINE)
    assert runs == [("whole", "1", "0"), ("stopped", "1", "0"), ("stopped", "2", saved)]
    no_job_is_left()


def test_the_joined_curve_is_the_one_of_a_training_that_nobody_stopped(resumed: Run) -> None:
    assert re.search(
        r"As expected: 2 runs of job \d+ took the 150 steps of one, number for number", resumed.text("check")
    )
    assert len(resumed.shown("plot", "image/png")) == 1


def test_each_part_of_the_checkpoint_is_needed(resumed: Run) -> None:
    apart = dict(
        re.findall(r"^without (\w+) +the loss is up to ([\d.]+) away", resumed.text("forget-parts"), re.MULTILINE)
    )
    assert list(apart) == ["nothing", "optimizer", "schedule", "sampler", "random"]
    assert float(apart.pop("nothing")) == 0
    assert min(map(float, apart.values())) > 0.001


def test_a_checkpoint_that_is_cut_off_while_it_is_written_leaves_the_one_before(resumed: Run) -> None:
    assert "the one that is there is still that of step 30" in resumed.text("forget-parts")


def test_nothing_puzzling_is_printed_to_stderr(resumed: Run) -> None:
    assert {name: noise for name, noise in resumed.stderr.items() if noise} == {}


def test_a_signal_that_comes_while_the_training_is_still_imported_is_not_lost(tmp_path: Path) -> None:
    command = [PYTHON, str(TEMPLATES / "cluster/resumable_train.py"), f"--folder={tmp_path}"]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    maps = Path(f"/proc/{started.pid}/maps")
    eventually(lambda: "libtorch" in maps.read_text(), "PyTorch is being imported", every_s=0.01)
    started.send_signal(signal.SIGUSR1)
    printed, _ = started.communicate(timeout=120)
    assert started.returncode == 0, printed
    assert "step 1: told that the time is over; saved" in printed
    assert (tmp_path / "checkpoint.pt").is_file()


def test_a_checkpoint_goes_through_no_link_that_others_left_in_its_folder(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("something else of hers")
    run = tmp_path / "run"
    run.mkdir()
    (run / "checkpoint.pt.partial").symlink_to(other)
    subprocess.run(
        [PYTHON, str(TEMPLATES / "cluster/resumable_train.py"), f"--folder={run}", "--steps=1"],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    assert other.read_text() == "something else of hers"
    assert [(file.name, file.is_symlink()) for file in run.iterdir()] == [("checkpoint.pt", False)]


if LONG:

    def test_slurm_itself_tells_a_job_before_its_time_limit() -> None:
        with finished_run(LESSON, "resume-by-slurm", BY_SLURM, resources=NO_GPU) as run:
            assert "told that the time is over; saved, back into the queue" in run.text("follow-jobs")
            assert "number for number" in run.text("check")
