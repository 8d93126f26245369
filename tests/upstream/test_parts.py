"""That JupyterHub's tests look at the portal's parts, and that the table of differences is held to be exact."""

from __future__ import annotations

import warnings

import pytest
from jupyterhub.tests import conftest, mocking, test_spawner

from portal.hub.app import PortalHub
from spawners.slurm import SlurmSessionSpawner
from tests.upstream.differences import Difference, fault

LISTED = Difference("options are checked", "assert 400 == 201")


def test_the_mocks_of_jupyterhubs_tests_are_the_portals_hub_and_spawner() -> None:
    assert issubclass(conftest.MockHub, PortalHub)
    assert issubclass(test_spawner.SimpleLocalProcessSpawner, SlurmSessionSpawner)
    for name in ("MockSpawner", "SlowSpawner", "NeverSpawner", "BadSpawner", "SlowBadSpawner", "FormSpawner"):
        assert issubclass(getattr(mocking, name), SlurmSessionSpawner), name


@pytest.mark.parametrize(
    ("known", "error", "expected"),
    [
        (None, None, ""),
        (LISTED, AssertionError("assert 400 == 201\n +  where 400 = <Response [400]>.status_code"), ""),
        (None, AssertionError("assert 500 == 201"), "differs, and has no line in"),
        (LISTED, AssertionError("assert 500 == 201"), "differs in another way than its line in"),
        (LISTED, None, "passes: take its line out of"),
    ],
)
def test_a_test_that_differs_has_its_line_and_one_that_passes_has_none(
    known: Difference | None, error: Exception | None, expected: str
) -> None:
    assert fault(known, error).startswith(expected)
    assert bool(fault(known, error)) is bool(expected)


def test_what_another_run_takes_away_at_the_same_time_ends_no_run() -> None:
    """As in the unit ring, whose settings are others: this ring runs beside it."""
    warnings.warn(pytest.PytestWarning("(rm_rf) error removing /tmp/of-another: not empty"), stacklevel=1)
