"""Large files in Chromium: an upload that is cut off goes on where it was; a download too, with the same file only."""

from __future__ import annotations

import hashlib
import os
import shutil
import urllib.request
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from portal.downloads.listed_folders import LISTED_BYTES, LISTED_MAX
from tests.session.conftest import window
from tests.session.file_desk import Desk, fill, opened, small_disk
from tests.session.session_server import TOKEN, Server

SIZE = 20_000_000  # JupyterLab asks above 15 MiB whether one really wants to
CUT = 1_000_000  # bytes after which the network is away: the first part has a few more
NARROW = 300_000  # bytes
REFUSE_LARGE = f"""
  const send = window.fetch;
  window.fetch = async (request, ...more) => {{
    const isLarge = request.method === "PATCH" && (await request.clone().blob()).size > {NARROW};
    return isLarge ? new Response("<h1>413</h1>", {{status: 413}}) : send(request, ...more);
  }};
"""
Picture = Callable[[Page, str], None]


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file on the disk of the person."""
    file = tmp_path_factory.mktemp("laptop") / "big data.bin"
    file.write_bytes(os.urandom(SIZE))
    return file


@pytest.fixture
def lab(browser: Browser, server: Server) -> Iterator[Desk]:
    """JupyterLab."""
    with opened(browser, server, "lab/tree") as desk:
        yield desk


@pytest.fixture
def notebook(browser: Browser, server: Server) -> Iterator[Desk]:
    """Notebook 7."""
    with opened(browser, server, "tree") as desk:
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


def test_a_cancelled_upload_says_what_it_does_not_take_away(lab: Desk, big: Path, picture: Picture) -> None:
    lab.folder.chmod(0o777)
    lab.cut(CUT)
    lab.choose(big)
    lab.says("It goes on by itself")
    lab.press("Pause")
    lab.says("paused")
    lab.mend()
    (there,) = lab.partial()
    there.unlink()
    there.write_bytes(b"another file of the person's")

    lab.press("Cancel")

    lab.says("in a terminal, then upload again: it is another file")
    picture(lab.page, "kept")
    assert there.read_bytes() == b"another file of the person's"
    expect(lab.page.locator(".jp-toast-message", has_text="paused")).to_have_count(0)
    expect(lab.page.locator(".jp-toast-button", has_text="Cancel")).to_have_count(0)


@pytest.mark.parametrize("exchanged", ["after it was opened", "while the Lab asks"])
def test_a_small_upload_is_as_closed_as_what_it_was_to_replace(
    lab: Desk, server: Server, tmp_path: Path, exchanged: str
) -> None:
    """Whatever somebody puts there: after this session has opened it, or before it is answered what to do."""
    lab.folder.chmod(0o777)
    there, new = (folder / "salaries.csv" for folder in (lab.folder, tmp_path))
    there.write_text("old")
    there.chmod(0o600)
    new.write_text("new")
    if exchanged == "after it was opened":
        assert server.ask(f"api/contents/{quote(lab.folder.name)}/salaries.csv")[0] == 200
    else:
        lab.choose(new)
        expect(lab.page.locator(".jp-Dialog", has_text="already exists")).to_be_visible()
    there.unlink()
    there.write_text("another")
    there.chmod(0o666)
    if exchanged == "after it was opened":
        lab.choose(new)

    lab.answer("Overwrite")

    lab.waits("the new file", lambda: there.read_text() == "new")
    assert there.stat().st_mode & 0o777 == 0o600
    assert lab.partial() == []


def test_an_upload_does_not_begin_anew_by_itself_in_a_folder_that_has_nothing_of_it(
    lab: Desk, big: Path, picture: Picture
) -> None:
    """Another folder may have its name, and a session that was moved in the meantime does not know of the first one."""
    lab.cut(CUT)
    lab.choose(big)
    lab.says("It goes on by itself")
    lab.folder.rename(lab.folder.parent / f"{lab.folder.name} as it was")
    lab.folder.mkdir()

    lab.mend()

    lab.says("What was sent is gone.")
    picture(lab.page, "not-there-any-more")
    assert lab.partial() == []
    lab.press("Resume")
    lab.says("is uploaded")
    assert digest(lab.folder / big.name) == digest(big)


def test_a_full_disk_keeps_what_fits_and_it_goes_on_when_there_is_room(lab: Desk, big: Path, picture: Picture) -> None:
    with small_disk(lab.folder, SIZE + 20_000_000):
        lab.open()
        lab.cut(CUT)
        lab.choose(big)
        lab.says("It goes on by itself")
        old = lab.folder / "old results"
        fill(old, left=3_000_000)
        lab.mend()
        lab.says("are free there. Make room, then go on.")  # looked at before more is sent
        picture(lab.page, "no-room")
        old.unlink()
        lab.fill_before_next_part(old, left=3_000_000)
        lab.press("Resume")
        lab.says("No more fits: the disk is full.")
        lab.says("are there and stay. Make room, then go on.")
        picture(lab.page, "full")
        (there,) = lab.partial()
        before = there.stat().st_size
        assert before > CUT
        old.unlink()
        lab.offsets.clear()

        lab.press("Resume")

        lab.says("is uploaded")
        assert lab.offsets[0] == before
        assert digest(lab.folder / big.name) == digest(big)


@pytest.mark.long
def test_two_windows_send_one_file_and_files_of_one_name(
    lab: Desk, browser: Browser, server: Server, big: Path
) -> None:
    with window(browser, server) as page:
        other = Desk(page, server, "lab/tree", lab.folder)
        other.open()
        lab.cut(CUT)
        lab.choose(big)
        lab.says("It goes on by itself")
        other.choose(big)
        other.says("is uploaded")

        lab.mend()

        lab.says("is uploaded")
        assert digest(lab.folder / big.name) == digest(big)

        os.utime(big)
        lab.open()
        (lab.folder / big.name).unlink()
        lab.cut(CUT)
        lab.choose(big)
        lab.says("It goes on by itself")
        different = big.parent / "other" / big.name
        different.parent.mkdir()
        different.write_bytes(big.read_bytes()[::-1])
        other.open()
        other.choose(different)
        other.says("is uploaded")
        lab.mend()
        expect(lab.page.locator(".jp-Dialog", has_text="already exists")).to_be_visible()
        assert digest(lab.folder / big.name) == digest(different)
        lab.answer("Overwrite")
        lab.says("is uploaded")
        assert digest(lab.folder / big.name) == digest(big)
        assert lab.partial() == []


@pytest.mark.long
def test_a_file_that_changes_on_the_persons_disk_meanwhile_is_not_mixed(
    lab: Desk, big: Path, tmp_path: Path, picture: Picture
) -> None:
    changing = tmp_path / "changing.bin"
    changing.write_bytes(big.read_bytes())
    lab.cut(CUT)
    lab.choose(changing)
    lab.says("It goes on by itself")
    lab.press("Pause")
    lab.says("paused")
    changing.write_bytes(big.read_bytes()[::-1])
    lab.mend()
    lab.press("Resume")
    lab.says("The file has changed on your disk")
    picture(lab.page, "changed")
    lab.press("Cancel")
    expect(lab.page.locator(".jp-toast-message", has_text="has changed")).to_have_count(0)
    assert list(lab.folder.iterdir()) == []

    lab.choose(changing)

    lab.says("is uploaded")
    assert digest(lab.folder / changing.name) == digest(changing)


@pytest.mark.long
def test_a_web_server_in_front_that_takes_small_requests_alone_gets_small_parts(lab: Desk, tmp_path: Path) -> None:
    file = tmp_path / "through a narrow door.bin"
    file.write_bytes(os.urandom(16_000_000))
    lab.page.add_init_script(REFUSE_LARGE)
    lab.open()

    lab.choose(file)

    lab.says("is uploaded")
    assert digest(lab.folder / file.name) == digest(file)
    assert max(after - before for before, after in pairwise(lab.offsets)) <= NARROW


def test_a_file_behind_a_link_to_the_storage_is_downloaded_and_one_that_is_hidden_is_not(
    server: Server, tmp_path: Path
) -> None:
    (tmp_path / "measured.csv").write_text("1,2\n")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "key").write_text("nobody's")
    (server.home / "storage").symlink_to(tmp_path)

    assert server.ask("files/storage/measured.csv") == (200, "1,2\n")
    assert server.ask("files/storage/.hidden/key")[0] == 404
    assert server.ask("files/storage/missing.csv")[0] == 404


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


def test_a_folder_of_very_many_names_is_refused_in_words_and_the_others_are_shown(lab: Desk, picture: Picture) -> None:
    folder = lab.folder / "very-many"
    folder.mkdir()
    for number in range(LISTED_BYTES // 490):  # each name has 494 bytes of JSON, with the way to it and alone
        os.mknod(folder / f"{number:0240}")
    lab.open()

    lab.page.locator(".jp-DirListing-item", has_text=folder.name).dblclick()

    told = lab.page.get_by_role("alert").filter(has_text=f"The folder very-many holds more than {LISTED_MAX:,} names")
    expect(told).to_be_visible()
    picture(lab.page, "very-many")
    told.get_by_role("button", name="Read All").click()  # JupyterLab shows the first 140 letters
    dialog = lab.page.get_by_role("dialog")
    expect(dialog).to_contain_text("or move what you need into a folder of its own.")
    picture(lab.page, "very-many-all")
    dialog.get_by_role("button", name="Close").click()
    expect(lab.page.locator(".jp-DirListing-item", has_text=folder.name)).to_be_visible()
    shutil.rmtree(folder)
