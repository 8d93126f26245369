"""The MNIST templates on their own kernels, in real Slurm jobs of a person: what "Restart and Run All" does."""

from __future__ import annotations

import gzip
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.forms import LONG
from tests.notebooks.jobs import PERSON, Run, finished_run, in_a_job, own_data, own_folder

LESSONS = {  # each template, and what it says of its framework
    "tensorflow/mnist": r"TensorFlow 2\.\d+\.\d+ with Keras 3\.\d+",
    "pytorch/mnist": r"PyTorch 2\.\d+\.\d+",
    "mxnet/mnist": r"MXNet 1\.9\.\d+",
    "r/mnist": r"R version 4\.\d+\.\d+",
}
FEW = {"epochs": 2, "train_images": 6_000, "steps_per_line": 40}
LINE = re.compile(r"Epoch (\d+) Global Step (\d+), Training Accuracy (\d\.\d{4})\nTest Accuracy (\d\.\d{4})")


@pytest.fixture(scope="module", params=LESSONS)
def trained(request: pytest.FixtureRequest) -> Iterator[Run]:
    """One small training of each lesson, looked at by all tests."""
    with finished_run(request.param, "mnist-template", FEW) as run:
        yield run


def test_it_trains_on_real_images_and_says_which(trained: Run) -> None:
    assert re.search(r"Training on (MNIST|Fashion-MNIST): 6,000 images", trained.text("show-data"))
    assert re.match(LESSONS[trained.notebook], trained.text("imports"))


def test_it_prints_step_training_and_test_accuracy_as_the_portals_guide_shows(trained: Run) -> None:
    lines = LINE.findall(trained.text("fit"))
    steps = [(int(epoch), int(step)) for epoch, step, *_ in lines]
    assert steps == [(1, 1), (1, 41), (2, 48), (2, 88)]
    assert float(lines[-1][3]) > float(lines[0][3])


def test_its_accuracy_is_over_the_floor_that_it_sets_itself(trained: Run) -> None:
    match = re.search(r"Final Test Accuracy (\d\.\d{4})", trained.text("curves"))
    assert match
    assert float(match[1]) >= 0.5
    assert f"As expected: {match[1]} is not below 0.5" in trained.text("check") + "\n"


def test_it_draws_the_images_its_curves_and_its_mistakes(trained: Run) -> None:
    for cell in ("show-data", "curves", "mistakes"):
        assert len(trained.shown(cell, "image/png")) == 1, cell


def test_tensorboard_reads_what_it_wrote(trained: Run) -> None:
    if trained.notebook == "r/mnist":
        assert "Debian has no R package that writes TensorBoard's files" in "".join(trained.cells["train"]["source"])
        assert not (trained.folder / "logs").exists()
        return
    (folder,) = (trained.folder / "logs").iterdir()
    train, test = (EventAccumulator(str(folder / name), {"tensors": 0}).Reload() for name in ("train", "test"))
    assert steps_of(train, "epoch_accuracy") == [0, 1]
    assert steps_of(train, "batch_loss") == list(range(1, 95))
    assert steps_of(test, "test_accuracy") == [1, 41, 48, 88]
    # The model's graph: Keras writes it as a tensor, PyTorch in TensorBoard's own way, MXNet cannot.
    assert ("keras" in train.Tags()["tensors"] or train.Tags()["graph"]) == (trained.notebook != "mxnet/mnist")


def steps_of(events: EventAccumulator, tag: str) -> list[int]:
    """The steps at which a number was written, as a tensor (TensorFlow, MXNet) or as a scalar (PyTorch)."""
    read = events.Tensors if tag in events.Tags()["tensors"] else events.Scalars
    return [event.step for event in read(tag)]


def test_it_links_to_its_logs_in_tensorboard(trained: Run) -> None:
    if trained.notebook == "r/mnist":
        assert "tensorboard-link" not in trained.cells
        return
    (link,) = trained.shown("tensorboard-link", "text/html")
    assert f'href="/user/{PERSON}/tensorboard/open?path=mnist-template/logs"' in link


def test_a_bar_shows_how_far_the_training_is(trained: Run) -> None:
    assert trained.bars("fit") == [1.0]


def test_the_network_is_kept_and_opens_again(trained: Run) -> None:
    names = {"tensorflow/mnist": "model.keras", "pytorch/mnist": "model.pt"}
    if trained.notebook not in names:
        assert "save" not in trained.cells
        return
    (kept,) = (trained.folder / "logs").glob(f"*/{names[trained.notebook]}")
    assert kept.stat().st_size > 100_000
    assert "opened again: the same numbers" in trained.text("save")


def test_nothing_puzzling_is_printed_to_stderr(trained: Run) -> None:
    assert {name: noise for name, noise in trained.stderr.items() if noise} == {}
    assert "papermill" not in trained.log
    assert "unknown parameter" not in trained.log


# The short form has Python and R.
if LONG:

    @pytest.mark.parametrize("notebook", LESSONS)
    def test_without_data_it_says_so_in_one_sentence_and_stops(notebook: str) -> None:
        folder = own_folder("mnist-without-data")
        run = in_a_job(notebook, folder, {"data_set": "mnist"})
        assert run.status != 0
        assert "the cell 'load-data' failed with " in run.log
        assert "There is no data: mnist is in none of" in run.log
        assert ": show-data" not in run.log
        shutil.rmtree(folder)

    @pytest.mark.parametrize("notebook", ["pytorch/mnist", "mxnet/mnist", "r/mnist"])
    def test_data_that_teaches_nothing_fails_at_the_floor(notebook: str) -> None:
        folder = own_folder("mnist-wrong-data")
        empty_images(folder / "data" / "mnist")
        few = {"epochs": 1, "train_images": 6_000, "steps_per_line": 100}
        run = in_a_job(notebook, folder, few, [own_data(folder / "data")])
        assert run.status != 0
        assert "the cell 'check' failed with " in run.log
        assert "6,000 training images should give 0.6 or more" in run.log
        shutil.rmtree(folder)

    @pytest.mark.parametrize("notebook", ["pytorch/mnist", "r/mnist"])
    def test_a_data_file_that_was_cut_short_is_no_training_set(notebook: str) -> None:
        folder = own_folder("mnist-cut-data")
        empty_images(folder / "data" / "mnist")
        images = folder / "data" / "mnist" / "train-images-idx3-ubyte.gz"
        images.write_bytes(gzip.compress(gzip.decompress(images.read_bytes())[:-1]))
        run = in_a_job(notebook, folder, FEW, [own_data(folder / "data")])
        assert run.status != 0
        assert "the cell 'load-data' failed with " in run.log
        assert ": show-data" not in run.log
        shutil.rmtree(folder)


def empty_images(folder: Path) -> None:
    """A data set in MNIST's own format: 6,000 and 1,000 empty images under the labels 0 to 9."""
    folder.mkdir(parents=True)
    for part, count in (("train", 6_000), ("t10k", 1_000)):
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(bytes(16 + 784 * count)))
        labels = bytes(8) + bytes(range(10)) * (count // 10)
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))
