"""What all rings share."""

from __future__ import annotations

import functools

import httpx
import pytest
from httpx._transports import default

from tests.forms import LONG

# Each client of httpx (0.28) reads the world's authorities anew, which takes longer than a dozen of requests here.
default.create_ssl_context = functools.cache(httpx.create_ssl_context)  # type: ignore[attr-defined]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is of the long form alone (tests/forms.py), and have pytest count it."""
    left = [] if LONG else [item for item in items if item.get_closest_marker("long")]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if not item.get_closest_marker("long")]
