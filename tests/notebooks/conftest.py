"""The notebooks ring's kernels, its two parts, its table, and its last test, which needs the whole ring."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from portal.data import folder
from portal.notebooks.catalogue import templates
from tests.inside import SITE_FILE, VENV_BIN, sh
from tests.notebooks import table
from tests.notebooks.jobs import Run

LAST = "test_every_template_of_the_catalogue_ran_to_its_end"
NARROWED = pytest.StashKey[bool]()
# The first seconds of a job are one process that imports, so `make test` runs the ring in two parts at the same time,
# each as a person of its own. These files are the second part, half of the time; all others are the first.
SECOND_PART = {
    "test_bigger_than_memory.py",
    "test_build.py",
    "test_checkpoint_resume.py",
    "test_cluster_lessons.py",
    "test_dask.py",
    "test_ddp.py",
    "test_fast_layers.py",
    "test_horovod.py",
    "test_horovod_lesson.py",
    "test_horovod_resnet50.py",
    "test_horovod_torch.py",
    "test_llm.py",
    "test_ray.py",
}


@pytest.fixture(scope="session", autouse=True)
def _kernels() -> None:  # private: the table's unit tests take all public names into rings without a cluster
    """The site's kernelspecs, as the demo writes them at its start."""
    with (table.FOLDER / "kernels-sync.lock").open("w") as lock:  # the parts of the ring come one after the other
        fcntl.flock(lock, fcntl.LOCK_EX)
        sh(str(VENV_BIN / "portal"), "kernels", "sync", "--site", str(SITE_FILE))


def pytest_configure() -> None:
    """The look at the whole ring knows what its parts ran."""
    if table.PART == table.WHOLE:
        table.take_parts()


def pytest_unconfigure() -> None:
    """What a part of the ring ran is kept for the look at the whole."""
    if table.PART in table.PARTS:
        table.keep_part()


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Remember that -k or the like took tests out; what the long form has alone is in none of the short one."""
    if [item for item in items if not item.get_closest_marker("long")]:
        items[0].config.stash[NARROWED] = True


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The test of the whole ring comes last; it is left out where only a part of the ring was asked for."""
    last = [item for item in items if item.name == LAST]
    items[:] = [item for item in items if item.name != LAST and table.PART in ("", _part_of(item))]
    if table.PART in table.PARTS:
        return
    if last and not config.stash.get(NARROWED, False) and _names_the_ring(config, last[0].path.parent):
        items.extend(last)
    elif last:
        config.hook.pytest_deselected(items=last)


def _part_of(item: pytest.Item) -> str:
    """The part of the ring that a test belongs to."""
    return table.PARTS[item.path.name in SECOND_PART]


def _names_the_ring(config: pytest.Config, ring: Path) -> bool:
    """Whether pytest was given the ring's folder or one above it, not single files or tests."""
    given = [config.invocation_params.dir / name for name in config.args]
    return any(ring.is_relative_to(path.resolve()) for path in given)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A test that fails counts against the templates that it is about."""
    report = yield
    if report.failed:  # type: ignore[attr-defined]
        looked_at = [value.notebook for value in getattr(item, "funcargs", {}).values() if isinstance(value, Run)]
        table.record_failure(item.nodeid, looked_at)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The table, on standard output and as a file."""
    if table.RUNS and table.PART not in table.PARTS:
        rows = table.rows(templates(folder("notebooks")), table.RUNS, table.FAILED)
        (table.FOLDER / "notebooks.json").write_text(table.as_json(rows))
        terminalreporter.write_line(f"\nThe templates\n\n{table.text(rows)}")
