"""A file that is opened as a text counts as long as it is in JSON, which is what a session has of it several times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tornado.web import HTTPError

from portal.downloads import read_files
from portal.singleuser.own_files import OwnFiles

LETTERS = ("a", "\0", "\x1f", "\x7f", "é", "漢", "\N{GRINNING FACE}")
AS_TWO = ("\n", '"', "\\", "\b", "\t")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(read_files, "OPENED_MAX", 1200)


@pytest.mark.parametrize("text", [300 * letter for letter in LETTERS] + [50 * "".join(LETTERS)], ids=repr)
def test_a_text_has_so_many_letters_in_json(text: str) -> None:
    assert read_files.in_json(text) == len(json.dumps(text)) - 2


@pytest.mark.parametrize("letter", AS_TWO)
def test_letters_of_a_notebooks_own_json_count_once(letter: str) -> None:
    assert read_files.in_json(1000 * letter) == 1000


@pytest.mark.parametrize("letter", ["\0", "\N{GRINNING FACE}"])
@pytest.mark.parametrize("name", ["train.log", "train.ipynb"])
async def test_a_text_that_json_makes_many_times_as_long_is_not_opened(tmp_path: Path, name: str, letter: str) -> None:
    """A file without content, which takes no disk, is nothing but NUL."""
    (tmp_path / name).write_text(1000 // len(letter.encode()) * letter)
    files: Any = OwnFiles(root_dir=str(tmp_path))

    with pytest.raises(HTTPError) as refused:
        await files.get(name, type="file", format="text")

    assert refused.value.status_code == 413
    assert "as JupyterLab gets it" in str(refused.value.log_message)
    (tmp_path / name).write_text(1000 * "a")
    assert len((await files.get(name, type="file", format="text"))["content"]) == 1000


async def test_what_is_no_text_counts_by_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(b"\0\xff" * 500)

    files: Any = OwnFiles(root_dir=str(tmp_path))

    model = await files.get("data.bin", type="file")

    assert model["format"] == "base64"
