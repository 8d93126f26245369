"""What of a log reaches a terminal: somebody else may have written it, where others can change the log's folder."""

from __future__ import annotations

import re

from portal.errors import printable

_COLOURS = re.compile(r"(\x1b\[[0-9;:]{0,40}m)")  # SGR: ECMA-48, 8.3.117
_BEGUN = re.compile(r"\x1b(\[[0-9;:]{0,40})?\Z")
_PLAIN = "\x1b[0m"


class LogText:
    """A log that comes in parts, as it is shown: colours, lines and tabs, and nothing else that steers a terminal."""

    def __init__(self) -> None:
        self._held = ""  # the beginning of a colour, whose end comes with the next part
        self._is_coloured = False

    def shown(self, part: str) -> str:
        """The next part."""
        text = self._held + part
        begun = _BEGUN.search(text)
        self._held = begun[0] if begun else ""
        return self._safe(text[: len(text) - len(self._held)])

    def end(self) -> str:
        """What is left at the end."""
        return self._safe(self._held) + _PLAIN * self._is_coloured

    def _safe(self, text: str) -> str:
        pieces = _COLOURS.split(text)
        self._is_coloured = self._is_coloured or len(pieces) > 1
        # A colour is every second piece; "\r" begins a line anew, as a bar of progress does.
        return "".join(
            piece if number % 2 else "\r".join(map(printable, piece.split("\r"))) for number, piece in enumerate(pieces)
        )
