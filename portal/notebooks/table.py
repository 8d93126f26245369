"""The catalogue of notebook templates as a table, as wide as the terminal is."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from portal.notebooks.catalogue import Template

_COLUMNS = ("template", "kernel", "GPUs", "min CPU", "min GPU")
_WORDS_WIDTH = 50  # title and data set need as much to stand in the same line as the rest


def table(templates: Sequence[Template], width: int) -> str:
    """The cards of ``templates`` in at most ``width`` columns, where the names leave room for that."""
    cards = [(t.name, t.kernel, str(t.gpus), str(t.minutes_cpu), str(t.minutes_gpu)) for t in templates]
    widths = [max(map(len, column)) for column in zip(_COLUMNS, *cards, strict=True)]
    lines = [_line(_COLUMNS, widths), "-" * (sum(widths) + 2 * len(widths) - 2)]
    left = width - sum(widths) - 2 * len(widths)
    if left >= _WORDS_WIDTH:
        half = (left - 2) // 2
        lines = [f"{lines[0]}  {'title':<{half}}  data set", "-" * width]
    for template, card in zip(templates, cards, strict=True):
        start = _line(card, widths)
        if left >= _WORDS_WIDTH:
            words = [textwrap.wrap(text, half) for text in (template.title, template.dataset)]
            pairs = zip_longest(*words, fillvalue="")
            lines += [f"{start if n == 0 else '':<{width - left}}{a:<{half}}  {b}" for n, (a, b) in enumerate(pairs)]
        else:
            words_below = (template.title, f"data set: {template.dataset}")
            lines += [start, *(line for text in words_below for line in _indented(text, width))]
    return "\n".join(line.rstrip() for line in lines)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Names to the left, numbers to the right."""
    both = enumerate(zip(cells, widths, strict=True))
    return "  ".join(cell.ljust(width) if n < 2 else cell.rjust(width) for n, (cell, width) in both)


def _indented(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, initial_indent="    ", subsequent_indent="      ")
