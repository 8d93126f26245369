"""docs/explanation/sites.md: every row says one of three things, and what it names as its proof is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests import run

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "sites.md"
HEADER = ["shape", "known", "what runs it"]
KNOWN = {"works", "refused", "not tried"}
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def rows() -> list[list[str]]:
    """The cells of each row of each table."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|") and not line.startswith("|---")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row != HEADER]


def is_there(proof: str) -> bool:
    """Whether a command or a test of the last column exists."""
    if found := re.fullmatch(r'make ([a-z-]+)(?: TESTS="?([a-z ]+)"?)?', proof):
        rings = set((found[2] or "").split())
        return found[1] in TARGETS and rings <= {ring.name for ring in run.RINGS}
    file, _, name = proof.partition("::")
    path = ROOT / file
    if not re.fullmatch(r"tests/[a-z_]+/test_[a-z_]+\.py", file) or not path.is_file():
        return False
    return not name or name in names_in(path)


def names_in(path: Path) -> set[str]:
    """The tests of a module."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)}


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_every_row_says_what_is_known_and_what_runs_it(row: list[str]) -> None:
    _shape, known, proof = row
    named = re.findall(r"`([^`]*)`", proof)

    assert known in KNOWN
    assert [one for one in named if not is_there(one)] == []
    if known == "not tried":
        assert not named, "what a command runs was tried"
    else:
        assert named or (proof.startswith("by hand: [") and known == "works")


def test_no_shape_stands_twice() -> None:
    shapes = [row[0] for row in rows()]

    assert len(shapes) > 50
    assert sorted(set(shapes)) == sorted(shapes)


@pytest.mark.parametrize(
    ("proof", "found"),
    [
        ("make test", True),
        ('make test TESTS="contract hub"', True),
        ("make test TESTS=browser", True),
        ("make nothing", False),
        ("make test TESTS=nothing", False),
        ("tests/unit/test_sites.py", True),
        ("tests/unit/test_sites.py::test_no_shape_stands_twice", True),
        ("tests/unit/test_sites.py::test_nothing", False),
        ("tests/unit/test_none.py", False),
        ("../somewhere", False),
    ],
)
def test_a_command_that_is_not_there_is_noticed(proof: str, found: bool) -> None:
    assert is_there(proof) == found
