"""The notebooks ring's kernels, its table, and its last test, which needs the whole ring."""

from __future__ import annotations

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


@pytest.fixture(scope="session", autouse=True)
def _kernels() -> None:  # private: the table's unit tests take all public names into rings without a cluster
    """The site's kernelspecs, as the demo writes them at its start."""
    sh(str(VENV_BIN / "portal"), "kernels", "sync", "--site", str(SITE_FILE))


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Remember that -k or the like took tests out."""
    items[0].config.stash[NARROWED] = True


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The test of the whole ring comes last; it is left out where only a part of the ring was asked for."""
    last = [item for item in items if item.name == LAST]
    items[:] = [item for item in items if item.name != LAST]
    if last and not config.stash.get(NARROWED, False) and _names_the_ring(config, last[0].path.parent):
        items.extend(last)
    elif last:
        config.hook.pytest_deselected(items=last)


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
    if table.RUNS:
        rows = table.rows(templates(folder("notebooks")), table.RUNS, table.FAILED)
        (table.FOLDER / "notebooks.json").write_text(table.as_json(rows))
        terminalreporter.write_line(f"\nThe templates\n\n{table.text(rows)}")
