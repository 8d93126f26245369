"""The lessons on inference on their own kernel, in real Slurm jobs of a person: a network that is really trained,
really quantized, and really asked."""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forms import LONG
from tests.inside import sh
from tests.notebooks.jobs import ONE_GPU, PERSON, TEMPLATES, Run, finished_run, in_a_job, own_data, own_folder

PYTHON = "/cm/shared/apps/inference/1.0/bin/python"
REAL = Path("/usr/share/datasets/fashion-mnist")
SMALL = {"model": "small", "train_images": 30_000, "epochs": 2}
QUICK = {**SMALL, "batch_sizes": [1, 16], "seconds": 0.5}
# A bound far above what other work on this machine costs a query, so that only the queue breaks it.
LOAD = {**SMALL, "latency_bound_ms": 50, "seconds": 1.5}
NAMES = ["OpenVINO FP32", "OpenVINO INT8", "ONNX Runtime FP32", "ONNX Runtime INT8"]
STEP = re.compile(r"^(\S.*?) +([\d,.]+) queries/s +p50 +([\d.]+) ms +p99 +([\d.]+) ms +(good|too slow)$", re.MULTILINE)


@pytest.fixture(scope="module")
def measured() -> Iterator[Run]:
    """One run of the lesson on precisions, looked at by most tests; its trained network is used by the others."""
    with finished_run("inference/resnet50", "inference-lesson", QUICK) as run:
        yield run


@pytest.fixture(scope="module")
def served(measured: Run) -> Iterator[Run]:
    """One run of the server scenario, with the network that the first lesson trained.

    Other rings run meanwhile: a rate may be too high when they begin to work. The lesson says so, and goes no further.
    """
    load = {**LOAD, "work_folder": str(measured.folder / "inference-models")}
    with finished_run("inference/server", "inference-server", load, again_if="other work disturbs this machine") as run:
        yield run


def rows(text: str) -> dict[str, list[str]]:
    """The lines of a table, by what they begin with."""
    lines = (re.split(r" {2,}", line.strip()) for line in text.splitlines())
    return {name: values for name, *values in lines if values}


def test_the_network_is_trained_on_real_images(measured: Run) -> None:
    assert "Fashion-MNIST: 30,000 images to learn from, 10,000 to be tested on" in measured.text("load-data")
    printed = measured.text("train-model")
    assert re.search(r"Epoch 2 of 2: training accuracy 0\.\d{4}, \d+ s, [\d,]+ images/s", printed)
    accuracy = re.search(r"Accuracy on 2,000 test images (0\.\d{4})\nsmall: 78,426 weights", printed)
    assert accuracy
    assert float(accuracy[1]) >= 0.85


def test_int8_is_calibrated_on_as_many_batches_as_in_the_source(measured: Run) -> None:
    assert "Calibration on 50 batches of 25 images" in measured.text("quantize")


def test_the_int8_files_hold_small_whole_numbers(measured: Run) -> None:
    (openvino,) = (measured.folder / "inference-models").glob("*-int8.xml")
    (onnx,) = (measured.folder / "inference-models").glob("*-int8.onnx")
    assert openvino.read_text().count('element_type="i8"') >= 10
    assert openvino.read_text().count('type="FakeQuantize"') >= 10
    assert onnx.read_bytes().count(b"QuantizeLinear") >= 20
    fp32 = openvino.with_name(openvino.name.replace("-int8.xml", ".bin"))
    assert openvino.with_suffix(".bin").stat().st_size < 0.35 * fp32.stat().st_size


def test_every_version_has_its_accuracy_its_losses_and_its_agreement(measured: Run) -> None:
    table = rows(measured.text("measure-accuracy"))
    assert [name for name in table if name in NAMES] == NAMES
    for name in NAMES:
        _, top1, top5, loss1, _, agreement = table[name]
        assert 85 <= float(top1.rstrip("%")) <= float(top5.rstrip("%")) <= 100
        assert float(agreement) >= (0.999 if name.endswith("FP32") else 0.95)
        assert abs(float(loss1)) <= 1.5
    assert float(table["OpenVINO INT8"][-1]) < 1, "INT8 gives the very same answers: is it INT8?"


def test_every_version_has_its_speed_and_latency(measured: Run) -> None:
    table = rows(measured.text("measure-speed"))
    for name in NAMES:
        one, sixteen, p50, p99 = (float(value.replace(",", "")) for value in table[name])
        assert one > 0 < sixteen
        assert 0 < p50 <= p99
    assert len(measured.shown("plot", "image/png")) == 1


def test_it_says_what_was_not_run(measured: Run) -> None:
    printed = measured.text("find-devices")
    assert "TensorRT in FP32, FP16 and INT8: not run, there is no NVIDIA GPU here" in printed
    assert "FP16 on an Intel GPU: not run, there is none here" in printed
    ran_bf16 = "OpenVINO BF16" in rows(measured.text("measure-accuracy"))
    assert ("BF16 on the CPU: yes" in printed) == ran_bf16


def test_the_sources_figures_stand_beside_ours(measured: Run) -> None:
    table = rows(measured.text("table"))
    assert table["ResNet-50, TensorRT, V100"] == [
        "72.90%", "91.14%", "72.84%", "91.08%", "0.07", "2.5× to 3.5× below 64, 3.7× from 64 on",
    ]  # fmt: skip
    for runtime in ("OpenVINO", "ONNX Runtime"):
        assert re.fullmatch(r"\d+\.\d× at 1, \d+\.\d× at 16", table[f"small, {runtime}"][-1])
    assert "As expected: FP32 is not below 0.85" in measured.text("check")


if LONG:

    def test_calibration_on_the_wrong_images_fails(measured: Run) -> None:
        folder = own_folder("inference-wrong-calibration")
        no_training_images(folder / "data" / "fashion-mnist")
        models = shutil.copytree(measured.folder / "inference-models", folder / "models")
        sh("chown", "-R", PERSON, str(folder))
        few = {**QUICK, "batch_sizes": [1], "seconds": 0.1, "work_folder": str(models)}
        run = in_a_job("inference/resnet50", folder, few, [own_data(folder / "data")])
        assert run.status != 0
        assert "was trained before and is used again" in run.text("train-model")
        assert "the cell 'check' failed with AssertionError: OpenVINO INT8 loses " in run.log
        assert "are the calibration images like those of the test" in run.log
        shutil.rmtree(folder)

    def test_a_network_that_learned_nothing_fails_at_the_floor() -> None:
        folder = own_folder("inference-untaught")
        no_training_images(folder / "data" / "fashion-mnist")
        sh("chown", "-R", PERSON, str(folder))
        run = in_a_job("inference/server", folder, {**SMALL, "epochs": 1}, [own_data(folder / "data")])
        assert run.status != 0
        assert re.search(r"The accuracy is 0\.\d{4}, but 30,000 training images should give 0\.8 or more", run.log), (
            run.log
        )
        shutil.rmtree(folder)


def no_training_images(folder: Path) -> None:
    """Fashion-MNIST with empty images to learn from; the test images are the real ones."""
    folder.mkdir(parents=True)
    for file in REAL.glob("*.gz"):
        shutil.copy(file, folder)
    with gzip.open(folder / "train-images-idx3-ubyte.gz", "wb", compresslevel=1) as images:
        images.write(bytes(16 + 784 * 60_000))


def test_the_search_ends_at_a_rate_that_holds_and_a_higher_one_that_does_not(served: Run) -> None:
    for printed in served.text("find-rates").split("at most 50 ms")[1:]:
        steps = [(why, number(rate), number(p99), verdict) for why, rate, _, p99, verdict in STEP.findall(printed)]
        assert steps[0][0] == "first guess"
        assert all((p99 <= 50) == (verdict == "good") for _, _, p99, verdict in steps)
        good = next(step for step in reversed(steps) if step[3] == "good")
        above = steps[-1]
        assert above[3] == "too slow"
        assert above[1] == pytest.approx(1.5 * good[1], rel=0.01)
        assert re.search(rf"^(FP32|INT8): {good[1]:,.1f} queries/s$", printed, re.MULTILINE)
        assert any(step[3] == "too slow" and step[1] <= good[1] * 1.06 for step in steps[:-1])


def number(text: str) -> float:
    return float(text.replace(",", ""))


def test_the_server_answers_right_and_within_the_bound(served: Run) -> None:
    table = rows(served.text("table"))
    for name in ("FP32", "INT8"):
        rate, p50, p99, beyond, accuracy, answers = (number(value) for value in table[name])
        assert rate > 10
        assert p50 <= p99 <= 50 < beyond
        assert accuracy >= 0.83
        assert answers >= 500
    assert re.search(r"INT8 answers \d+\.\d\d times as many queries per second", served.text("table"))
    assert "and not at 1.5 times as many" in served.text("check")


def test_it_uses_the_network_of_the_other_lesson_and_draws_arrivals_and_load(served: Run) -> None:
    assert "was trained before and is used again" in served.text("make-model")
    assert len(served.shown("show-arrivals", "image/png")) == 1
    assert len(served.shown("plot", "image/png")) == 1


def test_bars_show_how_far_training_and_measurements_are(measured: Run) -> None:
    for cell in ("train-model", "measure-accuracy", "measure-speed"):
        assert measured.bars(cell) == [1.0], cell


def test_nothing_puzzling_is_printed_to_stderr(measured: Run, served: Run) -> None:
    for run in (measured, served):
        assert {name: noise for name, noise in run.stderr.items() if noise} == {}


def test_a_network_is_kept_through_no_link_that_others_left_in_its_folder(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("something else of hers")
    kept = tmp_path / "inference-models" / "small.keras"
    kept.parent.mkdir()
    kept.with_name(".small.keras").symlink_to(other)
    code = (
        f"import sys; sys.path.insert(0, {str(TEMPLATES / 'inference')!r}); from pathlib import Path; "
        f"import trained_model as own; own._keep(own.build('small'), Path({str(kept)!r}))"
    )
    subprocess.run([PYTHON, "-c", code], check=True, capture_output=True, timeout=180)
    assert other.read_text() == "something else of hers"
    assert kept.stat().st_size > 100_000
    assert not kept.is_symlink()


if LONG:

    @pytest.mark.parametrize("notebook", ["inference/resnet50", "inference/server"])
    def test_without_data_it_says_so_in_one_sentence_and_stops(notebook: str) -> None:
        folder = own_folder("inference-without-data")
        run = in_a_job(notebook, folder, {**SMALL, "data_set": "mnist"})
        assert run.status != 0
        assert "the cell 'load-data' failed with DataError: There is no data: mnist is in none of" in run.log
        shutil.rmtree(folder)

    def test_with_too_little_memory_it_says_so_in_one_sentence_and_stops() -> None:
        folder = own_folder("inference-without-memory")
        run = in_a_job("inference/resnet50", folder, {}, resources=[*ONE_GPU, "--mem=2000M"])
        assert run.status != 0
        assert (
            "the cell 'load-data' failed with LessonError: This session has 2,000 MiB of memory, but the model "
            "'resnet50' needs 8,000 MiB: start a session with more, or set model to small." in run.log
        )
        shutil.rmtree(folder)
