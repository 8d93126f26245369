"""A window with the list of files of an empty folder, for what is uploaded into it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Browser, Locator, Page, Route, expect

from tests.browser.portal_page import look_sooner
from tests.inside import sh
from tests.session.conftest import window
from tests.session.session_server import Server, wait_for

NUMBER = count()


class Desk:
    """A browser window with the list of files of a folder, an empty one unless named, whose network can be cut."""

    def __init__(self, page: Page, server: Server, address: str, folder: Path | None = None) -> None:
        self.page = page
        self.folder = folder or server.home / f"files#{next(NUMBER)}: of tests"  # no part of it is one of an address
        self.folder.mkdir(exist_ok=True)
        self._address = f"{server.url}{address}/{quote(self.folder.name)}"
        self._cut_at: int | None = None
        self._is_away = False
        self._before_next: Callable[[], None] = lambda: None
        self.offsets: list[int] = []
        page.on("dialog", lambda dialog: dialog.accept())
        for tries_again_ms in (2_000, 4_000, 8_000, 15_000):
            look_sooner(page.context, tries_again_ms, 1_000)
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

    def drop(self, *paths: Path) -> None:
        """Drop files and folders on the list of files, as out of another program's window."""
        place = self.page.locator(".jp-DirListing-content").bounding_box()
        assert place
        at = {"x": place["x"] + place["width"] / 2, "y": place["y"] + place["height"] - 20}
        data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
        browser = self.page.context.new_cdp_session(self.page)
        for kind in ("dragEnter", "dragOver", "drop"):
            browser.send("Input.dispatchDragEvent", {"type": kind, **at, "data": data})
        browser.detach()

    def has(self, name: str) -> None:
        """The list of files shows it."""
        expect(self.page.locator(".jp-DirListing-itemName", has_text=name).first).to_be_visible()

    def cut(self, offset: int) -> None:
        """From this byte on the network is away."""
        self._cut_at = offset

    def fill_before_next_part(self, file: Path, left: int) -> None:
        """When the next part is on its way, somebody else fills the disk."""
        self._before_next = lambda: fill(file, left)

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

    def waits(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait for something outside the page, whose requests go on meanwhile."""

        def holds() -> bool:
            self.page.wait_for_timeout(20)
            with suppress(FileNotFoundError):  # it looks at files, which the page moves meanwhile
                return condition()
            return False

        wait_for(what, holds)

    def answer(self, button: str) -> None:
        """Press a button of the dialog that asks something."""
        self.page.locator(".jp-Dialog button", has_text=button).click()

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
            self._before_next()
            self._before_next = lambda: None
        route.continue_()


@contextmanager
def opened(browser: Browser, server: Server, address: str) -> Iterator[Desk]:
    """A desk in a window of its own."""
    with window(browser, server) as page:
        desk = Desk(page, server, address)
        desk.open()
        yield desk


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[None]:
    """Meanwhile the folder is a file system of its own."""
    sh("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))
    try:
        yield
    finally:
        sh("umount", "--lazy", str(folder))


def fill(file: Path, left: int) -> None:
    """Leave so many bytes free on a file's disk, but for its last block."""
    disk = os.statvfs(file.parent)
    with file.open("wb") as opened_file:
        os.posix_fallocate(opened_file.fileno(), 0, disk.f_bavail * disk.f_frsize - left)
