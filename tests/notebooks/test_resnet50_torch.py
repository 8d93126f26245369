"""ResNet50 in PyTorch on its own kernel, in a real Slurm job: two processes learn one thing, and it is measured."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.forms import LONG
from tests.notebooks.jobs import TEMPLATES, Run, changed, finished_run, in_a_job, own_folder

LESSON = "pytorch/resnet50"
BLOCKS = [3, 4, 6, 3] if LONG else [1, 1, 1, 1]
WEIGHTS = "23,528,522" if LONG else "8,036,426"
SIZES = {"image_size": 48, "batch_size": 16, "images": 200, "epochs": 4}
FEW = {**SIZES, "blocks": BLOCKS, "iterations": 1, "seconds": 0, "warm_up": 1}
LEAST = {**FEW, "images": 40, "epochs": 2, "inputs": ["synthetic"], "precisions": ["float32"], "image_size": 32}


@pytest.fixture(scope="module")
def trained() -> Iterator[Run]:
    """One small run of the lesson on two processes, looked at by all tests; the long form compiles the network."""
    values = {**FEW, "gpus": 2, "compile_network": LONG}
    with finished_run(LESSON, "resnet50-torch-template", values, minutes=20) as run:
        yield run


def test_two_processes_train_one_network_and_its_loss_falls(trained: Run) -> None:
    epochs = re.findall(
        r"epoch \d: loss [\d.]+, validation [\d.]+, accuracy [\d.]+%, [\d,.]+ images/s", trained.text("fit")
    )
    assert len(epochs) == FEW["epochs"]
    assert "4 epochs of 10 steps on 2 process(es)" in trained.text("fit")
    printed = trained.text("check")
    assert f"As expected: {WEIGHTS} weights, the same in 2 process(es) and in the file" in printed
    assert "As expected: the loss fell from " in printed


def test_all_precisions_and_inputs_are_measured_and_the_sources_figures_stand_beside(trained: Run) -> None:
    lines = trained.text("table").splitlines()[1:7]
    assert [line.split()[-3:-1] for line in lines[:4]] == [
        ["float32", "synthetic"], ["float32", "jpeg"], ["bfloat16", "synthetic"], ["bfloat16", "jpeg"],
    ]  # fmt: skip
    assert all(float(line.split()[-1].replace(",", "")) > 0 for line in lines)
    assert lines[4].endswith("2,657")


def test_tensorboard_has_the_curves(trained: Run) -> None:
    (folder,) = (trained.folder / "logs").iterdir()
    events = EventAccumulator(str(folder)).Reload()
    for name in ("loss", "validation_loss", "validation_accuracy"):
        assert [event.step for event in events.Scalars(name)] == [1, 2, 3, 4]
    assert len(trained.shown("plot", "image/png")) == 1


def test_nothing_puzzling_is_printed_to_stderr(trained: Run) -> None:
    assert {name: noise for name, noise in trained.stderr.items() if noise} == {}


if LONG:

    def test_processes_that_do_not_average_their_gradients_are_found_out() -> None:
        folder = own_folder("resnet50-torch-apart")
        lesson = changed(LESSON, folder, "if size > 1 else network", "if size > 2 else network")
        run = in_a_job(lesson, folder, {**LEAST, "gpus": 2}, [f"export PYTHONPATH={TEMPLATES}/pytorch"])
        assert run.status != 0
        assert (
            "the cell 'check' failed with AssertionError: The weights of a process add up to another number" in run.log
        )
        shutil.rmtree(folder)

    def test_what_cannot_work_ends_early_with_one_sentence() -> None:
        folder = own_folder("resnet50-torch-cannot")
        run = in_a_job(LESSON, folder, {**LEAST, "precisions": ["fp16"]})
        assert run.status != 0
        assert "precisions is ['fp16']; use some of float32, mixed, bfloat16, float16." in run.log
        shutil.rmtree(folder)
