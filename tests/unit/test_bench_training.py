"""`portal bench training` and the measuring of the ResNet50 lessons: what is computed out of what was counted."""

from __future__ import annotations

import json
import os
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.bench.benches import bench_of
from tests.bench.result_table import table
from tests.bench.training import comparison
from tests.lessons import module_of

ROOT = Path(__file__).parents[2]
ASKED = Namespace(batch_size=16, image_size=224, steps=3, rounds=5, only="")


@pytest.fixture(scope="module")
def measuring() -> Iterator[ModuleType]:
    """The module of the lessons that needs nothing but Python."""
    with module_of("tensorflow/measuring.py") as module:
        yield module


# -- the bench ------------------------------------------------------------------------------------------


def stack(key: str, *rounds: tuple[int, float]) -> Any:
    """A script that ran these rounds of (images, seconds)."""
    return comparison.Stack(key, "shared/a", "a.py", "float32", list(rounds))


def test_the_speed_is_all_images_by_all_seconds_not_the_mean_of_speeds_nor_the_best() -> None:
    assert stack("ours", (48, 2.0), (48, 6.0)).images_per_s == 12.0


def test_ours_is_compared_with_the_fastest_of_the_plain_ones() -> None:
    found = comparison.figures(
        [
            stack("ours", (48, 3.0), (48, 5.0)),
            stack("slow", (48, 48.0)),
            stack("fast", (48, 3.0), (48, 3.0)),
        ]
    )

    assert found["plain"] == {"slow": 1.0, "fast": 16.0}
    assert found["ours"] == {
        "images_per_s": 12.0,
        "slowest_round_images_per_s": 9.6,
        "fastest_round_images_per_s": 16.0,
        "fastest_plain_images_per_s": 16.0,
        "ratio": 0.75,
    }


@pytest.mark.parametrize(("ratio", "note"), [(0.999, "missed"), (1.0, ""), (1.2, "")])
def test_a_ratio_below_one_misses_the_aim_in_the_table(ratio: float, note: str) -> None:
    plain = {"keras_float32": 6.0, "keras_bfloat16": 8.0, "torch_float32": 4.0, "torch_bfloat16": 10.0}
    ours = {"images_per_s": 10 * ratio, "fastest_plain_images_per_s": 10.0, "ratio": ratio}
    figures = {"bench": "training", "options": vars(ASKED), "cores": 2, "ours": ours, "stock": {}, "plain": plain}
    lines = [line.rstrip() for line in table(json.loads(json.dumps(figures))).splitlines()]

    (ratio_line,) = [line for line in lines if line.startswith("ratio to the fastest plain script")]
    assert ratio_line.endswith(note or "≥ 1.0")
    assert any(line.startswith("PyTorch, channels_last and bfloat16 autocast") and "10.00" in line for line in lines)
    assert "plain scripts, images a second" in lines


def test_every_figure_that_the_bench_gives_has_a_row() -> None:
    found = comparison.figures([stack(one.key, (1, 1.0)) for one in comparison.stacks()])
    bench = bench_of("training")

    assert set(found["ours"]) == {row.key for row in bench.rows}
    assert bench.part
    assert set(found[bench.part.key]) == {row.key for row in bench.part.rows}


def test_only_ours_trains_nothing_else_and_compares_with_nothing() -> None:
    assert [one.key for one in comparison.stacks(only_ours=True)] == ["ours"]
    found = comparison.figures([stack("ours", (48, 2.0))])

    assert found["plain"] == {}
    assert not {"ratio", "fastest_plain_images_per_s"} & set(found["ours"])


def test_each_round_begins_with_another_script_and_runs_all() -> None:
    rounds = [comparison.turns(["a", "b", "c"], number) for number in range(4)]

    assert rounds == [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"], ["a", "b", "c"]]


def test_all_scripts_get_the_same_batch_and_image_size() -> None:
    commands = [one.command(ASKED)[-1] for one in comparison.stacks()]

    assert len(commands) == 5
    assert all("--batch-size=16 --image-size=224" in command for command in commands)
    assert all(command.startswith("module load shared shared/") for command in commands)
    assert all((ROOT / "tests/bench/training" / f"{one.script}.py").is_file() for one in comparison.stacks())


def test_too_little_memory_for_all_models_is_said_before_they_start() -> None:
    comparison.check_memory(ASKED, "MemAvailable:   20000000 kB\n", 5)
    with pytest.raises(
        RuntimeError, match=r"5 models take about 16900 MiB, 1953 MiB are free: ask for a smaller batch"
    ):
        comparison.check_memory(ASKED, "MemAvailable:   2000000 kB\n", 5)


class Script:
    """A stack that runs a line of Python."""

    def __init__(self, code: str) -> None:
        self.stack = stack("quick")
        self.stack.command = lambda options: [sys.executable, "-c", code]


ANSWERS = """
import sys
print("a library's notice")
print('{"ready": true}', flush=True)
for line in sys.stdin:
    print("another notice")
    print('{"seconds": %s}' % float(line), flush=True)
"""


def test_a_script_is_asked_for_steps_and_what_libraries_print_is_passed_over() -> None:
    quick = Script(ANSWERS).stack

    with comparison.script(quick, ASKED) as process:
        assert comparison.ask(quick, process, 3) == {"seconds": 3.0}
        assert comparison.ask(quick, process, 5) == {"seconds": 5.0}
    assert process.poll() is not None


def test_a_script_that_ends_early_is_named_with_its_last_words() -> None:
    broken = Script("raise SystemExit('no module torch')").stack

    words = r"quick \(a\.py with shared/a\) ended with 1: no module torch"
    with pytest.raises(RuntimeError, match=words), comparison.script(broken, ASKED):
        pass


# -- the lessons' measuring -----------------------------------------------------------------------------


def test_images_a_second_are_the_mean_of_all_iterations_after_the_warm_up(measuring: Any) -> None:
    ends = [30.0, 40.0, 41.0, 43.0, 47.0]  # two to warm up, then 1, 2 and 4 seconds

    assert measuring.images_per_s(0.0, ends, batch_size=14, warm_up=2) == 3 * 14 / 7.0
    assert measuring.images_per_s(27.0, ends, batch_size=20, warm_up=0) == 5 * 20 / 20.0


def test_a_warm_up_that_leaves_nothing_is_an_error(measuring: Any) -> None:
    with pytest.raises(ValueError, match="2 iterations with a warm-up of 2: none is left to measure"):
        measuring.images_per_s(0.0, [1.0, 2.0], batch_size=1, warm_up=2)


def test_the_throughput_needed_is_that_of_the_sources(measuring: Any) -> None:
    assert measuring.needed_mb_per_s(2940, 113_000) * 8 == pytest.approx(2658, rel=1e-3)


def test_the_use_of_all_gpus_is_added_up_and_half_a_line_is_left_out(measuring: Any) -> None:
    assert measuring.gpu_percent("0, 90\n1, 100\n0, 100\n1, 80\n0, 1") == 95 + 90
    assert measuring.gpu_percent("no device was found\n") is None


def test_cores_and_bytes_are_those_between_start_and_stop(measuring: Any, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(os.urandom(5_000_000))
    meter = measuring.Meter()
    file.read_bytes()
    meter.start()
    file.read_bytes()
    until = time.process_time() + 0.2
    while time.process_time() < until:
        pass
    use = meter.stop()

    assert 5_000_000 <= use.read_mb_s * use.seconds * 1_000_000 < 5_200_000
    assert 0 < use.cores <= (os.cpu_count() or 1) + 0.5  # threads of other tests count as well
    assert use.gpu_percent is None


def test_stopping_what_never_started_is_an_error(measuring: Any) -> None:
    with pytest.raises(RuntimeError, match=r"start\(\) comes before stop\(\)"):
        measuring.Meter().stop()


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    """Control groups of both versions, with limits of 48, 2 and 6 GiB."""
    first = tmp_path / "memory" / "slurm" / "job_7"
    second = tmp_path / "slice" / "job"
    for folder in (first, second):
        folder.mkdir(parents=True)
    (first / "memory.stat").write_text(f"cache 1\nhierarchical_memory_limit {48 << 30}\n")
    (second / "memory.max").write_text("max\n")
    (second.parent / "memory.max").write_text(f"{2 << 30}\n")
    return tmp_path


def test_the_memory_limit_of_a_job_is_read_from_both_kinds_of_control_groups(measuring: Any, groups: Path) -> None:
    assert measuring.control_group_limits("4:cpu:/x\n3:memory:/slurm/job_7\n", groups) == [48 << 10]
    assert measuring.control_group_limits("0::/slice/job\n", groups) == [2 << 10]
    assert measuring.control_group_limits("3:memory:/elsewhere\n0::/\n", groups) == []


def test_a_job_may_take_no_more_than_slurm_gave_it(measuring: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_MEM_PER_NODE", "100")

    assert measuring.memory_mib() == 100


def test_more_images_larger_ones_and_float32_need_more_memory(measuring: Any) -> None:
    small = measuring.training_memory_mib(8, 64, "mixed")

    assert small < measuring.training_memory_mib(16, 64, "mixed") < measuring.training_memory_mib(16, 224, "mixed")
    assert measuring.training_memory_mib(16, 224, "mixed") < measuring.training_memory_mib(16, 224, "float32")


def test_a_deeper_network_needs_more_memory_for_its_blocks_and_a_short_one_less(measuring: Any) -> None:
    needed = {
        name: measuring.training_memory_mib(16, 224, "float32", blocks)
        for name, blocks in {"50": [3, 4, 6, 3], "101": [3, 4, 23, 3], "14": [1, 1, 1, 1]}.items()
    }

    assert needed["50"] == measuring.training_memory_mib(16, 224, "float32")
    assert 1.4 < (needed["101"] - 1300) / (needed["50"] - 1300) < 1.8  # most of its blocks are of a late stage
    assert needed["14"] < needed["50"]
