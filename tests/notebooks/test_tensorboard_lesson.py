"""The TensorBoard lesson on the module kernel, in a real Slurm job, then looked at in the portal's own TensorBoard."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from playwright.sync_api import expect, sync_playwright
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from portal.site import load
from portal.tensorboard.boards import Boards
from tests import pictures
from tests.forms import LONG
from tests.inside import CHROMIUM, CHROMIUM_ARGUMENTS, SITE_FILE, home
from tests.notebooks.jobs import PERSON, Run, finished_run, in_a_job, own_folder
from tests.notebooks.table import FOLDER
from tests.session import session_server

DRAWN_WITHIN_MS = 60_000
FEW = {"epochs": 2, "train_images": 5_000, "profile_steps": 5}
PAGES = ("scalars", "images", "graphs", "histograms", "distributions", "hparams", "timeseries", "profile")


@pytest.fixture(scope="module")
def lesson() -> Iterator[Run]:
    """One small run of the lesson, looked at by all tests."""
    with finished_run("tensorflow/tensorboard", "tensorboard-lesson", FEW) as run:
        yield run


@pytest.fixture(scope="module")
def shown(lesson: Run, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the TensorBoard of a session answers for the lesson's folder."""
    (written,) = (lesson.folder / "logs").iterdir()
    folder = tmp_path_factory.mktemp("own") / "logs"
    shutil.copytree(written, folder)  # by whoever asks here: a board shows profiles of its own person
    columns = [{"hparam": "learning_rate"}, {"hparam": "dropout"}, {"metric": {"group": "", "tag": "test_accuracy"}}]
    request = {"startIndex": 0, "sliceSize": 9, "allowedStatuses": ["STATUS_UNKNOWN"], "colParams": columns}
    questions = ["plugins_listing", *(f"plugin/{name}/tags" for name in ("scalars", "images", "histograms"))]
    (profile,) = (folder / "run-1" / "plugins" / "profile").iterdir()
    host = next(profile.glob("*.xplane.pb")).name.removesuffix(".xplane.pb")
    questions += [f"plugin/profile/data?run={quote(f'run-1/{profile.name}', safe='')}&tag=trace_viewer@&host={host}"]
    questions += ["plugin/graphs/info", f"plugin/hparams/session_groups?request={quote(json.dumps(request))}"]
    return asyncio.run(answers(folder, tmp_path_factory.mktemp("board"), questions))


async def answers(folder: Path, runtime: Path, questions: list[str]) -> dict[str, Any]:
    """Ask a TensorBoard of the portal until it has read the folder, then every question once."""
    boards = Boards(runtime)
    board = boards.open(folder)
    assert await boards.use(board.id) is board
    try:
        for _ in range(150):  # it reads the folder in a thread of its own
            if await ask(board.socket, "plugin/scalars/tags"):
                break
            await asyncio.sleep(0.2)
        return {question: await ask(board.socket, question) for question in questions}
    finally:
        await board.stop()


async def ask(socket: Path, question: str) -> Any:
    """One answer of TensorBoard on its Unix socket."""
    reader, writer = await asyncio.open_unix_connection(socket)
    writer.write(f"GET /data/{question} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    assert b" 200 " in head.splitlines()[0], head
    return json.loads(gzip.decompress(body) if b"content-encoding: gzip" in head.lower() else body)


def test_every_page_of_tensorboard_has_something_to_show(shown: dict[str, Any]) -> None:
    listing = shown["plugins_listing"]
    assert {name: listing[name]["enabled"] for name in PAGES} == dict.fromkeys(PAGES, True)


def test_the_page_of_profiles_shows_each_operation_on_a_time_line(shown: dict[str, Any]) -> None:
    (trace,) = (answer for question, answer in shown.items() if "trace_viewer" in question)
    names = {event["name"] for event in trace["traceEvents"] if event["ph"] == "X" and event["dur"] > 0}
    assert any("Conv2D" in name for name in names), names


def test_both_runs_are_there_with_their_curves_images_graph_and_weights(shown: dict[str, Any]) -> None:
    for run in ("run-1", "run-2"):
        assert {"epoch_accuracy", "epoch_loss"} <= set(shown["plugin/scalars/tags"][f"{run}/train"])
        assert {"epoch_accuracy", "epoch_loss"} <= set(shown["plugin/scalars/tags"][f"{run}/validation"])
        assert shown["plugin/images/tags"][run]["mistakes"]["samples"] == 8
        assert "classes/kernel/histogram" in " ".join(shown["plugin/histograms/tags"][f"{run}/train"])
        assert shown["plugin/graphs/info"][f"{run}/train"]["tags"]["keras"]["conceptual_graph"]


def test_the_hyper_parameters_stand_beside_the_accuracy_that_they_gave(shown: dict[str, Any], lesson: Run) -> None:
    (groups,) = (answer for question, answer in shown.items() if "hparams" in question)
    found = {}
    for group in groups["sessionGroups"]:
        (metric,) = (one["value"] for one in group["metricValues"])
        found[f"{group['hparams']['learning_rate']:g} {group['hparams']['dropout']:g}"] = f"{metric:.4f}"
    table = re.findall(r"^run-\d +(\S+) +(\S+) +(\S+)$", lesson.text("compare"), re.MULTILINE)
    assert found == {f"{rate} {dropout}": accuracy for rate, dropout, accuracy in table}
    assert sorted(found) == ["0.0001 0.3", "0.001 0.3"]


def test_the_curves_hold_what_was_trained(lesson: Run) -> None:
    (folder,) = (lesson.folder / "logs").iterdir()
    for run in ("run-1", "run-2"):
        train = EventAccumulator(str(folder / run / "train"), {"tensors": 0}).Reload()
        assert [event.step for event in train.Tensors("epoch_accuracy")] == [0, 1]
        images = EventAccumulator(str(folder / run), {"tensors": 0}).Reload().Tensors("mistakes")
        width, height, *drawn = images[-1].tensor_proto.string_val
        assert (width, height) == (b"28", b"28")
        assert all(picture.startswith(b"\x89PNG") for picture in drawn)
        assert len(drawn) == 8


def test_the_profile_names_the_operations_that_took_the_time(lesson: Run) -> None:
    rows = re.findall(r"^(\w+) +([\d.]+) +(\d+)% +(\d+)$", lesson.text("profile"), re.MULTILINE)
    assert len(rows) == 8
    assert any("Conv2D" in name for name, *_ in rows)
    assert [float(ms) for _, ms, *_ in rows] == sorted((float(ms) for _, ms, *_ in rows), reverse=True)
    assert list((lesson.folder / "logs").glob("*/run-1/plugins/profile/*/*.xplane.pb"))


def test_it_reaches_its_floor_and_links_to_its_own_folder(lesson: Run) -> None:
    assert re.search(r"As expected: run-1 is the best, and 0\.\d{4} is not below 0\.55", lesson.text("compare"))
    (folder,) = (lesson.folder / "logs").iterdir()
    (link,) = lesson.shown("tensorboard-link", "text/html")
    assert f'href="/user/{PERSON}/tensorboard/open?path=tensorboard-lesson/logs/{folder.name}"' in link


def test_a_bar_shows_how_many_epochs_are_done(lesson: Run) -> None:
    assert lesson.bars("train") == [1.0]


def test_nothing_puzzling_is_printed_to_stderr(lesson: Run) -> None:
    assert {name: noise for name, noise in lesson.stderr.items() if noise} == {}


if LONG:

    def test_a_page_without_data_fails_the_check() -> None:
        folder = own_folder("tensorboard-empty-page")
        run = in_a_job("tensorflow/tensorboard", folder, {"epochs": 1, "train_images": 256, "profile_steps": 0})
        assert run.status != 0
        assert "the cell 'check' failed with AssertionError: There is no operation in the profile" in run.log
        shutil.rmtree(folder)


def test_its_link_leads_to_the_hyper_parameters_and_the_profile_in_a_browser(lesson: Run, tmp_path: Path) -> None:
    (link,) = lesson.shown("tensorboard-link", "text/html")
    (folder,) = re.findall(rf'href="/user/{PERSON}/tensorboard/open\?path=([^"]+)"', link)
    accuracies = re.findall(r"^run-\d .* (\S+)$", lesson.text("compare"), re.MULTILINE)
    server = session_server.launch(tmp_path, load(str(SITE_FILE)))
    try:
        shutil.copytree(home(PERSON) / unquote(folder), server.home / unquote(folder))
        session_server.wait_for("server", lambda: session_server.answers(server))
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_ARGUMENTS)
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.goto(f"{server.url}login?token={session_server.TOKEN}")
            page.goto(f"{server.url}tensorboard/open?path={folder}")
            page.get_by_role("link", name="Open it").click()
            page.get_by_role("tab", name="HParams").click(timeout=DRAWN_WITHIN_MS)
            table = page.locator("#sessionGroupsTable")
            for text in ("run-1", "run-2", *(f"{accuracy}0" for accuracy in accuracies)):
                expect(table.get_by_text(text, exact=True)).to_be_visible(timeout=DRAWN_WITHIN_MS)
            pictures.keep(page, FOLDER / "tensorboard-hparams.png")
            page.get_by_role("tab", name="Profile").click()
            profile = page.frame_locator("iframe").get_by_text(re.compile("^ *run-1/")).first
            expect(profile).to_be_visible(timeout=DRAWN_WITHIN_MS)
            pictures.keep(page, FOLDER / "tensorboard-profile.png")
            browser.close()
    finally:
        server.stop()
