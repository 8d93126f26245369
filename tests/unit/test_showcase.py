"""The hub's page of templates: its cards, what is found, and folders that do not answer."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from portal.notebooks import look
from portal.notebooks.catalogue import templates
from portal.notebooks.template import FILES_MAX
from portal.showcase import cards
from portal.showcase.cards import Card
from portal.showcase.page import Showcase


def template(folder: Path, name: str, **card: Any) -> None:
    """A notebook with a card."""
    path = folder / f"{name}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    known = {
        "framework": "PyTorch",
        "kernel": "pytorch",
        "gpus": 1,
        "minutes_cpu": 2,
        "dataset": "MNIST",
        "summary": "",
    }
    title = {"cell_type": "markdown", "id": "t", "metadata": {}, "source": f"# About {name}\n"}
    path.write_text(json.dumps({"cells": [title], "metadata": {"dsportal": known | card}, "nbformat": 4}))


def test_what_is_offered_is_shown_and_of_two_with_one_name_the_first(tmp_path: Path) -> None:
    ours, site = tmp_path / "ours", tmp_path / "site"
    template(ours, "pytorch/mnist", summary="Ours.")
    template(ours, "mxnet/mnist", kernel="mxnet")
    template(site, "pytorch/mnist", summary="Theirs.")
    template(site, "genomes/align", kernel="PyTorch", framework="Genomes", gpus=0, minutes_cpu=1)

    found = cards.read([ours, site], ["pytorch", "ir"])

    assert [(card.name, card.summary) for card in found] == [("pytorch/mnist", "Ours."), ("genomes/align", "")]
    assert found[1].place == "templates/genomes/align.ipynb"
    assert [card.needs for card in found] == ["1 GPU or two cores, about 2 minutes", "two cores, about 1 minute"]
    assert len(cards.read([ours, site], [])) == 3, "where no kernel is known nothing is hidden"
    assert cards.read([tmp_path / "none"], []) == ()


@pytest.mark.parametrize(
    "wrong",
    [
        {"framework": 5},
        {"framework": None},
        {"framework": ["PyTorch"]},
        {"kernel": {}},
        {"gpus": [1]},
        {"gpus": True},
        {"gpus": 0.5},
        {"minutes_cpu": "2"},
        {"minutes_gpu": None},
        {"dataset": 7},
        {"summary": None},
        {"summary": "\ud800"},  # half a letter, which no page can hold
        {"summary": "long " * 1000},
        {"level": True},
        {"level": [1]},
        {"level": 4},
        {"files": "data"},
        {"files": [1]},
    ],
    ids=lambda wrong: str(wrong)[:40],
)
def test_a_card_whose_values_are_of_other_kinds_is_left_out_and_harms_no_other(
    wrong: dict[str, Any], tmp_path: Path
) -> None:
    template(tmp_path, "pytorch/good")
    template(tmp_path, "pytorch/wrong", **wrong)

    found = cards.read([tmp_path], [])

    assert [card.name for card in found] == ["pytorch/good"]


def test_a_name_or_a_title_that_no_page_can_hold_is_left_out(tmp_path: Path) -> None:
    template(tmp_path, "pytorch/good")
    template(tmp_path, "pytorch/\udcff")
    template(tmp_path, "pytorch/long")
    long = json.loads((tmp_path / "pytorch/long.ipynb").read_bytes())
    long["cells"][0]["source"] = f"# {'long ' * 1000}"
    (tmp_path / "pytorch/long.ipynb").write_text(json.dumps(long))

    assert [card.name for card in cards.read([tmp_path], [])] == ["pytorch/good"]


def pipe(place: Path) -> None:
    os.mkfifo(place)


def endless(place: Path) -> None:
    place.symlink_to("/dev/zero")


def huge(place: Path) -> None:
    with place.open("wb") as file:
        file.truncate(200 * 2**30)  # no more than its length is on the disk


@pytest.mark.parametrize("put", [pipe, endless, huge, Path.mkdir])
def test_what_is_no_notebook_of_usual_length_is_left_out_and_keeps_nobody_waiting(
    put: Callable[[Path], None], tmp_path: Path
) -> None:
    template(tmp_path, "pytorch/good")
    put(tmp_path / "pytorch/another.ipynb")

    assert [card.name for card in cards.read([tmp_path], [])] == ["pytorch/good"]


def test_a_notebook_behind_a_link_is_shown_where_it_is_in_one_of_the_folders(tmp_path: Path) -> None:
    ours, site = tmp_path / "ours", tmp_path / "site"
    template(ours, "pytorch/good")
    template(site, "own/good")
    template(tmp_path / "elsewhere", "own/other")
    (site / "pytorch").symlink_to(ours / "pytorch")
    (site / "own/other.ipynb").symlink_to(tmp_path / "elsewhere/own/other.ipynb")
    (site / "elsewhere").symlink_to(tmp_path / "elsewhere/own")

    assert [card.name for card in cards.read([site, ours], [])] == ["own/good", "pytorch/good"]


def test_a_notebook_with_pictures_in_its_text_is_shown(tmp_path: Path) -> None:
    template(tmp_path, "pytorch/good", summary="Pictures.")
    place = tmp_path / "pytorch/good.ipynb"
    place.write_text(place.read_text() + " " * 3 * 2**20)

    assert [card.name for card in cards.read([tmp_path], [])] == ["pytorch/good"]


def test_a_look_at_a_folder_has_an_end_whatever_lies_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred names of one long file are read as one; of a folder, so many bytes and so many notebooks."""
    site, other = tmp_path / "site", tmp_path / "other"
    template(site, "a/linked")
    linked = site / "a/linked.ipynb"
    linked.write_text(linked.read_text() + " " * 3 * 2**20)
    for number in range(200):
        (site / f"a/one{number:03}.ipynb").symlink_to(linked)
    for number in range(12):
        template(site, f"b/long{number:02}")
        with (site / f"b/long{number:02}.ipynb").open("a") as file:
            file.write(" " * 3 * 2**20)
    for number in range(400):
        template(site, f"c/small{number:03}")
    template(site, "d/over", summary="x" * 900)
    (site / "d/over.ipynb").write_text(" " * (4 * 2**20) + (site / "d/over.ipynb").read_text())
    template(other, "z/other")
    parsed: list[int] = []
    loads = json.loads

    def counted(text: bytes) -> Any:
        parsed.append(len(text))
        return loads(text)

    monkeypatch.setattr(json, "loads", counted)

    found = [card.name for card in cards.read([site, other], [])]

    assert sum(parsed) <= look.BYTES_MAX + 2**20
    assert max(parsed) <= 4 * 2**20
    assert len(found) <= look.NOTEBOOKS_MAX + 1
    assert [len([name for name in found if name.startswith(f"{framework}/")]) for framework in "abcdz"] == [
        201,  # however many names the file has
        9,  # of twelve
        500 - 201 - 12 - 1,  # what is too long had its turn, too
        0,
        1,  # another folder has bounds of its own
    ]


def test_a_card_keeps_no_endless_list_of_files(tmp_path: Path) -> None:
    template(tmp_path, "a/one", files=[f"{number}" for number in range(100_000)])

    (found,) = templates(tmp_path)

    assert len(found.files) == FILES_MAX


def test_a_folder_with_names_without_end_is_looked_at_for_some_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look, "NAMES_MAX", 20)
    for number in range(30):
        template(tmp_path, f"a/one{number}")

    assert len(cards.read([tmp_path], [])) == 20


@pytest.mark.parametrize(
    ("words", "framework", "expected"),
    [
        ("", "", ["a/one", "b/two"]),
        ("RESNET50", "", ["b/two"]),
        ("train resnet50", "", ["b/two"]),
        ("resnet50 audio", "", []),
        ("", "Keras", ["a/one"]),
        ("train", "Keras", []),
    ],
)
def test_cards_are_found_by_all_words_and_by_framework(words: str, framework: str, expected: list[str]) -> None:
    one = Card("a/one", "", "First steps", "Read images.", "Keras", "MNIST", 0, 1)
    two = Card("b/two", "", "ResNet50 in the open", "Train it.", "PyTorch", "ImageNet", 1, 5)

    assert [card.name for card in cards.matching([one, two], words, framework)] == expected
    assert [card.mark for card in (one, two)] == ["Ke", "PT"]
    assert cards.frameworks([two, one, two]) == ["Keras", "PyTorch"]


def test_the_way_goes_from_first_steps_to_many_nodes() -> None:
    given = [Card(f"a/{level}", "", "", "", "R", "", 0, 1, level) for level in (3, 1, 3)]

    found = cards.levels(given)

    assert [(title, [card.name for card in there]) for title, there in found] == [
        ("First steps", ["a/1"]),
        ("On many processes and nodes", ["a/3", "a/3"]),
    ]


async def test_folders_are_read_by_one_thread_and_a_silent_one_keeps_nobody_waiting() -> None:
    goes_on, reads = threading.Event(), []

    def read() -> tuple[Card, ...]:
        reads.append(threading.get_ident())
        goes_on.wait(20)
        return (Card("a/one", "", "", "", "", "", 0, 1),)

    showcase = Showcase(read, waits_s=0.05)
    assert await asyncio.gather(*(showcase.cards() for _ in range(50))) == [None] * 50
    goes_on.set()
    showcase._waits_s = 20
    found = await showcase.cards()

    assert found
    assert [card.name for card in found] == ["a/one"]
    assert await showcase.cards() == found
    assert len(reads) == 1
    assert threading.get_ident() not in reads


async def test_what_was_read_before_is_shown_while_a_folder_cannot_be_read() -> None:
    answers: list[Any] = [(Card("a/one", "", "", "", "", "", 0, 1),), OSError("stale file handle"), ()]

    def read() -> tuple[Card, ...]:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return tuple(answer)

    showcase = Showcase(read, fresh_s=0)
    first = await showcase.cards()

    assert first
    assert await showcase.cards() == first
    assert await showcase.cards() == ()


async def test_folders_that_cannot_be_read_are_told_once_until_the_words_change(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answers: list[Any] = ["stale file handle"] * 3 + ["permission denied", (), "permission denied"]

    def read() -> tuple[Card, ...]:
        answer = answers.pop(0)
        if isinstance(answer, str):
            raise OSError(answer)
        return tuple(answer)

    showcase = Showcase(read, fresh_s=0)
    while answers:
        await showcase.cards()

    said = [record.getMessage() for record in caplog.records if record.name == "portal.showcase.page"]
    assert [("stale" in line, "permission" in line) for line in said] == [(True, False), (False, True), (False, True)]
    assert ["What was read before is shown" in line for line in said] == [False, False, True]


async def test_folders_that_do_not_answer_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    goes_on = threading.Event()

    def read() -> tuple[Card, ...]:
        goes_on.wait(20)
        return ()

    showcase = Showcase(read, waits_s=0.01)
    for _ in range(3):
        assert await showcase.cards() is None
    goes_on.set()
    showcase._waits_s = 20
    assert await showcase.cards() == ()

    assert len([record for record in caplog.records if "do not answer" in record.getMessage()]) == 1
