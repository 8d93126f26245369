"""What the lessons on inference check before they begin: data, memory, and what a training has to reach."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from portal.lessons import lesson_images
from tests.lessons import module_of
from tests.unit.test_lesson_images import data_set


@pytest.fixture
def lesson(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.setitem(sys.modules, "lesson_images", lesson_images)  # which lies beside it
    with module_of("inference/lesson_data.py") as module:
        yield module


def test_images_come_as_numbers_from_0_to_255_with_their_labels(lesson: ModuleType, tmp_path: Path) -> None:
    data_set(tmp_path / "mnist")
    data = lesson.load_data("mnist", {"DATASET_PATH": str(tmp_path)})
    assert data.title == "MNIST"
    assert data.x_train.shape == data.x_test.shape == (3, 28, 28, 1)
    assert str(data.x_test.dtype) == "float32"
    assert [float(image.max()) for image in data.x_train] == [0, 1, 2]
    assert list(data.y_test) == [0, 1, 2]


@pytest.mark.parametrize(("given", "expected"), [({}, 8_000), ({"SLURM_MEM_PER_NODE": "4000"}, 4_000),
                                                 ({"SLURM_MEM_PER_NODE": "49152"}, 8_000)])  # fmt: skip
def test_memory_is_what_slurm_gave_and_no_more_than_is_free(
    lesson: ModuleType, tmp_path: Path, given: dict[str, str], expected: int
) -> None:
    (tmp_path / "meminfo").write_text(f"MemTotal: 99 kB\nMemAvailable:   {8_000 << 10} kB\n")
    assert lesson.memory_mib(given, tmp_path / "meminfo") == expected


def test_too_little_memory_is_told_with_a_way_out(lesson: ModuleType) -> None:
    lesson.check_memory("small", 3_000)
    with pytest.raises(lesson.LessonError, match=r"has 7,999 MiB .* 'resnet50' needs 8,000 MiB.*or set model to small"):
        lesson.check_memory("resnet50", 7_999)
    with pytest.raises(lesson.LessonError, match=r"'small' needs 3,000 MiB: start a session with more\.$"):
        lesson.check_memory("small", 1_000)
    with pytest.raises(lesson.LessonError, match="model is 'vgg'; use 'small' or 'resnet50'"):
        lesson.check_memory("vgg", 99_000)


def test_a_network_must_reach_more_the_more_it_has_seen(lesson: ModuleType) -> None:
    for (kind, name), floors in lesson.FLOORS.items():
        assert list(floors) == sorted(floors)
        assert list(floors.values()) == sorted(floors.values())
        assert lesson.floor(kind, name, 0) == 0.10
        assert lesson.floor(kind, name, 60_000) >= 0.8
    with pytest.raises(lesson.LessonError, match=r"accuracy is 0\.8000, but 60,000 training images should give 0\.8"):
        lesson.check_accuracy("resnet50", "fashion-mnist", 60_000, 0.80)
    lesson.check_accuracy("resnet50", "fashion-mnist", 60_000, 0.90)


@pytest.mark.parametrize(
    ("flags", "capability", "expected"),
    [
        ("flags: avx2 avx512f", None, "float32"),
        ("flags: avx512f avx512_bf16 amx_bf16", None, "mixed_bfloat16"),
        ("flags: avx512_bf16", (7, 0), "float32"),
        ("flags: avx2", (8, 0), "mixed_bfloat16"),
    ],
)
def test_training_takes_bfloat16_where_the_hardware_computes_in_it(
    lesson: ModuleType, flags: str, capability: tuple[int, int] | None, expected: str
) -> None:
    assert lesson.policy(flags, capability) == expected
