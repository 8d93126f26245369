"""Why an upload does not go on, for the person."""

from __future__ import annotations

from http import HTTPStatus


class UploadRefused(Exception):
    """An upload that does not go on.

    Attributes:
        status: of HTTP.
        message: for the person.
        offset: how many bytes there are, where that is another number than was said.
    """

    def __init__(self, status: HTTPStatus, message: str, offset: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.offset = offset


def in_words(size: int) -> str:
    """A number of bytes as people read it."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} bytes"
