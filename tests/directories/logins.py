"""The recipes for other authenticators, as the documents have them, on a hub of the tests."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.directory.shapes import DOCUMENT
from tests.hub.conftest import Hub

FOLDER = Path("/cluster/test-login")


def block(before: str, kind: str) -> str:
    """The first block of a kind after some words of the document."""
    text = DOCUMENT.read_text().partition(before)[2]
    return text.partition(f"```{kind}\n")[2].partition("```")[0]


def prepared(port: int, login: str) -> Hub:
    """A hub with these lines for its login and without the table [ldap]; it is not started."""
    hub = Hub(FOLDER, port)
    hub.prepare()
    (FOLDER / "extra" / "login.py").write_text(login)
    hub.site_file.write_text(hub.site_file.read_text().partition("[ldap]")[0])
    return hub


def secret(name: str, text: str) -> Path:
    """A file that the hub's account alone may read."""
    file = FOLDER / name
    file.write_text(f"{text}\n")
    file.chmod(0o600)
    shutil.chown(file, "portal", "portal")
    return file
