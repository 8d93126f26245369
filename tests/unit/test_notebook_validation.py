"""A faulty notebook is told in nbformat's words, and takes no more memory, time or room in a log than a sound one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import nbformat
import pytest
from tornado.web import HTTPError

from portal.notebooks import style, validation
from portal.singleuser.own_files import OwnFiles

PATIENCE_S = 60
MIB_MAX = 250  # some 15 are taken; without a bound 800 and more
PEAK = """
import asyncio, json, resource, sys
from pathlib import Path
from portal.notebooks import run, style
from portal.singleuser.own_files import OwnFiles

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

place = Path(sys.argv[1])
files = OwnFiles(root_dir=str(place.parent))
before = peak()
if sys.argv[2] == "opened":
    said = asyncio.run(files.get(place.name))["message"]
elif sys.argv[2] == "saved":
    model = {"type": "notebook", "format": "json", "content": json.loads(place.read_bytes())}
    said = asyncio.run(files.save(model, place.name))["message"]
elif sys.argv[2] == "checked":
    (said,) = style.check(place)
else:
    said = str(run._readable(place.read_bytes())["nbformat"])
print(json.dumps([peak() - before, said]))
"""
WORDS = """
import json, sys, nbformat
if sys.argv[1] == "bound":
    from portal.notebooks import validation
    validation.bound()
for notebook in json.load(sys.stdin):
    try:
        nbformat.validate(notebook)
        print("sound")
    except nbformat.ValidationError as error:
        print(repr(str(error)))
"""
TEXT = {"cell_type": "markdown", "id": "t", "metadata": {}, "source": "# T"}
STREAM = {"output_type": "stream", "name": "stdout", "text": "1"}


def code(*outputs: object, **changes: object) -> dict[str, Any]:
    kept: dict[str, Any] = {"cell_type": "code", "id": "a", "metadata": {}, "source": "", "execution_count": None}
    return {**kept, "outputs": list(outputs), **changes}


def shown(data: dict[str, Any]) -> dict[str, Any]:
    return {"output_type": "display_data", "metadata": {}, "data": data}


def notebook(*cells: object, **changes: object) -> dict[str, Any]:
    return {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **changes}


def written(place: Path, *cells: object) -> Path:
    place.write_text(json.dumps(notebook(*cells), separators=(",", ":")))
    return place


@pytest.fixture
def files(tmp_path: Path) -> Any:
    return OwnFiles(root_dir=str(tmp_path))


@pytest.mark.parametrize("use", ["opened", "saved", "checked", "run"])
@pytest.mark.parametrize("fault", ["outputs", "data"])
def test_a_notebook_of_many_faults_takes_no_memory_for_each(tmp_path: Path, use: str, fault: str) -> None:
    data = {f"text/{number}": 1 for number in range(20_000)}
    faulty = code(*(20_000 * [{"output_type": "new"}])) if fault == "outputs" else code(shown(data))
    place = written(tmp_path / "a.ipynb", TEXT, faulty)
    done = subprocess.run([sys.executable, "-c", PEAK, place, use], capture_output=True, text=True, check=True)
    mib, said = json.loads(done.stdout)
    assert mib < MIB_MAX
    assert said == "4" if use == "run" else "is not valid under any of the given schemas" in said
    assert len(said) < 500


def test_the_words_of_a_fault_are_nbformats_own() -> None:
    found = [
        notebook(TEXT, code(STREAM)),
        notebook(code({})),
        notebook(code(STREAM, {"output_type": "stream"})),
        notebook(code({"output_type": "new"})),
        notebook(code(shown({"text/plain": 1}))),
        notebook(code(shown({"application/json": {"a": [1]}, "text/plain": ["1"]}))),
        notebook(code(more=1)),
        notebook(code(metadata={"tags": ["a", "a"]})),
        notebook(code(metadata={"tags": ["a", 1]})),
        notebook(code(metadata={"tags": "a"})),
        notebook(code(source=[1])),
        notebook({"cell_type": "new", "id": "a", "metadata": {}}),
        notebook(code(id="a b")),
        notebook(code(), metadata={"kernelspec": {"name": 1}}),
        notebook(code(), metadata={"authors": 1}),
        notebook(code(more={"a": {"b": [[], {}, 40 * [1], 100 * "x"]}})),
        notebook(code({}), nbformat_minor=0),
        notebook(code(5), nbformat_minor=99),
        notebook({**TEXT, "attachments": {"a": {"b": 1}}}),
    ]
    said = [
        subprocess.run(
            [sys.executable, "-c", WORDS, how], input=json.dumps(found), capture_output=True, text=True, check=True
        ).stdout.splitlines()
        for how in ("bound", "as they are")
    ]
    assert said[0] == said[1]
    assert [number for number, words in enumerate(said[0]) if words == "sound"] == [0, 5]


@pytest.mark.parametrize("part", [20_000 * "x", 20_000 * ["x"], {"y": {f"{number}": "x" for number in range(20_000)}}])
async def test_what_is_shown_of_a_fault_has_an_end(files: Any, part: object) -> None:
    written(Path(files.root_dir) / "a.ipynb", {**TEXT, "more": part})
    said = (await files.get("a.ipynb"))["message"]
    assert said.startswith("Notebook validation failed: Additional properties are not allowed ('more' was unexpected)")
    assert len(said) < 5000


def test_a_deep_part_of_a_notebook_is_shown_to_some_depth() -> None:
    deep: list[Any] = []
    for _ in range(900):
        deep = [deep, {"a": 1}]
    assert len(json.dumps(validation.shortened(deep))) < 500


async def test_a_notebook_of_more_lists_than_memory_bears_is_refused_in_words(
    files: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation, "OBJECTS_MAX", 50)
    written(Path(files.root_dir) / "many.ipynb", code(metadata={"more": 50 * [{}]}))
    with pytest.raises(
        HTTPError, match=r"2,000,000 objects of JSON, 8,000,000 lists, 4,000,000 names or 16,000,000 values"
    ) as refused:
        await files.get("many.ipynb")
    assert refused.value.status_code == 413
    assert "many.ipynb holds more than" in str(refused.value.log_message)

    written(Path(files.root_dir) / "points.ipynb", code(metadata={"more": 80 * [[0, 1]]}))
    assert (await files.get("points.ipynb"))["format"] == "json"

    written(Path(files.root_dir) / "text.ipynb", code(source='a["{[' * 50 + "\\"))
    assert (await files.get("text.ipynb"))["content"]["cells"][0]["source"].endswith("\\")


@pytest.mark.parametrize(
    ("kind", "part", "fits"),
    [
        ("names of one object", '"a%05d":1', 100),
        ("objects of few names", '{"a%05d":1,"b":2}', 30),
        ("numbers", "0.%05d", 350),
        ("texts", '"a%05d"', 350),
        ("texts with much in them", '"{{{:::[[[,,,%05d"', 350),
    ],
)
def test_what_takes_more_memory_than_a_file_has_is_counted(
    kind: str, part: str, fits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation, "OBJECTS_MAX", 50)
    start, end = "{}" if kind.startswith("names") else "[]"

    def file(count: int) -> str:
        return start + ",".join(part % number for number in range(count)) + end

    assert json.loads(file(fits))
    assert not validation.has_too_much(file(fits))
    assert validation.has_too_much(file(2 * fits)), kind


def test_very_many_texts_are_counted_in_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "_TEXT", Mock(finditer=Mock(side_effect=AssertionError)))
    assert validation.has_too_much("[" + ",".join(["''"] * validation.OBJECTS_MAX * 9).replace("'", '"') + "]")


@pytest.mark.timeout(PATIENCE_S)
@pytest.mark.parametrize("text", ['"', '"\\', '"' + 2**20 * '\\"', '"' + 2**20 * '\\"' + "\\"])
def test_a_text_that_does_not_end_keeps_nobody_counting(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "OBJECTS_MAX", 1)
    assert not validation.has_too_much(f"{{{text}{{{{")
    assert validation.has_too_much(f"{{[{text}{{[")


@pytest.mark.timeout(PATIENCE_S)  # each with all before it: an hour
def test_names_of_cells_are_compared_in_a_time_that_their_number_decides(tmp_path: Path) -> None:
    place = written(tmp_path / "a.ipynb", *({"id": f"a{number}"} for number in range(200_000)), {"id": "a7"})
    assert style.check(place) == ["cell 200001 has the id a7 of an earlier cell"]


async def test_a_name_that_cells_share_is_made_another_without_a_word(
    recwarn: pytest.WarningsRecorder, files: Any
) -> None:
    written(Path(files.root_dir) / "a.ipynb", *(100 * [TEXT]))
    cells = (await files.get("a.ipynb"))["content"]["cells"]
    assert len({cell["id"] for cell in cells}) == 100
    assert not [one for one in recwarn if "Non-unique" in str(one.message)]
    assert vars(nbformat.validator).get("__warningregistry__", {}).keys() <= {"version"}
