"""The links of a template: what leads somewhere, and what is said of the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from portal.notebooks.links import headings, link_faults


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a lesson lies, with others beside it."""
    folder = tmp_path / "templates"
    for name in ("pytorch", "tensorflow"):
        (folder / name).mkdir(parents=True)
    (folder / "README.md").write_text("# Templates\n\n## To add one\n")
    (folder / "tensorflow" / "my module.py").write_text("")
    (folder / "tensorflow" / "mnist.ipynb").write_text(json.dumps(lesson("# MNIST\n\n## What next\n")))
    (tmp_path / "outside.md").write_text("# Outside\n")
    return folder / "pytorch" / "lesson.ipynb"


def lesson(*texts: str, **more: Any) -> dict[str, Any]:
    """A notebook of Markdown cells."""
    cells = [{"cell_type": "markdown", "id": f"c{n}", "source": text, **more} for n, text in enumerate(texts)]
    return {"cells": [*cells, {"cell_type": "code", "id": "code", "source": "# [no](dead.md)"}]}


ALIVE = {
    "a file of another folder": "[a](../tensorflow/mnist.ipynb)",
    "a folder": "[a](../tensorflow)",
    "a name with a space": "[a](<../tensorflow/my module.py>) and [b](../tensorflow/my%20module.py)",
    "a heading of another notebook": "[a](../tensorflow/mnist.ipynb#What-next)",
    "a heading of a Markdown file": "[a](../README.md#To-add-one)",
    "a heading of its own": "## Find the *data*\n\n[a](#Find-the-data)",
    "a heading in another cell": "[a](#Below)",
    "the web": "[a](https://keras.io/a/?a=1#x), <https://slurm.schedmd.com/srun.html>, ![i](https://a.b.org/i.png)",
    "a title": '[a](https://keras.io "Keras")',
    "a reference": "[a][keras]\n\n[keras]: https://keras.io",
    "code": "`[a](dead.md)` and\n\n```\n[a](http://dead) https://\n```\n",
    "HTML": '<a href="../README.md">a</a>',
    "brackets that are no link": "a list [1, 2] (and so on) of `x[0](y)`",
}


@pytest.mark.parametrize("name", ALIVE)
def test_a_link_that_leads_somewhere_is_no_fault(name: str, path: Path) -> None:
    assert list(link_faults(lesson(ALIVE[name], "# Below"), path)) == []


DEAD = {
    "a file that is not there": ("[a](other.ipynb)", "leads to no file: there is no pytorch/other.ipynb"),
    "an image that is not there": ("![a](plot.png)", "leads to no file: there is no pytorch/plot.png"),
    "a file outside": ("[a](../../outside.md)", "leads out of the templates: name a file below templates"),
    "an absolute path": ("[a](/etc/passwd)", "leads out of the templates"),
    "no heading": ("# One\n\n[a](#one)", "leads to no heading; there are One, Below"),
    "no heading elsewhere": ("[a](../tensorflow/mnist.ipynb#Next)", "leads to no heading; there are MNIST, What-next"),
    "no heading in Markdown": ("[a](../README.md#x)", "leads to no heading; there are Templates, To-add-one"),
    "an anchor in a program": ("[a](../tensorflow/my%20module.py#L3)", "only notebooks and Markdown files"),
    "plain http": ("[a](http://keras.io)", "is no web address that begins with https://"),
    "a bare address": ("see http://keras.io for more", "is no web address that begins with https://"),
    "no host": ("[a](https:///x)", "is no web address"),
    "half a host": ("[a](https://keras/x)", "is no web address"),
    "no network path": ("[a](//keras.io)", "is no web address"),
    "a script": ("[a](javascript:alert(1))", ""),
    "HTML": ("<a href='dead.md'>a</a>", "leads to no file"),
    "HTML beside a link": ("[a](../README.md) <img src='dead.png'>", "leads to no file"),
    "a reference": ("[a][x]\n\n[x]: dead.md", "leads to no file"),
    "in a list and bold": ("* **[a](dead.md)**", "leads to no file"),
    "in a table": ("| a |\n|---|\n| [a](dead.md) |", "leads to no file"),
    "an attachment": ("![a](attachment:x.png)", "has no attachment of that name"),
}


@pytest.mark.parametrize("name", DEAD)
def test_a_dead_link_is_told_with_its_cell_and_reason(name: str, path: Path) -> None:
    text, reason = DEAD[name]
    (fault,) = link_faults(lesson(text, "# Below"), path)
    assert fault.startswith("cell 1 (c0): the link ")
    assert reason in fault


def test_an_attached_image_is_there(path: Path) -> None:
    with_image = lesson("![a](attachment:x.png)", attachments={"x.png": {}})
    assert list(link_faults(with_image, path)) == []


def test_headings_are_named_as_jupyterlab_names_them() -> None:
    text = "# One `two` *three*\n\n```\n# no\n```\n\n### What the numbers mean"
    assert headings(lesson(text)) == ["One-two-three", "What-the-numbers-mean"]
