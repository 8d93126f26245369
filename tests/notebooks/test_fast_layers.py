"""The ResNet50 lesson's network and its fast parts, in TensorFlow's environment: they compute what Keras's own do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.forms import LONG
from tests.inside import sh
from tests.notebooks.jobs import PERSON, own_folder

WORKER = Path(__file__).with_name("fast_layers_worker.py")
PARTS = ("proof", "saved", "mirrored", *(("standard", "half") if LONG else ()))
LESSONS = Path(__file__).parents[2] / "notebooks" / "tensorflow"


@pytest.fixture(scope="module")
def result() -> Iterator[dict[str, Any]]:
    """What the worker found out."""
    folder = own_folder("fast-layers")
    script = f"module load shared shared/tensorflow && exec python {WORKER} {LESSONS} {folder} {' '.join(PARTS)}"
    printed = sh("env", "-i", "PATH=/usr/bin:/bin", "bash", "-lc", script, user=PERSON, timeout_s=600)
    line = next(line for line in printed.splitlines() if line.startswith("RESULT "))
    yield json.loads(line.removeprefix("RESULT "))
    sh("rm", "-r", str(folder))


@pytest.mark.parametrize("way", ["plain", "momentum", "nesterov"])
def test_a_training_takes_the_same_steps_as_with_the_layers_and_the_optimizer_of_keras(
    result: dict[str, Any], way: str
) -> None:
    assert result["ways"][way]["moved"] > 1e-3
    assert result["ways"][way]["apart"] < 1e-12


def test_the_lessons_network_takes_the_same_step_with_fast_parts_and_without(result: dict[str, Any]) -> None:
    assert result["proof"]["loss"] < 1e-4
    assert result["proof"]["moving"] < 1e-3  # the part that goes wrong most easily: a sample's variance is 3 % larger
    assert result["proof"]["weights"] < 0.05  # rounded in another order, by 14 layers


def test_a_network_that_was_trained_with_fast_parts_opens_without_them_and_answers_the_same(
    result: dict[str, Any],
) -> None:
    assert result["saved"]["optimizer"] == "keras.src.optimizers.sgd", result["saved"]["errors"]
    assert result["saved"]["apart"] < 1e-5


def test_two_devices_keep_the_same_weights_and_learn_what_plain_keras_does(result: dict[str, Any]) -> None:
    assert result["mirrored"]["copies"] == 2
    assert result["mirrored"]["copies apart"] == 0
    assert result["mirrored"]["apart from plain"] < 1e-3


if LONG:

    def test_kerass_own_weights_load_and_give_its_scores_as_v1_alone(result: dict[str, Any]) -> None:
        assert result["standard"]["apart"]["v1, 7"] < 1e-4
        assert result["standard"]["apart"]["v1.5, 7"] > 0.01
        assert result["standard"]["other classes"] == [8, 9]
        assert result["standard"]["weights"] == 25_557_032  # as torchvision counts them

    def test_gradients_of_sixteen_bits_are_scaled_so_that_small_ones_are_not_lost(result: dict[str, Any]) -> None:
        half = result["half"]
        assert half["optimizers"] == ["LossScaleOptimizer", "SGD", "momentum_step"]
        assert half["learned"]
        assert all(0 < loss < 100 for loss in half["losses"])

    def test_a_measurement_takes_as_many_steps_as_fill_its_time(result: dict[str, Any]) -> None:
        half = result["half"]
        assert half["seconds"] >= 0.8  # by the speed of its first steps, which are not all alike
        assert half["measured"] > 1
