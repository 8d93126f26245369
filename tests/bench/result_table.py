"""The figures of a bench as a table: ours, stock, the aim, and whether ours misses it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.bench.benches import Row, bench_of

ABSENT = "–"
Line = tuple[str, str, str, str, str]  # what, ours, stock, aim, note


def table(figures: Mapping[str, Any]) -> str:
    """The figures of one bench; without a column for the stock parts where they were not measured."""
    bench = bench_of(figures["bench"])
    ours = figures["ours"]
    stock = figures["stock"]
    rows = [row for row in bench.rows if row.key in ours or "only" not in figures["options"]]
    lines: list[Line] = [("", "ours", bench.beside, "aim", "")]
    lines += [_line(row, ours, stock) for row in rows]
    if bench.part and figures[bench.part.key]:
        lines += [("", "", "", "", ""), (bench.part.title, "", "", "", "")]
        lines += [_line(row, figures[bench.part.key], {}) for row in bench.part.rows]
    asked = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in figures["options"].items())
    columns = (1, 2, 3) if stock else (1, 3)
    return "\n".join([f"{bench.name}: {asked}; {figures['cores']} cores", "", *_aligned(lines, columns)])


def _line(row: Row, ours: Mapping[str, Any], stock: Mapping[str, Any]) -> Line:
    theirs = _text(stock.get(row.key)) if stock else ""
    note = "missed" if row.is_missed(ours.get(row.key)) else ""
    return row.what, _text(ours.get(row.key)), theirs, row.aim(), note


def _text(figure: Any) -> str:
    if figure is None:
        return ABSENT
    return f"{figure:,}" if isinstance(figure, int) else f"{figure:,.2f}"


def _aligned(lines: Sequence[Line], columns: Sequence[int]) -> Iterator[str]:
    """Words to the left, the figures of these columns to the right."""
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    for line in lines:
        shown = "  ".join(f"{line[column]:>{widths[column]}}" for column in columns)
        yield f"{line[0]:<{widths[0]}}  {shown}  {line[4]}".rstrip()
