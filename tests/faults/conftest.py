"""The fault suite's hubs, people and table."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.faults.census import queued
from tests.faults.hubs import FaultHub, StubHub, small
from tests.faults.table import FOLDER, Row, table
from tests.forms import LONG
from tests.hub.conftest import Person, alice, people
from tests.inside import SITE_FILE, eventually, settings, sh

__all__ = ["alice", "people"]  # fixtures of the hub's ring, on our hub
ROWS = pytest.StashKey[list[Row]]()


@pytest.fixture(scope="session")
def roots_file() -> Iterator[None]:
    """Small sessions in root's settings file too: the launcher holds every session to it, of either hub."""
    with settings(small(SITE_FILE.read_text())):
        yield


@pytest.fixture(scope="session")
def hub(roots_file: None) -> Iterator[FaultHub]:
    """One hub with real sessions for the whole ring."""
    ours = FaultHub()
    ours.prepare()
    ours.start()
    yield ours
    ours.stop()


@pytest.fixture
def bob(people: dict[str, Person]) -> Person:
    """Bob, logged in."""
    return people["bob"]


@pytest.fixture(scope="module")
def stubs(roots_file: None) -> Iterator[StubHub]:
    """One hub with stub sessions."""
    ours = StubHub()
    ours.prepare()
    ours.start_answering()
    ours.start()
    yield ours
    ours.stop()
    ours.stop_answering()
    for jobs in queued(ours.number).values():
        sh("scancel", *jobs)
    eventually(lambda: not queued(ours.number), "no job of a stub session is left", within_s=60)


@pytest.fixture
def client(stubs: StubHub) -> Iterator[httpx.Client]:
    """A connection to the hub with stub sessions."""
    with stubs.client() as opened:
        yield opened


@pytest.fixture
def row(request: pytest.FixtureRequest) -> Iterator[Row]:
    """This test's row in the table; a test that ends well marks it itself by leaving without an error."""
    made = Row(request.node.name)
    request.config.stash.setdefault(ROWS, []).append(made)
    yield made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A row says "as promised" only when its test ended without an error."""
    yield
    row = getattr(item, "funcargs", {}).get("row")
    if isinstance(row, Row):
        row.result = "as promised"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The table, on standard output and as a file."""
    rows = config.stash.get(ROWS, [])
    if rows:
        text = f"The fault suite, {'long' if LONG else 'short'} form\n\n{table(rows)}"
        (FOLDER / "faults.txt").write_text(text)
        terminalreporter.write_line(f"\n{text}")
