"""What every address of a session's server that the portal adds does with what it is sent."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

from jupyter_server.base.handlers import APIHandler
from tornado.web import HTTPError

NO_TEXT = "The body or the address holds what is no text (UTF-8 without NUL): nothing was done. Send it again as text."


class SessionCall(APIHandler):
    """Before each handler of the portal's own: what is no text is refused in words, and nothing is done."""

    async def prepare(self) -> None:  # type: ignore[override]
        """Look at the address first: Jupyter (jupyter_server 2.21) reads a part of it once more while it answers."""
        arguments = self.request.arguments
        if not all(_is_text(value) for values in arguments.values() for value in values):
            arguments.clear()
            raise HTTPError(HTTPStatus.BAD_REQUEST, NO_TEXT)
        await super().prepare()

    def get_json_body(self) -> Any:
        """The body, all of whose texts the name of a file can hold: other halves of characters none has (PEP 383).

        Raises:
            HTTPError: 400, for a body that is no text, or no JSON.
        """
        if not _is_text(self.request.body):
            raise HTTPError(HTTPStatus.BAD_REQUEST, NO_TEXT)
        body = super().get_json_body()
        try:
            text = json.dumps(body, ensure_ascii=False).encode(errors="surrogateescape")
        except (UnicodeEncodeError, RecursionError) as error:
            raise HTTPError(HTTPStatus.BAD_REQUEST, NO_TEXT) from error
        if b"\\u0000" in text.replace(rb"\\", b""):
            raise HTTPError(HTTPStatus.BAD_REQUEST, NO_TEXT)
        return body


def _is_text(value: bytes) -> bool:
    try:
        return "\0" not in value.decode()
    except UnicodeDecodeError:
        return False
