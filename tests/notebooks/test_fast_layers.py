"""The parts of the fast ResNet50, in TensorFlow's environment: what they compute is what Keras's own compute."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.inside import sh
from tests.notebooks.jobs import PERSON, own_folder

WORKER = Path(__file__).with_name("fast_layers_worker.py")
LESSONS = Path(__file__).parents[2] / "notebooks" / "tensorflow"


@pytest.fixture(scope="module")
def result() -> Iterator[dict[str, Any]]:
    """What the worker found out."""
    folder = own_folder("fast-layers")
    script = f"module load shared shared/tensorflow && exec python {WORKER} {LESSONS} {folder}/model.keras"
    printed = sh("env", "-i", "PATH=/usr/bin:/bin", "bash", "-lc", script, user=PERSON, timeout_s=240)
    line = next(line for line in printed.splitlines() if line.startswith("RESULT "))
    yield json.loads(line.removeprefix("RESULT "))
    sh("rm", "-r", str(folder))


@pytest.mark.parametrize("way", ["plain", "momentum", "nesterov"])
def test_a_training_takes_the_same_steps_as_with_the_layers_and_the_optimizer_of_keras(
    result: dict[str, Any], way: str
) -> None:
    assert result["apart"][way] < 1e-12


def test_a_saved_network_of_fast_parts_loads_with_them_and_answers_the_same(result: dict[str, Any]) -> None:
    assert result["loaded"]["parts"] == ["PointwiseConvolution", "FusedBatchNormalization", "FusedSGD"]
    assert result["loaded"]["apart"] < 1e-6


def test_gradients_of_sixteen_bits_are_scaled_so_that_small_ones_are_not_lost(result: dict[str, Any]) -> None:
    half = result["half"]
    assert half["optimizers"] == ["LossScaleOptimizer", "FusedSGD"]
    assert half["learned"]
    assert all(0 < loss < 100 for loss in half["losses"])


def test_a_measurement_takes_as_many_steps_as_fill_its_time(result: dict[str, Any]) -> None:
    half = result["half"]
    assert half["seconds"] >= 0.8  # by the speed of its first steps, which are not all alike
    assert half["measured"] > 1
