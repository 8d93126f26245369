"""A folder downloaded as an archive, in JupyterLab and in Notebook 7; cancelled when its browser goes away."""

from __future__ import annotations

import json
import os
import socket
import tarfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from portal.downloads.pages import AT_ONCE
from tests.session.conftest import window
from tests.session.session_server import TOKEN, Server, wait_for

BIG = 48 * 1024**2  # bytes that no compression makes less: more than the sockets between hold
Picture = Callable[[Page, str], None]


@pytest.fixture(scope="module")
def folder(server: Server) -> Path:
    """A folder in the home."""
    made = server.home / "of archive"
    (made / "inner").mkdir(parents=True)
    (made / "inner/weights").write_bytes(os.urandom(3_000_000))
    (made / "out").symlink_to("/etc/passwd")
    return made


def begun(server: Server, path: str) -> socket.socket:
    """A download whose client reads its first bytes."""
    url = urlsplit(server.url)
    client = socket.create_connection((str(url.hostname), int(url.port or 0)))
    head = f"GET {url.path}dsportal/api/archive?path={path} HTTP/1.1\r\nHost: {url.netloc}\r\n"
    client.sendall(f"{head}Authorization: token {TOKEN}\r\n\r\n".encode())
    assert b" 200 OK" in client.recv(1000)
    return client


@pytest.mark.parametrize("address", ["lab?reset", "tree"])
def test_a_folder_is_downloaded_by_its_menu(
    browser: Browser, server: Server, folder: Path, picture: Picture, tmp_path: Path, address: str
) -> None:
    with window(browser, server) as page:
        page.goto(f"{server.url}{address}")
        page.locator(".jp-DirListing-item", has_text=folder.name).click(button="right")
        entry = page.locator(".lm-Menu-item", has_text="Download as an Archive")
        expect(entry).to_be_visible()
        picture(page, "archive")
        with page.expect_download() as download:
            entry.click()
        assert download.value.suggested_filename == "of archive.tar.gz"
        download.value.save_as(tmp_path / "got.tar.gz")
        page.locator(".jp-DirListing-item", has_text="notes.txt").click(button="right")
        expect(page.locator(".lm-Menu-item", has_text="Rename")).to_be_visible()
        expect(entry).to_have_count(0)
    with tarfile.open(tmp_path / "got.tar.gz") as got:
        assert {"of archive/inner", "of archive/inner/weights", "of archive/LEFT-OUT.txt"} == set(got.getnames())
        weights = got.extractfile("of archive/inner/weights")
        assert weights is not None
        assert weights.read() == (folder / "inner/weights").read_bytes()


def test_so_many_at_a_time_and_one_that_nobody_reads_any_more_ends(server: Server) -> None:
    big = server.home / "big-folder"
    big.mkdir()
    (big / "data").write_bytes(os.urandom(BIG))
    clients = [begun(server, "big-folder") for _ in range(AT_ONCE)]
    status, text = server.ask("dsportal/api/archive?path=big-folder&look=1")
    assert (status, "Wait for one of them" in json.loads(text)["message"]) == (429, True)

    for client in clients:
        client.close()

    wait_for("end", lambda: server.ask("dsportal/api/archive?path=big-folder&look=1")[0] == 200)


@pytest.mark.parametrize(("path", "status"), [("/etc", 404), ("../..", 403), ("notes.txt", 404), ("none", 404)])
def test_other_places_are_refused_in_words(server: Server, path: str, status: int) -> None:
    found, text = server.ask(f"dsportal/api/archive?path={path}&look=1")
    assert (found, bool(json.loads(text)["message"])) == (status, True)
    assert server.ask("dsportal/api/archive?path=logs", token="")[0] == 403
