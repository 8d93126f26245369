"""One name, one thing: no two classes share a name, and no statement gives values to several names at once."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def sources(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    """Every Python file below ``folders``: its path from the root, and what it holds."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "node_modules" not in path.parts:
                yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text())


def classes(*folders: str) -> dict[str, list[str]]:
    """The files in which each class is defined."""
    found: dict[str, list[str]] = defaultdict(list)
    for file, module in sources(*folders):
        for node in module.body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(file)
    return found


def tuple_assignments(module: ast.Module) -> list[str]:
    """The statements that give several values to several names, ``a, b = 1, 2``; a swap is none."""
    found = []
    for node in ast.walk(module):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple | ast.List):
            continue
        for target in node.targets:
            if isinstance(target, ast.Tuple | ast.List) and not is_swap(target, node.value):
                found.append(f"line {node.lineno}: {ast.unparse(node)}")
    return found


def is_swap(target: ast.Tuple | ast.List, value: ast.Tuple | ast.List) -> bool:
    """True for ``a, b = b, a``."""
    return sorted(map(ast.unparse, target.elts)) == sorted(map(ast.unparse, value.elts))


def test_every_class_has_a_name_of_its_own() -> None:
    defined = classes("portal", "spawners", "deploy")

    assert {name: files for name, files in defined.items() if len(files) > 1} == {}


def test_every_assignment_stands_on_a_line_of_its_own() -> None:
    faults = {file: tuple_assignments(module) for file, module in sources("portal", "spawners", "deploy")}

    assert {file: found for file, found in faults.items() if found} == {}


@pytest.mark.parametrize(
    ("statement", "is_fault"),
    [
        ("a, b = 1, 2", True),
        ("self.a, self.b = a, b", True),
        ("[a, *b] = [1, 2]", True),
        ("a, b = b, a", False),
        ("a, _, b = text.partition(':')", False),
        ("a = 1, 2", False),
    ],
)
def test_what_counts_as_an_assignment_of_several_values(statement: str, is_fault: bool) -> None:
    assert bool(tuple_assignments(ast.parse(statement))) == is_fault
