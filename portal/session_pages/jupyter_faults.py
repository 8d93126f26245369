"""Addresses of Jupyter that fail whoever asks, answered in words.

Without a login the page of licences (jupyterlab_server 2.28) never answers: its refusal waits for itself. And
``robots.txt`` (jupyter_server 2.21) looks for a file in no folder, and drops the connection.
"""

from __future__ import annotations

from typing import Any

from jupyter_server.base.handlers import APIHandler, Template404
from jupyter_server.utils import url_path_join
from jupyterlab_server.licenses_handler import LicensesHandler

WITHOUT_FOLDER = r"(?:robots\.txt|favicon\.ico)"
JSON = "application/json"


def mend() -> None:
    """From now on the page of licences ends each of its answers, a refusal too."""

    def finish(self: Any, *chunks: Any, _mime_type: str = JSON, **more: Any) -> Any:
        self.update_api_activity()
        self.set_header("Content-Type", _mime_type)
        return super(APIHandler, self).finish(*chunks, **more)

    LicensesHandler.finish = finish  # type: ignore[method-assign]


def routes(base: str) -> list[tuple[str, type[Template404]]]:
    """Of the addresses that lead to no folder: as any that is not there."""
    return [(url_path_join(base, WITHOUT_FOLDER), Template404)]
