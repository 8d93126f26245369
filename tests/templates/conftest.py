"""A browser as in the browser ring, and the table of the templates as in the notebooks ring."""

from __future__ import annotations

import pytest

from portal.data import folder
from portal.notebooks import catalogue
from tests.browser.conftest import address, chromium, context, page
from tests.notebooks import table

__all__ = ["address", "chromium", "context", "page"]  # fixtures


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The table, on standard output and as a file."""
    rows = table.rows(catalogue(folder("notebooks")), table.RUNS, table.FAILED)
    (table.FOLDER / "templates.json").write_text(table.as_json(rows))
    terminalreporter.write_line(f"\nThe templates in a browser, with their own values\n\n{table.text(rows)}")
