"""The ResNet50 lesson on its own kernel, in a real Slurm job: it trains, is saved and opened, and is measured."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.forms import LONG
from tests.notebooks.jobs import PERSON, Run, finished_run, in_a_job, own_folder
from tests.notebooks.test_mnist import steps_of

LESSON = "tensorflow/resnet50"
PRECISIONS = ["float32", "mixed"] if LONG else ["mixed"]  # each is a network of its own, which TensorFlow compiles
BLOCKS = [3, 4, 6, 3] if LONG else [1, 1, 1, 1]  # TensorFlow compiles the short network in a quarter of the time
NETWORK, WEIGHTS = ("ResNet50", "23,581,642") if LONG else ("ResNet14", "8,055,754")
SIZES = {"image_size": 40, "batch_size": 16, "images": 200, "epochs": 4}
SMALL = {**SIZES, "blocks": BLOCKS, "iterations": 3, "seconds": 0, "warm_up": 1}
FEW: dict[str, object] = {**SMALL, "precisions": PRECISIONS}
LEAST = {**FEW, "images": 40, "epochs": 2, "inputs": ["jpeg"], "precisions": ["float32"], "iterations": 1}
# Kernel, values, and what it says: in the long form only. A step takes JAX a second or two on a CPU; that two devices
# take the same steps as one, test_fast_layers.py asks in both forms.
ELSEWHERE: dict[str, object] = {"inputs": ["synthetic", "jpeg"], "precisions": ["mixed"]}
TWO: dict[str, object] = {
    "gpus": 2,
    "epochs": 2,
    "image_size": 32,
    "version": "v1",
    "inputs": ["jpeg"],
    "precisions": ["float32"],
    "iterations": 1,
}
OTHER_WAYS: dict[str, tuple[str, dict[str, object], str]] = {
    "two-devices": ("", TWO, " in float32 on 2 device(s)"),
    "pytorch": ("pytorch", ELSEWHERE, " on torch, "),
    "jax": ("jax", ELSEWHERE, " on jax, "),
}
KINDS = ("memory", "TFRecord files", "JPEG files")
WAYS = [(precision, kind) for precision in reversed(PRECISIONS) for kind in KINDS]  # as they are measured


@pytest.fixture(scope="module")
def trained() -> Iterator[Run]:
    """One small run of the lesson, looked at by all tests."""
    with finished_run(LESSON, "resnet50-template", FEW, minutes=20) as run:
        yield run


def rows(run: Run) -> dict[tuple[str, str], list[str]]:
    """The figures of the table's lines, by their two first cells."""
    lines = run.text("table").splitlines()
    return {(line[:24].strip(), line[25:35].strip()): line[35:].split() for line in lines[1:] if line}


def test_it_says_what_it_trains_on_and_with(trained: Run) -> None:
    assert re.match(r"Keras 3\.\d+\.\d+ on tensorflow, \d+ CPU cores and 0 GPUs", trained.text("imports"))
    printed = trained.text("prepare-data")
    assert re.search(r"coloured: 160 images of 10 classes, 10\d KB each, and 40 to validate with", printed)
    built = f"{NETWORK} v1.5, {WEIGHTS} weights and moving statistics, in mixed_bfloat16 on 1 device(s)"
    assert built in trained.text("build")


def test_fit_tells_loss_and_accuracy_of_training_and_validation_in_each_epoch(trained: Run) -> None:
    told = re.findall(r"10/10 - .* - accuracy: .* - loss: .* - val_accuracy: .* - val_loss: ", trained.text("fit"))
    assert len(told) == FEW["epochs"]
    assert trained.text("check").startswith("As expected: the loss fell from ")


def test_tensorboard_has_the_curves_and_a_learning_rate_that_grows_first_and_then_falls(trained: Run) -> None:
    (folder,) = (trained.folder / "logs").iterdir()
    events = EventAccumulator(str(folder), {"tensors": 0}).Reload()
    for name in ("loss", "accuracy", "validation_loss", "validation_accuracy"):
        assert steps_of(events, name) == [1, 2, 3, 4]
    rates = [float(event.tensor_proto.float_val[0]) for event in events.Tensors("learning_rate")]
    assert rates[0] == 0
    assert rates[1] == pytest.approx(0.1 * 16 / 256)
    assert rates[1:] == sorted(rates[1:], reverse=True)
    assert rates[-1] < 1e-6


def test_the_saved_network_opens_with_keras_alone(trained: Run) -> None:
    assert re.search(rf"{NETWORK.lower()}-v1\.5\.keras, \d+ MB, opens with Keras alone", trained.text("save-and-open"))
    assert (trained.folder / "resnet50-data" / f"{NETWORK.lower()}-v1.5.keras").is_file()


def test_the_speed_in_the_table_is_the_mean_of_all_measured_iterations(trained: Run) -> None:
    line = re.compile(r"^(\w+), ([\w ]+): 3 iterations of 16 images in (\d+\.\d{3}) s, first loss", re.MULTILINE)
    measured = line.findall(trained.text("measure-all"))
    assert [(precision, kind) for precision, kind, _ in measured] == WAYS
    shown = [figures for (what, _), figures in rows(trained).items() if what.startswith("here")]
    assert len(shown) == len(measured)
    for figures, (*_, text) in zip(shown, [*measured[3:], *measured[:3]], strict=True):
        speed, seconds = float(figures[0].replace(",", "")), float(text)
        rounded = 0.051 + 48 / seconds * 0.0005 / seconds  # the speed to a tenth, the seconds to a thousandth
        assert speed == pytest.approx(48 / seconds, abs=rounded)


def test_the_storage_needed_is_speed_times_bytes_and_the_sources_figures_stand_beside(trained: Run) -> None:
    found = re.search(r"classes, (\d+) KB each", trained.text("prepare-data"))
    assert found
    table = rows(trained)
    for what in ("here, float32", "here, mixed_bfloat16")[-len(PRECISIONS) :]:
        speed, _, _, needs, read, _ = table[what, "jpeg"]
        images_per_s, kb = float(speed.replace(",", "")), int(found[1])
        rounded = 0.051 + (0.05 * kb + 0.5 * images_per_s) / 1000  # MB/s and images/s to a tenth, the KB to one
        assert float(needs) == pytest.approx(images_per_s * kb / 1000, abs=rounded)
        assert float(read) > 0
    assert table["4 × V100", "tfrecord"] == ["2,657", "300.2"]
    assert table["4 × V100, tuned threads", "tfrecord"] == ["2,940", "13.2/40", "380%", "332.2", "335.0"]
    assert table["8 × V100, tuned threads", "tfrecord"][0] == "5,590"


def test_it_draws_its_images_its_curves_and_its_speeds(trained: Run) -> None:
    for cell in ("look", "curves", "plot"):
        assert len(trained.shown(cell, "image/png")) == 1, cell
    assert trained.bars("measure-all") == [1.0]
    (link,) = trained.shown("tensorboard-link", "text/html")
    assert f'href="/user/{PERSON}/tensorboard/open?path=resnet50-template/logs"' in link


def test_nothing_puzzling_is_printed_to_stderr(trained: Run) -> None:
    assert {name: noise for name, noise in trained.stderr.items() if noise} == {}


if LONG:

    @pytest.mark.parametrize("way", OTHER_WAYS)
    def test_it_trains_as_well_on_several_devices_and_on_kernels_of_other_frameworks(way: str) -> None:
        kernel, values, words = OTHER_WAYS[way]
        with finished_run(LESSON, f"resnet50-{way}", {**FEW, **values}, kernel=kernel) as run:
            assert words in run.text("build") + run.text("imports")
            assert (
                "As expected: the loss fell from " in run.text("check") or way == "two-devices"
            )  # too few steps for it
            assert " speeds, each the mean of all iterations that were measured" in run.text("check")


if LONG:

    @pytest.mark.parametrize(
        ("values", "cell", "words"),
        [
            ({"batch_size": 100_000}, "check-values", "start a session with more memory, or use a smaller batch_size."),
            (
                {"data_folder": "nowhere"},
                "prepare-data",
                "There is no data: nowhere has no folders, one for each class",
            ),
        ],
    )
    def test_what_cannot_work_ends_early_with_one_sentence(values: dict[str, object], cell: str, words: str) -> None:
        folder = own_folder("resnet50-cannot")
        run = in_a_job(LESSON, folder, {**LEAST, **values})
        assert run.status != 0
        assert f"the cell {cell!r} failed with " in run.log
        assert words in run.log
        shutil.rmtree(folder)
