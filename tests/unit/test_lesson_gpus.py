"""What Slurm gave and what a framework sees: counted from the job's variables, and one sentence where they differ."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from portal.lessons import SHARED, lesson_gpus

NODE = {"SLURM_JOB_ID": "7", "SLURM_GPUS_ON_NODE": "4"}
FILE = SHARED["lesson_gpus.py"]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        ({"CUDA_VISIBLE_DEVICES": "0,1"}, None),  # no job of Slurm
        (NODE, 4),
        ({"SLURM_JOB_ID": "7"}, 0),
        ({"SLURM_JOB_ID": "7", "SLURM_GPUS_ON_NODE": ""}, 0),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "2,3"}, 2),
        ({"SLURM_JOB_ID": "7", "SLURM_STEP_GPUS": "3", "SLURM_JOB_GPUS": "2,3"}, 1),
        ({"SLURM_JOB_ID": "7", "SLURM_SHARDS_ON_NODE": "8", "CUDA_VISIBLE_DEVICES": "0"}, 1),
    ],
)
def test_what_slurm_gave_is_told_by_the_variables_of_the_job(variables: dict[str, str], expected: int | None) -> None:
    assert lesson_gpus.given(variables) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0,1", ["0", "1"]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("0,-1,2", ["0"]),
        ("GPU-1a, MIG-2b", ["GPU-1a", "MIG-2b"]),
    ],
)
def test_cuda_shows_the_gpus_up_to_the_first_that_it_does_not_know(value: str, expected: list[str]) -> None:
    assert lesson_gpus.visible({"CUDA_VISIBLE_DEVICES": value}) == expected
    assert lesson_gpus.visible({}) is None


def test_nothing_is_said_where_all_are_seen_or_there_is_no_job() -> None:
    assert lesson_gpus.sentence("PyTorch", 4, 4, NODE) == ""
    assert lesson_gpus.sentence("PyTorch", 0, 0, {"SLURM_JOB_ID": "7"}) == ""
    assert lesson_gpus.sentence("PyTorch", 1, None, {}) == ""


@pytest.mark.parametrize(
    ("seen", "more", "built", "expected"),
    [
        (
            0,
            {},
            "CPUs",
            "sees 0: this kernel's environment is built for CPUs. Choose a kernel for GPUs, or ask your adm",
        ),
        (0, {}, "CUDA 13.0", "is built for CUDA 13.0, but cannot use this node's driver or GPUs. Choose a kernel for"),
        (0, {}, "", "sees 0: this kernel's environment is built for CPUs, or cannot use this node's driver. Choose"),
        (
            2,
            {"CUDA_VISIBLE_DEVICES": "0,1"},
            "CUDA 13.0",
            "sees 2: CUDA_VISIBLE_DEVICES is '0,1', which hides the others",
        ),
        (0, {"CUDA_VISIBLE_DEVICES": ""}, "CPUs", "sees 0: CUDA_VISIBLE_DEVICES is '', which hides the others."),
        (
            1,
            {"CUDA_VISIBLE_DEVICES": "a,b,c,d"},
            "CUDA 13.0",
            "sees 1: one of them does not answer, or they are parts of",
        ),
        (
            8,
            {},
            "CUDA 13.0",
            "sees 8: nothing keeps the jobs of this node from each other's GPUs. Tell your administrator",
        ),
    ],
)
def test_the_sentence_says_why_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, seen: int, more: dict[str, str], built: str, expected: str
) -> None:
    monkeypatch.setattr(lesson_gpus, "DRIVERS", ["/proc"])
    said = lesson_gpus.sentence("PyTorch", seen, 4, NODE | more, built)
    assert said.startswith("Slurm gave this job 4 GPUs, but PyTorch sees ")
    assert expected in said
    assert said.endswith((".", ")."))


@pytest.mark.parametrize("built", ["CPUs", "CUDA 13.0", ""])
def test_a_node_without_a_driver_is_named_before_the_environment(monkeypatch: pytest.MonkeyPatch, built: str) -> None:
    """As in the demo, whose GPUs are devices with nothing behind them."""
    monkeypatch.setattr(lesson_gpus, "DRIVERS", ["/proc/driver/of-nobody"])
    said = lesson_gpus.sentence("TensorFlow", 0, 1, NODE, built)

    assert "sees 0: this node has no driver of a GPU. In the portal's demo GPUs are emulated" in said
    assert "environment" not in said


def test_a_lesson_prints_the_sentence_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    lesson_gpus.compare("PyTorch", 1, {"SLURM_JOB_ID": "7", "SLURM_GPUS_ON_NODE": "1"})
    assert capsys.readouterr().out == ""
    lesson_gpus.compare("PyTorch", 0, {"SLURM_JOB_ID": "7", "SLURM_GPUS_ON_NODE": "1"})
    assert capsys.readouterr().out.startswith("Slurm gave this job 1 GPU, but PyTorch sees 0: ")


def frameworks(folder: Path) -> dict[str, str]:
    """Packages that look like three frameworks, one of them for GPUs; the environment in which a Python has them."""
    texts = {
        "tensorflow/__init__.py": "raise RuntimeError('it is not imported')",
        "tensorflow/python/platform/build_info.py": "build_info = {'is_cuda_build': False, 'is_rocm_build': False}",
        "torch/__init__.py": "__version__ = '2.13.0'\nprint('noise', end='')\n"
        "class cuda:\n    device_count = staticmethod(lambda: 2)",
        "torch/version.py": "cuda = '13.0'\nhip = None",
        "jax/__init__.py": "raise OSError('libcudart.so.13 is not there')",
        "jax_cuda13_plugin/__init__.py": "",
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return {**os.environ, "PYTHONPATH": str(folder)}


def asked(environ: dict[str, str], *words: str) -> SimpleNamespace:
    """As ``portal kernels test`` asks a kernel's Python: the text of the file, not its place."""
    argv = [sys.executable, "-c", FILE.read_text(), *words]
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=False)
    answer: Any = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None
    return SimpleNamespace(answer=answer, errors=done.stderr)


def test_what_a_framework_is_built_for_is_read_without_importing_it(tmp_path: Path) -> None:
    found = asked(frameworks(tmp_path), "built")
    assert found.answer == {"TensorFlow": "CPUs", "PyTorch": "CUDA 13.0", "JAX": "CUDA 13"}


def test_a_framework_is_asked_for_its_gpus_whatever_it_prints(tmp_path: Path) -> None:
    environ = frameworks(tmp_path)
    assert asked(environ, "PyTorch").answer == {"seen": 2, "version": "2.13.0"}
    assert asked(environ, "JAX").errors.splitlines()[-1] == "OSError: libcudart.so.13 is not there"


def test_onnx_runtime_has_the_gpus_on_which_a_network_of_one_copy_runs() -> None:
    class Library:
        """Two GPUs; for a third it takes the CPU and says nothing, as ONNX Runtime does."""

        @staticmethod
        def get_available_providers() -> list[str]:
            return ["CUDAExecutionProvider", "CPUExecutionProvider"]

        @staticmethod
        def InferenceSession(model: bytes, providers: list[Any]) -> Any:
            ((_, options),) = providers
            used = ["CUDAExecutionProvider"] if options["device_id"] < 2 else []
            return SimpleNamespace(get_providers=lambda: [*used, "CPUExecutionProvider"])

    assert lesson_gpus._count_onnxruntime(Library) == 2
    cpu = SimpleNamespace(get_available_providers=lambda: ["CPUExecutionProvider"])
    assert lesson_gpus._count_onnxruntime(cpu) == 0
