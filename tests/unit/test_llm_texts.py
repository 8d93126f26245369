"""What the lesson on language models begins with: texts, split without a leak, and a site's folders of models."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

LESSON = Path(__file__).parents[2] / "notebooks" / "llm"


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(LESSON))
    yield importlib.import_module("library_text")
    del sys.modules["library_text"]


@pytest.fixture
def folders(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(LESSON))
    yield importlib.import_module("model_folders")
    del sys.modules["model_folders"]


def model(folder: Path, size: int = 10, kind: str = "LlamaForCausalLM") -> Path:
    """A folder in Hugging Face's format, with weights of so many bytes."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"architectures": [kind]}))
    (folder / "tokenizer.json").write_text("{}")
    with (folder / "model.safetensors").open("wb") as file:
        file.truncate(size)
    return folder


def test_code_and_what_it_says_of_itself_come_apart(texts: ModuleType) -> None:
    source = (
        '"""Of it all."""\n# a comment\ndef f():\n    """Of f."""\n\n'
        'class C:\n    def g(self):\n        """Of g."""\n        return 1\n'
    )
    code, prose = texts.code_and_prose(source)
    assert code == "def f():\n    pass\n\nclass C:\n\n    def g(self):\n        return 1"
    assert sorted(prose) == ["Of f.", "Of g.", "Of it all."]


def test_the_library_of_this_python_is_split_without_a_leak(texts: ModuleType) -> None:
    found = texts.library()
    for kind in (found.code, found.prose):
        assert not set(kind.train) & set(kind.validation)
        assert sum(map(len, kind.train)) > 5 * sum(map(len, kind.validation)) > 100_000
    assert found.modules > 100


@pytest.mark.parametrize(("one", "other"), [("decimal", "_pydecimal"), ("io", "_pyio"), ("datetime", "_pydatetime")])
def test_a_module_and_its_twin_are_on_one_side(texts: ModuleType, one: str, other: str) -> None:
    assert texts.is_kept_back(one) == texts.is_kept_back(other)


def test_a_text_that_is_on_both_sides_is_not_tested_on(texts: ModuleType) -> None:
    assert texts.split([("a", False), ("b", True), ("a", True)]) == (["a"], ["b"])


def test_of_a_persons_files_the_last_tenth_is_kept_back(texts: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n\n".join(f"Paragraph {number}\nof a." for number in range(20)))
    (tmp_path / "no.csv").write_text("1,2\n\n3,4")
    found = texts.own_texts(tmp_path)
    assert found.validation == ["Paragraph 18\nof a.", "Paragraph 19\nof a."]
    assert len(found.train) == 18


@pytest.mark.parametrize("content", ["", "One paragraph.", "\n\n".join("a" * 20)])
def test_too_little_text_is_told(texts: ModuleType, tmp_path: Path, content: str) -> None:
    (tmp_path / "a.txt").write_text(content)
    with pytest.raises(texts.TextError, match=r"holds too little text: give a folder with files \(\.txt"):
        texts.own_texts(tmp_path)
    with pytest.raises(texts.TextError, match="holds too few modules"):
        texts.library(tmp_path)


def test_models_are_looked_for_where_the_cluster_says(folders: ModuleType) -> None:
    variables = {"MODEL_PATH": "/models:/more", "DATASET_PATH": "/data:/usr/share/datasets"}
    known = ["/models", "/more", "/data/models", "/usr/share/datasets/models"]
    assert list(map(str, folders.folders(variables))) == known
    assert list(map(str, folders.folders({}))) == ["/usr/share/datasets/models"]


def test_without_a_name_the_smallest_model_is_taken_if_it_is_small(folders: ModuleType, tmp_path: Path) -> None:
    variables = {"MODEL_PATH": str(tmp_path / "none"), "DATASET_PATH": str(tmp_path)}
    assert folders.find("", variables) is None
    model(tmp_path / "models/large", folders.SMALL + 1)
    assert folders.find("", variables) is None
    model(tmp_path / "models/maker/middle", 2_000)
    model(tmp_path / "models/encoder", 1, "BertForMaskedLM")
    assert folders.find("", variables) == (tmp_path / "models/maker/middle", 2_000)


def test_a_model_is_named_by_its_path_or_its_place(
    folders: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = model(tmp_path / "site/maker/large", folders.SMALL + 1)
    variables = {"MODEL_PATH": str(tmp_path / "site"), "DATASET_PATH": "/none"}
    monkeypatch.chdir(tmp_path)
    for name in (str(large), "maker/large", "site/maker/large"):
        assert folders.find(name, variables).folder == large


def test_a_model_that_is_not_there_is_told_with_those_that_are(folders: ModuleType, tmp_path: Path) -> None:
    model(tmp_path / "maker/small")
    (model(tmp_path / "spoiled") / "config.json").write_text("[")
    (model(tmp_path / "weightless") / "model.safetensors").unlink()
    variables = {"MODEL_PATH": str(tmp_path), "DATASET_PATH": "/none"}
    for name in ("nosuch", "spoiled", "weightless"):
        with pytest.raises(folders.ModelError, match=rf"no model '{name}' .*; these folders have maker/small\.$"):
            folders.find(name, variables)
