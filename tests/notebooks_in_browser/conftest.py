"""A browser as in the browser ring, and the table of the templates as in the notebooks ring."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from portal.data import folder
from portal.notebooks.catalogue import templates
from tests.browser.conftest import address, chromium, context, page
from tests.notebooks import table

__all__ = ["address", "chromium", "context", "page"]  # fixtures


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A test that fails counts against its template."""
    report = yield
    template = getattr(item, "funcargs", {}).get("template")
    if report.failed and template:  # type: ignore[attr-defined]
        table.record_failure(item.nodeid, [template.name])
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The table, on standard output and as a file."""
    rows = table.rows(templates(folder("notebooks")), table.RUNS, table.FAILED)
    (table.FOLDER / "notebooks_in_browser.json").write_text(table.as_json(rows))
    terminalreporter.write_line(f"\nThe notebook templates in a browser, with their own values\n\n{table.text(rows)}")
