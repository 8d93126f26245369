"""Values that the unit tests share."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from portal.site import Identity, Site, parse

EXAMPLE = Path(__file__).parents[2] / "deploy" / "site" / "site.toml.example"


@pytest.fixture
def tables() -> dict[str, Any]:
    """The tables of the example settings, free to be spoiled."""
    return tomllib.loads(EXAMPLE.read_text())


@pytest.fixture
def site(tables: dict[str, Any]) -> Site:
    """The example site."""
    return parse(tables)


@pytest.fixture
def alice() -> Identity:
    """Somebody without special groups."""
    return Identity("alice", frozenset({"jupyter"}))
