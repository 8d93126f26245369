"""Large files in Chromium: an upload that is cut off goes on where it was; a download too, with the same file only."""

from __future__ import annotations

import hashlib
import os
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from tests.session.conftest import window
from tests.session.session_server import TOKEN, Server

SIZE = 60_000_000
CUT = 24_000_000  # bytes after which the network is away
Picture = Callable[[Page, str], None]


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file on the disk of the person."""
    file = tmp_path_factory.mktemp("laptop") / "big data.bin"
    file.write_bytes(os.urandom(SIZE))
    return file


class Desk:
    """A browser window with the list of files of an empty folder, whose network can be cut."""

    def __init__(self, page: Page, server: Server, address: str) -> None:
        self.page = page
        self.folder = server.home / f"large#1: {address.partition('/')[0]}"  # no part of it is one of an address
        self.folder.mkdir(exist_ok=True)
        self._address = f"{server.url}{address}/{quote(self.folder.name)}"
        self._cut_at: int | None = None
        self._is_away = False
        self.offsets: list[int] = []
        page.on("dialog", lambda dialog: dialog.accept())
        page.route("**/dsportal/api/upload?*", self._pass)

    def open(self) -> None:
        """Load the page."""
        self.page.goto(self._address)
        expect(self.page.locator(".jp-BreadCrumbs-item", has_text=self.folder.name)).to_be_visible()
        expect(self._button()).to_be_visible()

    def choose(self, file: Path) -> None:
        """Upload a file by the button."""
        with self.page.expect_file_chooser() as chooser:
            self._button().click()
        chooser.value.set_files(file)

    def cut(self, offset: int) -> None:
        """From this byte on the network is away."""
        self._cut_at = offset

    def mend(self) -> None:
        """It is back."""
        self._cut_at = None
        self._is_away = False

    def says(self, text: str) -> None:
        """A note says so."""
        expect(self.page.locator(".jp-toast-message", has_text=text).first).to_be_visible()

    def press(self, label: str) -> None:
        """A button of the note."""
        self.page.locator(".jp-toast-button", has_text=label).first.click()

    def partial(self) -> list[Path]:
        """What is there of an upload."""
        return list(self.folder.glob(".upload-*.part"))

    def _button(self) -> Locator:
        return self.page.locator('[data-jp-item-name="uploader"] jp-button').first

    def _pass(self, route: Route) -> None:
        offset = int(route.request.headers.get("upload-offset", "-1"))
        if self._cut_at is not None and offset >= self._cut_at:
            self._is_away = True
        if self._is_away:
            route.abort()
            return
        if offset >= 0:
            self.offsets.append(offset)
        route.continue_()


@pytest.fixture
def lab(browser: Browser, server: Server) -> Iterator[Desk]:
    """JupyterLab."""
    with window(browser, server) as page:
        desk = Desk(page, server, "lab/tree")
        desk.open()
        yield desk


@pytest.fixture
def notebook(browser: Browser, server: Server) -> Iterator[Desk]:
    """Notebook 7."""
    with window(browser, server) as page:
        desk = Desk(page, server, "tree")
        desk.open()
        yield desk


def digest(file: Path) -> str:
    """What two files have in common that are the same."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_an_upload_that_was_cut_off_goes_on_in_a_new_page(lab: Desk, big: Path, picture: Picture) -> None:
    lab.cut(CUT)
    lab.choose(big)
    lab.says("It goes on by itself")
    picture(lab.page, "cut")
    (there,) = lab.partial()
    assert there.stat().st_size >= CUT
    before = there.stat().st_size

    lab.open()
    lab.mend()
    lab.offsets.clear()
    lab.choose(big)

    lab.says("is uploaded")
    assert lab.offsets[0] == before
    assert digest(lab.folder / big.name) == digest(big)
    expect(lab.page.locator(".jp-DirListing-item", has_text=big.name)).to_be_visible()
    assert lab.partial() == []


def test_an_upload_is_paused_goes_on_by_itself_and_is_cancelled(notebook: Desk, big: Path, picture: Picture) -> None:
    notebook.cut(CUT)
    notebook.choose(big)
    notebook.says("It goes on by itself")
    notebook.press("Pause")
    notebook.says("paused")
    picture(notebook.page, "paused")
    notebook.mend()
    notebook.press("Resume")
    notebook.says("is uploaded")
    assert digest(notebook.folder / big.name) == digest(big)

    os.utime(big)
    (notebook.folder / big.name).unlink()
    notebook.cut(CUT)
    notebook.choose(big)
    notebook.says("It goes on by itself")
    notebook.press("Pause")
    notebook.says("paused")
    notebook.mend()
    assert notebook.partial()
    notebook.press("Cancel")
    expect(notebook.page.locator(".jp-toast-message", has_text="paused")).to_have_count(0)
    assert list(notebook.folder.iterdir()) == []


def test_a_download_goes_on_with_the_same_file_only(server: Server, big: Path) -> None:
    file = server.home / "to download.bin"
    file.write_bytes(big.read_bytes())

    def get(**headers: str) -> tuple[int, bytes, str]:
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        headers["Authorization"] = f"token {TOKEN}"
        request = urllib.request.Request(f"{server.url}files/to%20download.bin?download=1", headers=headers)  # noqa: S310
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
            return answer.status, answer.read(), answer.headers["Last-Modified"]

    status, head, stamp = get(Range=f"bytes=0-{CUT - 1}")
    assert (status, len(head)) == (206, CUT)
    status, tail, _ = get(Range=f"bytes={CUT}-", If_Range=stamp)
    assert (status, head + tail == big.read_bytes()) == (206, True)
    os.utime(file, (1, 1))
    status, whole, _ = get(Range=f"bytes={CUT}-", If_Range=stamp)
    assert (status, len(whole)) == (200, SIZE)
