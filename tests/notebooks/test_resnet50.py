"""The ResNet50 lesson on its own kernel, in a real Slurm job: equal to the slow path, measured, learning."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.notebooks.jobs import LONG, PERSON, Run, changed_module, finished_run, in_a_job, own_folder
from tests.notebooks.test_mnist import steps_of

LESSON = "tensorflow/resnet50"
FEW = {
    "image_size": 64,
    "batch_size": 16,
    "iterations": 4,
    "seconds": 0,
    "warm_up": 2,
    "images": 160,
    "train_steps": 40,
}
LEAST = {**FEW, "inputs": ["jpeg"], "precisions": ["float32"], "iterations": 1, "warm_up": 1}
ELSEWHERE = {"inputs": ["synthetic", "jpeg"], "precisions": ["mixed"], "iterations": 2}
# A step takes JAX a second or two on a CPU: in the long form only.
OTHERS = {"pytorch": "torch", "jax": "jax"} if LONG else {"pytorch": "torch"}
WAYS = [(precision, kind) for precision in ("float32", "mixed") for kind in ("memory", "TFRecord files", "JPEG files")]

# What a GPU since the A100 does with float32, unless it is told not to; and the end of the lesson after its proof.
EMULATED_TF32 = """
import image_files
import tensorflow as tf

def rounding(product):
    def rounded(x):
        bits = tf.bitcast(tf.convert_to_tensor(x), tf.int32)
        return x + tf.stop_gradient(tf.bitcast(tf.bitwise.bitwise_and(bits + 0x1000, ~0x1FFF), tf.float32) - x)

    def multiplied(one, other, *arguments, **named):
        if tf.config.experimental.tensor_float_32_execution_enabled():
            one, other = rounded(one), rounded(other)
        return product(one, other, *arguments, **named)

    return multiplied

def the_end(*_):
    raise RuntimeError("the emulation ends here")

tf.nn.convolution, tf.matmul = rounding(tf.nn.convolution), rounding(tf.matmul)
image_files.drop_from_cache = the_end
"""


@pytest.fixture(scope="module")
def trained() -> Iterator[Run]:
    """One small run of the lesson, looked at by all tests."""
    with finished_run(LESSON, "resnet50-template", FEW) as run:
        yield run


def rows(run: Run) -> dict[tuple[str, str], list[str]]:
    """The figures of the table's lines, by their two first cells."""
    lines = run.text("table").splitlines()
    return {(line[:24].strip(), line[25:35].strip()): line[35:].split() for line in lines[1:] if line}


def test_it_says_what_it_trains_on_and_with(trained: Run) -> None:
    assert re.match(r"Keras 3\.\d+\.\d+ on tensorflow, \d+ CPU cores and 0 GPUs", trained.text("imports"))
    assert "160 images of 10 classes, 10" in trained.text("prepare-data")
    assert "Fashion-MNIST, enlarged and coloured" in trained.text("prepare-data")


def test_the_fast_network_takes_the_same_step_as_keras_own(trained: Run) -> None:
    losses = [float(loss) for loss in re.findall(r"loss (\d+\.\d{6})$", trained.text("prove"), re.MULTILINE)]
    assert len(losses) == 2
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    apart = dict(re.findall(r"([a-z][a-z ]*) (\d\.\de[+-]\d\d) apart", trained.text("prove")))
    assert set(apart) == {"loss", "moving statistics", "weights", "biases left out"}
    assert float(apart["biases left out"]) < 1e-4
    assert "As expected: the same step with 53 fused layers" in trained.text("prove")


def test_the_speed_in_the_table_is_the_mean_of_all_measured_iterations(trained: Run) -> None:
    line = re.compile(r"^(\w+), ([\w ]+): 4 iterations of 16 images in (\d+\.\d{3}) s, first loss", re.MULTILINE)
    measured = line.findall(trained.text("measure-all"))
    assert [(precision, kind) for precision, kind, _ in measured] == WAYS
    shown = [figures for (what, _), figures in rows(trained).items() if what.startswith("here")]
    assert len(shown) == len(measured)
    for figures, (*_, text) in zip(shown, measured, strict=True):
        speed, seconds = float(figures[0].replace(",", "")), float(text)
        rounded = 0.051 + 64 / seconds * 0.0005 / seconds  # the speed to a tenth, the seconds to a thousandth
        assert speed == pytest.approx(64 / seconds, abs=rounded)


def test_the_storage_needed_is_speed_times_bytes_and_the_sources_figures_stand_beside(trained: Run) -> None:
    found = re.search(r"classes, (\d+) KB each", trained.text("prepare-data"))
    assert found
    table = rows(trained)
    for what in ("here, float32", "here, mixed_bfloat16"):
        speed, _, _, needs, read, _ = table[what, "jpeg"]
        images_per_s, kb = float(speed.replace(",", "")), int(found[1])
        rounded = 0.051 + (0.05 * kb + 0.5 * images_per_s) / 1000  # MB/s and images/s to a tenth, the KB to one
        assert float(needs) == pytest.approx(images_per_s * kb / 1000, abs=rounded)
        assert float(read) > 0
    assert table["4 × V100", "tfrecord"] == ["2,657", "300.2"]
    assert table["4 × V100, tuned threads", "tfrecord"] == ["2,940", "13.2/40", "380%", "332.2", "335.0"]
    assert table["8 × V100, tuned threads", "tfrecord"][0] == "5,590"


def test_the_loss_falls_on_real_images_and_tensorboard_has_it(trained: Run) -> None:
    means = re.search(r"first 10 steps (\d+\.\d{4}), of the last 10 steps (\d+\.\d{4})", trained.text("loss-curve"))
    assert means
    assert float(means[2]) < 0.9 * float(means[1])
    assert trained.text("check").startswith(f"As expected: the loss fell from {means[1]} to {means[2]}\n")
    (folder,) = (trained.folder / "logs").iterdir()
    events = EventAccumulator(str(folder), {"tensors": 0}).Reload()
    assert steps_of(events, "loss") == list(range(1, 41))
    assert {f"images_per_s/{precision}_jpeg" for precision in ("float32", "mixed")} <= set(events.Tags()["tensors"])


def test_it_draws_its_images_its_speeds_and_its_loss(trained: Run) -> None:
    for cell in ("prepare-data", "plot", "loss-curve"):
        assert len(trained.shown(cell, "image/png")) == 1, cell
    (link,) = trained.shown("tensorboard-link", "text/html")
    assert f'href="/user/{PERSON}/tensorboard/open?path=resnet50-template/logs"' in link


def test_bars_show_how_far_the_measurement_and_the_training_are(trained: Run) -> None:
    assert [trained.bars("measure-all"), trained.bars("fit")] == [[1.0], [1.0]]


def test_nothing_puzzling_is_printed_to_stderr(trained: Run) -> None:
    assert {name: noise for name, noise in trained.stderr.items() if noise} == {}


def test_a_normalisation_that_keeps_other_statistics_is_found_out() -> None:
    folder = own_folder("resnet50-unequal")
    lesson = changed_module(LESSON, "fast_layers.py", folder, "variance * (count - 1) / count", "variance")
    run = in_a_job(lesson, folder, LEAST)
    assert run.status != 0
    assert "the cell 'prove' failed with AssertionError: The fast network's moving statistics are " in run.log
    shutil.rmtree(folder)


def test_the_proof_holds_on_hardware_that_rounds_products_to_ten_bits() -> None:
    folder = own_folder("resnet50-tf32")
    lesson = changed_module(LESSON, "fast_layers.py", folder, "\nimport keras\n", f"\nimport keras\n{EMULATED_TF32}")
    run = in_a_job(lesson, folder, LEAST)
    assert "the cell 'measure-all' failed with RuntimeError: the emulation ends here" in run.log
    shutil.rmtree(folder)


@pytest.mark.parametrize(("kernel", "backend"), OTHERS.items())
def test_the_same_lesson_trains_on_another_kernel_with_the_framework_there(kernel: str, backend: str) -> None:
    with finished_run(LESSON, f"resnet50-{kernel}", {**FEW, **ELSEWHERE}, kernel=kernel) as run:
        assert f" on {backend}, " in run.text("imports")
        assert "As expected: the same step with 0 fused layers" in run.text("prove")
        assert f"{FEW['train_steps']} steps, " in run.text("fit")
        assert run.text("check").startswith("As expected: the loss fell from ")
        assert "As expected: 2 speeds, each the mean of all iterations that were measured" in run.text("check")


@pytest.mark.parametrize(
    ("values", "cell", "words"),
    [
        ({"batch_size": 100_000}, "check-values", "start a session with more memory, or use a smaller batch_size."),
        ({"inputs": ["jepg"]}, "check-values", "inputs is ['jepg']; use some of synthetic, tfrecord, jpeg."),
        ({"data_folder": "nowhere"}, "prepare-data", "There is no data: nowhere has no folders, one for each class"),
    ],
)
def test_what_cannot_work_ends_early_with_one_sentence(values: dict[str, object], cell: str, words: str) -> None:
    folder = own_folder("resnet50-cannot")
    run = in_a_job(LESSON, folder, {**LEAST, **values})
    assert run.status != 0
    assert f"the cell {cell!r} failed with " in run.log
    assert words in run.log
    assert ": prove" not in run.log
    shutil.rmtree(folder)
