"""A hub on each kind of database server, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.databases.servers import SERVERS, DatabaseServer
from tests.faults.conftest import roots_file
from tests.faults.hubs import FaultHub
from tests.hub.conftest import FOLDER, PORT, Person, alice, people

__all__ = ["alice", "people", "roots_file"]  # fixtures of other rings, on our hub


@pytest.fixture(scope="session", params=SERVERS, ids=[one.kind for one in SERVERS])
def server(request: pytest.FixtureRequest) -> Iterator[DatabaseServer]:
    """A server that runs."""
    ours: DatabaseServer = request.param()
    ours.prepare()
    yield ours
    ours.stop()


@pytest.fixture(scope="session")
def hub(server: DatabaseServer, roots_file: None) -> Iterator[FaultHub]:
    """A hub with real sessions on it."""
    ours = FaultHub(FOLDER, PORT, **server.settings())
    ours.prepare()
    ours.start()
    yield ours
    ours.stop()


@pytest.fixture
def bob(people: dict[str, Person]) -> Person:
    """Bob, logged in."""
    return people["bob"]
