"""The gallery of a session's server: the catalogue, a new copy, and what becomes of it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from portal.gallery.pages import Gallery
from tests.lessons import lesson, ran, write
from tests.session.session_server import TOKEN, Server


@pytest.fixture
def projects(server: Server) -> Iterator[Path]:
    """A folder for one test's copies; the catalogue is as before afterwards."""
    helper = server.home.parent / "catalogue/tensorflow/helper.py"
    before = helper.read_text()
    folder = server.home / "copies"
    folder.mkdir(exist_ok=True)
    for left in folder.iterdir():
        left.rename(server.home.parent / f"old-{left.name}-{len(list(server.home.parent.iterdir()))}")
    yield folder
    helper.write_text(before)


def refused(server: Server, path: str, body: object) -> str:
    status, text = server.ask(path, "POST", body)
    assert status == 400, text
    return str(json.loads(text)["message"])


def test_the_catalogue_says_which_templates_can_be_used_here(server: Server) -> None:
    found = {one["name"]: one for one in server.json("dsportal/api/templates")["templates"]}
    assert list(found) == ["mxnet/old", "tensorflow/first"]
    assert found["tensorflow/first"]["path"] == "templates/tensorflow/first.ipynb"
    assert found["tensorflow/first"]["title"] == "A lesson"
    assert {key: found["tensorflow/first"][key] for key in ("needs", "fits", "mark", "level", "level_title")} == {
        "needs": "1 GPU or two cores, about 1 minute",
        "fits": False,
        "mark": "TF",
        "level": 2,
        "level_title": "In depth",
    }
    assert found["mxnet/old"]["path"] == ""
    assert found["mxnet/old"]["refused"] == "The kernel 'mxnet' is not offered here."


@pytest.mark.parametrize(("gpus", "fits"), [(None, [True, False]), (0, [True, False]), (1, [True, True])])
def test_a_template_fits_a_session_that_has_the_gpus_it_makes_use_of(
    tmp_path: Path, gpus: int | None, fits: list[bool]
) -> None:
    write(tmp_path / "a/cores.ipynb", lesson("1", gpus=0))
    write(tmp_path / "b/one_gpu.ipynb", lesson("1", gpus=1))
    found = Gallery(tmp_path, (tmp_path,), gpus).catalogue(None)["templates"]
    assert [one["fits"] for one in found] == fits


def test_a_copy_is_made_changed_compared_and_brought_up_to_date(server: Server, projects: Path) -> None:
    def copy(path: str = "copies/tensorflow-first") -> dict[str, Any]:
        found: dict[str, Any] = server.json(f"dsportal/api/copy?path={path}")
        return found

    body = {"template": "tensorflow/first", "folder": "/copies"}
    assert server.json("dsportal/api/templates", "POST", body) == {"path": "copies/tensorflow-first/first.ipynb"}
    assert copy()["state"] == "same"
    ran(projects / "tensorflow-first/first.ipynb", "mine = 1")
    write(server.home.parent / "catalogue/tensorflow/helper.py", "h = 2\n")
    assert copy("copies/tensorflow-first/first.ipynb")["state"] == "both", "a file stands for its folder"
    assert "-mine = 1\n" in copy()["differences"]
    done = server.json("dsportal/api/copy", "POST", {"path": "copies/tensorflow-first", "action": "update"})
    assert done == {"words": "As the template now: helper.py.", "path": "copies/tensorflow-first"}
    done = server.json("dsportal/api/copy", "POST", {"path": "copies/tensorflow-first", "action": "reset"})
    assert "is kept as first-kept-" in done["words"]
    assert copy()["state"] == "same"


@pytest.mark.parametrize(
    ("path", "body", "said"),
    {
        "no template": ("templates", {"template": "../x", "folder": "/"}, "There is no template '../x'; there are"),
        "no folder": ("templates", {"template": "tensorflow/first", "folder": "none"}, "There is no folder"),
        "outside": ("templates", {"template": "tensorflow/first", "folder": "../.."}, "is not below your files"),
        "catalogue": ("templates", {"template": "tensorflow/first", "folder": "templates"}, "is in the catalogue"),
        "no copy": ("copy", {"path": "empty", "action": "reset"}, "is no copy of a template"),
        "no action": ("copy", {"path": "empty", "action": "remove"}, "there are update, reset"),
        "no words": ("copy", ["reset"], "cannot be done"),
    }.values(),
)
def test_what_cannot_be_done_is_said(path: str, body: object, said: str, server: Server) -> None:
    assert said in refused(server, f"dsportal/api/{path}", body)


def test_who_is_not_logged_in_sees_and_does_nothing(server: Server, projects: Path) -> None:
    assert server.ask("dsportal/api/templates", token="")[0] == 403
    assert server.ask("dsportal/api/copy?path=empty", token="")[0] == 403
    body = {"template": "tensorflow/first", "folder": "copies"}
    assert server.ask("dsportal/api/templates", "POST", body, token="")[0] == 403
    assert list(projects.iterdir()) == []


def test_another_page_of_the_browser_cannot_make_copies(server: Server, projects: Path) -> None:
    """The cookie alone, which a browser sends by itself, is not enough: the form's secret belongs to it."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(), urllib.request.ProxyHandler({}))
    opener.open(f"{server.url}login?token={TOKEN}").close()
    opener.open(f"{server.url}dsportal/api/templates").close()
    body = json.dumps({"template": "tensorflow/first", "folder": "copies"}).encode()
    with pytest.raises(urllib.error.HTTPError, match="403"):
        opener.open(f"{server.url}dsportal/api/templates", data=body)
    assert list(projects.iterdir()) == []
