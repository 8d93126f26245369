"""The catalogue of notebook templates as a table, as wide as the terminal is."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from portal.notebooks.template import Template

_COLUMNS = ("template", "kernel", "GPUs", "min CPU")
_TEXT_WIDTH = 50  # title and data set need as much to stand in the same line as the rest


def table(templates: Sequence[Template], width: int) -> str:
    """The cards of ``templates`` in at most ``width`` columns, where the names leave room for that."""
    measured = any(template.minutes_gpu is not None for template in templates)
    columns = (*_COLUMNS, "min GPU") if measured else _COLUMNS
    cards = [_card(template)[: len(columns)] for template in templates]
    widths = [max(map(len, column)) for column in zip(columns, *cards, strict=True)]
    left = width - sum(widths) - 2 * len(widths)
    if left >= _TEXT_WIDTH:
        half = (left - 2) // 2
        lines = [f"{_line(columns, widths)}  {'title':<{half}}  data set", "-" * width]
        for template, card in zip(templates, cards, strict=True):
            lines += _beside(template, _line(card, widths), width - left, half)
    else:
        lines = [_line(columns, widths), "-" * (sum(widths) + 2 * len(widths) - 2)]
        for template, card in zip(templates, cards, strict=True):
            lines += [_line(card, widths), *_below(template, width)]
    return "\n".join(line.rstrip() for line in lines)


def _card(one: Template) -> tuple[str, ...]:
    """The cells of a card; what was not measured stays empty."""
    on_gpu = "" if one.minutes_gpu is None else str(one.minutes_gpu)
    return (one.name, one.kernel, str(one.gpus), str(one.minutes_cpu), on_gpu)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Names to the left, numbers to the right."""
    names = [cell.ljust(width) for cell, width in zip(cells[:2], widths[:2], strict=True)]
    numbers = [cell.rjust(width) for cell, width in zip(cells[2:], widths[2:], strict=True)]
    return "  ".join([*names, *numbers])


def _beside(template: Template, start: str, indent: int, half: int) -> Iterator[str]:
    """The lines of a card with title and data set in two columns of ``half`` behind its ``start``."""
    title = textwrap.wrap(template.title, half)
    dataset = textwrap.wrap(template.dataset, half)
    for left, right in zip_longest(title, dataset, fillvalue=""):
        yield f"{start:<{indent}}{left:<{half}}  {right}"
        start = ""


def _below(template: Template, width: int) -> Iterator[str]:
    """Title and data set of a card, in the lines below it."""
    for text in (template.title, f"data set: {template.dataset}"):
        yield from textwrap.wrap(text, width, initial_indent="    ", subsequent_indent="      ")
