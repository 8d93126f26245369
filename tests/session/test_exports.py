"""A session exports notebooks at Jupyter's own addresses, in a process of its own."""

from __future__ import annotations

import io
import json
import urllib.request
import zipfile
from email.message import Message
from pathlib import Path

import nbformat
import pytest

from tests.notebook_parts import PICTURE, PIXEL, code, markdown, notebook
from tests.session.session_server import TOKEN, Server


@pytest.fixture(scope="module")
def lesson(server: Server) -> Path:
    """A notebook of a colleague, whose folder works as a place of templates would."""
    place = server.home / "of exports/été.ipynb"
    place.parent.mkdir()
    cells = markdown("# Title\n![p](attachment:.eps)", **{".eps": PICTURE}), code("1 + 1")
    place.write_text(json.dumps(notebook(*cells, nbconvert_exporter="pdf", file_extension=".py")))
    return place


def got(server: Server, path: str, body: object = None) -> tuple[Message, bytes]:
    """What a download has."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"token {TOKEN}"}
    request = urllib.request.Request(f"{server.url}{path}", data=data, headers=headers)  # noqa: S310  of this test
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
        return answer.headers, answer.read()


def test_a_notebook_of_the_file_browser_is_exported(server: Server, lesson: Path) -> None:
    name = "of%20exports/%C3%A9t%C3%A9.ipynb"

    headers, page = got(server, f"nbconvert/html/{name}?download=true")
    _, shown = got(server, f"nbconvert/html/{name}")
    script, text = got(server, f"nbconvert/script/{name}?download=1")
    packed, archive = got(server, f"nbconvert/markdown/{name}")

    assert headers["Content-Disposition"] == "attachment; filename*=utf-8''%C3%A9t%C3%A9.html"
    assert "sandbox" in headers["Content-Security-Policy"]
    assert b"Title" in page
    assert shown == page
    assert script["Content-Type"] == "text/plain; charset=utf-8"
    assert b"1 + 1" in text, "a script, and no PDF"
    assert packed["Content-Type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(archive)) as inside:
        assert "été.md" in inside.namelist()
        assert [inside.read(one) for one in inside.namelist() if one.endswith("0-0.png")] == [PIXEL]


def test_what_a_site_has_not_turned_on_is_not_offered(server: Server, lesson: Path) -> None:
    offered = json.loads(got(server, "api/nbconvert")[1])

    assert offered["html"] == {"output_mimetype": "text/html"}
    assert {"markdown", "script", "latex", "slides"} < offered.keys()
    assert not {"pdf", "webpdf", "qtpdf", "qtpng"} & offered.keys()
    assert server.ask("nbconvert/pdf/of%20exports/%C3%A9t%C3%A9.ipynb")[0] == 403


def test_a_notebook_that_is_sent_is_exported(server: Server) -> None:
    content = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# Sent")])

    headers, page = got(server, "nbconvert/html", {"name": "a.ipynb", "content": content})

    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert b"Sent" in page
    assert server.ask("nbconvert/html", "POST", {"content": 1})[0] == 400


def test_what_is_no_notebook_or_no_format_is_told(server: Server, lesson: Path) -> None:
    assert server.ask("nbconvert/nothing/of%20exports/%C3%A9t%C3%A9.ipynb")[0] == 404
    assert server.ask("nbconvert/html/gone.ipynb")[0] == 404
    assert server.ask("nbconvert/html/notes.txt")[0] == 302
