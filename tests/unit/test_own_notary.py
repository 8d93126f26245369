"""Whose outputs run scripts in JupyterLab: those of notebooks that the person has run, or has trusted by hand."""

from __future__ import annotations

import json
import tracemalloc
from copy import deepcopy
from hmac import HMAC
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.sign import signature_removed
from nbformat.v4.rwbase import rejoin_lines, strip_transient

from portal.downloads.own_checkpoints import OwnCheckpoints
from portal.singleuser.own_files import OwnFiles

TABLE = {"data": {"text/html": "<script>taken()</script>"}, "metadata": {}}
PRINTED = {"output_type": "stream", "name": "stdout", "text": "1\n"}
FAILED = {"output_type": "error", "ename": "E", "evalue": "1", "traceback": ["E: 1"]}


def code(*outputs: dict[str, Any], **metadata: object) -> dict[str, Any]:
    """A cell of code with what it has shown."""
    kind = {"cell_type": "code", "id": "b", "source": "1", "execution_count": 1}
    return {**kind, "metadata": metadata, "outputs": list(outputs)}


def words(source: str) -> dict[str, Any]:
    """A cell of text."""
    return {"cell_type": "markdown", "id": "a", "metadata": {}, "source": source}


def notebook(*cells: dict[str, Any]) -> dict[str, Any]:
    """A notebook of such cells."""
    return {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("HOME", str(tmp_path))
    return OwnFiles(root_dir=str(tmp_path), checkpoints_class=OwnCheckpoints)


async def saved(files: Any, content: dict[str, Any]) -> None:
    """As JupyterLab saves what is open."""
    await files.save({"type": "notebook", "format": "json", "content": content}, "lesson.ipynb")


async def opened(files: Any) -> dict[str, Any]:
    """What JupyterLab is given."""
    content: dict[str, Any] = (await files.get("lesson.ipynb"))["content"]
    return content


async def trusted(files: Any) -> list[bool]:
    """Which cells of code JupyterLab is told to be trusted."""
    return [cell["metadata"]["trusted"] for cell in (await opened(files))["cells"] if cell["cell_type"] == "code"]


@pytest.mark.parametrize("kind", ["display_data", "execute_result", "update_display_data", "pyout", "new", "", 1, None])
async def test_a_notebook_of_others_is_not_trusted_for_having_been_saved(files: Any, kind: object) -> None:
    theirs = {**TABLE, "output_type": kind}
    Path(files.root_dir, "lesson.ipynb").write_text(json.dumps(notebook(code(theirs, trusted=True))))
    assert await trusted(files) == [False]

    await saved(files, await opened(files))

    assert await trusted(files) == [False]


async def test_words_and_errors_are_trusted_whoever_made_them(files: Any) -> None:
    await saved(files, notebook(words("1"), code(PRINTED, FAILED, trusted=False)))

    assert await trusted(files) == [True]


@pytest.mark.parametrize("kind", ["display_data", "update_display_data"])
async def test_what_the_person_has_run_is_trusted(files: Any, kind: str) -> None:
    await saved(files, notebook(code({**TABLE, "output_type": kind}, trusted=True)))
    assert await trusted(files) == [True]


async def test_what_is_written_otherwise_than_it_was_sent_stays_trusted(files: Any) -> None:
    lines = {"data": {"text/html": ["<b>\n", "x"]}, "metadata": {}, "output_type": "display_data"}
    sent = notebook(code(lines, trusted=True))

    await saved(files, {**sent, "metadata": {"orig_nbformat": 4}})

    assert await trusted(files) == [True]


async def test_what_is_trusted_by_hand_is_trusted(files: Any) -> None:
    await saved(files, notebook(code({**TABLE, "output_type": "display_data"}, trusted=False)))

    await files.trust_notebook("lesson.ipynb")

    assert await trusted(files) == [True]


async def test_no_other_notebook_has_the_signature_of_one_that_is_trusted(files: Any) -> None:
    """Here the text of one is, word by word, what stands in the other."""
    cell = code({**TABLE, "output_type": "display_data"})
    await saved(files, notebook(words("a lesson <!-- " + "".join(run_on(cell)))))

    Path(files.root_dir, "lesson.ipynb").write_text(json.dumps(notebook(words("a lesson <!-- "), cell)))

    assert await trusted(files) == [False]


def test_a_notebook_is_signed_as_before_without_a_copy_in_nbformats_own_objects(files: Any) -> None:
    """Those of a notebook of 1 MiB can take more than half a GB, and seconds in which a session does nothing else."""
    lines = {"data": {"text/html": ["<b>\n", "x"]}, "metadata": {}, "output_type": "display_data"}
    read = nbformat.from_dict(notebook(words("ä"), code(lines, PRINTED, trusted=True, many=20_000 * [{}])))
    read["metadata"] |= {"orig_nbformat": 4, "signature": "old", "half": 0.1}
    with signature_removed(read):
        text = json.dumps(rejoin_lines(strip_transient(deepcopy(read))), sort_keys=True)
    tracemalloc.start()
    try:
        signature = files.notary.compute_signature(read)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert signature == HMAC(files.notary.secret, text.encode(), files.notary.digestmod).hexdigest()
    assert read["metadata"]["signature"] == "old"
    assert peak < 8 * 2**20, "a third of it is taken; 14 MiB by a deep copy"


def run_on(value: Any) -> list[str]:
    """Names and values of all that is in a value, one after the other."""
    if isinstance(value, dict):
        return [part for key in sorted(value) for part in (key, *run_on(value[key]))]
    if isinstance(value, list):
        return [part for one in value for part in run_on(one)]
    return [str(value)]
