"""The whole ring: no template of the catalogue is left out. It runs last (conftest.py)."""

from __future__ import annotations

from portal.data import folder
from portal.notebooks.catalogue import templates
from tests.notebooks import table


def test_every_template_of_the_catalogue_ran_to_its_end() -> None:
    rows = table.rows(templates(folder("notebooks")), table.RUNS, {})
    assert rows
    assert {row.template: row.result for row in rows if row.result != "passed"} == {}
