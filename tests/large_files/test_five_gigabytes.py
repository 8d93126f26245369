"""A file of five gigabytes, as a person brings it into a session and out of it: through Chromium, proxy and session.

`tests/run.py large_files`, ten minutes and 20 GB of disk; DSPORTAL_LARGE_GB is another size. The figures stand in
``large_files.txt`` of the artefacts.
"""

from __future__ import annotations

import hashlib
import os
import signal
import tarfile
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.portal_page import PICTURES, log_in_as, picture
from tests.hub.conftest import Hub, Person
from tests.inside import eventually, has_no_job, home
from tests.large_files.conftest import SIZE
from tests.large_files.watch import measured, session_of

HALF = SIZE // 2
DEADLINE_MS = 900_000
GROWTH_MAX_MIB = 150  # a thirtieth of the file
FILES = "/user/alice/files/large"
PIECE = 2**20

broken_step = ""  # the name of the first step that failed; conftest.py fills it in


def tell(line: str) -> None:
    """Keep a figure."""
    print(f"\n{line}", flush=True)
    with PICTURES.with_name("large_files.txt").open("a") as file:
        file.write(f"{line}\n")


def digest(file: Path) -> str:
    """What two files have in common that are the same."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def choose(page: Page, file: Path) -> None:
    """Upload a file by JupyterLab's button."""
    page.goto("user/alice/lab/tree/large")
    expect(page.locator(".jp-BreadCrumbs-item", has_text="large")).to_be_visible(timeout=90_000)
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Upload Files").click()
    chooser.value.set_files(file)


def note(page: Page, text: str) -> Locator:
    """A note that says so."""
    return page.locator(".jp-toast-message", has_text=text).first


def menu(page: Page, name: str, entry: str) -> None:
    """Take an entry of a file's menu."""
    page.locator(".jp-DirListing-item", has_text=name).first.click(button="right")
    page.locator(".lm-Menu-item", has_text=entry).first.click()


@pytest.fixture
def there(big: Path) -> Path:
    """Where the file will be."""
    return home("alice") / "large" / big.name


def test_an_upload_goes_on_where_the_session_was_killed(
    page: Page, hub: Hub, alice: Person, big: Path, there: Path
) -> None:
    page.on("dialog", lambda dialog: dialog.accept())
    log_in_as(page, "alice")

    def length() -> int:
        return sum(part.stat().st_size for part in there.parent.glob(".upload-*.part"))

    with measured(hub) as first:
        choose(page, big)
        expect(note(page, " MB/s, ")).to_be_visible(timeout=60_000)
        picture(page, "80-large-upload")
        eventually(lambda: length() > HALF, "half of it is there", DEADLINE_MS / 1000, every_s=0.05)
        sent = length()
    os.kill(session_of("alice"), signal.SIGKILL)
    expect(note(page, "It goes on by itself")).to_be_visible(timeout=60_000)
    picture(page, "81-large-upload-cut")
    kept = length()
    assert kept >= sent
    tell(first.line("upload in Chromium, first half", sent))

    eventually(lambda: not alice.server(), "the hub knows that it has ended", 120)
    eventually(lambda: has_no_job("alice"), "its job has ended", 120)
    alice.start()
    with measured(hub) as second:
        choose(page, big)
        expect(note(page, "is uploaded")).to_be_visible(timeout=DEADLINE_MS)
    tell(second.line("the rest, in a new session", SIZE - kept))

    assert digest(there) == digest(big)
    assert max(first.growth(), second.growth()) < GROWTH_MAX_MIB


def test_a_download_that_was_cut_goes_on(hub: Hub, alice: Person, big: Path, there: Path) -> None:
    address = f"{FILES}/{there.name}?download=1"
    seen = hashlib.sha256()
    got = 0
    with measured(hub) as figures:
        with alice.http.stream("GET", address) as answer:
            stamp = answer.headers["Last-Modified"]
            for piece in answer.iter_raw(PIECE):
                seen.update(piece)
                got += len(piece)
                if got > HALF:
                    break
        with alice.http.stream("GET", address, headers={"Range": f"bytes={got}-", "If-Range": stamp}) as answer:
            assert (answer.status_code, int(answer.headers["Content-Length"])) == (206, SIZE - got)
            for piece in answer.iter_raw(PIECE):
                seen.update(piece)
    tell(figures.line("download, cut and gone on by `Range`", SIZE))

    assert seen.hexdigest() == digest(big)
    assert figures.growth() < GROWTH_MAX_MIB


def test_chromium_downloads_it(page: Page, hub: Hub, big: Path) -> None:
    with measured(hub) as figures:
        with page.expect_download() as download:
            menu(page, big.name, "Download")
        got = download.value.path()
    tell(figures.line("download in Chromium", SIZE))

    assert digest(got) == digest(big)
    assert figures.growth() < GROWTH_MAX_MIB
    download.value.delete()


def test_a_folder_of_that_size_comes_as_an_archive(page: Page, hub: Hub, big: Path) -> None:
    page.goto("user/alice/lab?reset")
    expect(page.locator(".jp-Launcher")).to_be_visible(timeout=90_000)
    with measured(hub) as figures:
        with page.expect_download() as download:
            menu(page, "large", "Download as an Archive")
        got = download.value.path()
    tell(figures.line("the folder as an archive", SIZE))

    with tarfile.open(got, "r|gz") as archive:
        seen = {}
        for entry in archive:
            if file := archive.extractfile(entry):
                seen[entry.name] = hashlib.sha256()
                for piece in iter(partial(file.read, PIECE), b""):
                    seen[entry.name].update(piece)
    assert {name: found.hexdigest() for name, found in seen.items()} == {f"large/{big.name}": digest(big)}
    assert figures.growth() < GROWTH_MAX_MIB
    download.value.delete()


def test_the_lab_shows_the_quota_that_the_site_tells(page: Page) -> None:
    page.locator(".dsportal-Usage button").click()

    dialog = page.get_by_role("dialog").filter(has_text="What this session uses")
    expect(dialog).to_contain_text("Your home90 of 100 GB: nearly full")
    picture(page, "82-quota-in-lab")
