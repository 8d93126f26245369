"""A link leads to a page of the session, and takes or saves no layout of JupyterLab with it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from jupyterhub.handlers import BaseHandler

from portal.forwarding import session_paths
from portal.sessions import requests
from portal.sessions.requests import PendingPage, SpawnPage
from tests.unit.test_session_bodies import TAB, hers, hub_auth, session

__all__ = ["hers", "hub_auth", "session"]  # fixtures
BASE = "/user/alice/"
OWN = f"Sec-Fetch-Site: same-origin\r\nReferer: https://alice.example{BASE}lab/tree/first.ipynb"
HUBS = "Sec-Fetch-Site: same-origin\r\nReferer: https://alice.example/hub/spawn-pending/alice"
ELSEWHERE = (
    "Sec-Fetch-Site: cross-site",
    "Sec-Fetch-Site: same-site",
    "Sec-Fetch-Site: cross-site\r\nCache-Control: max-age=0",
    "Sec-Fetch-Site: none\r\nSec-Purpose: prefetch;prerender\r\nReferer: https://evil.example/",
    HUBS,
)


async def led(port: int, path: str, headers: str, method: str = "GET") -> tuple[int, str]:
    """The status of an answer, and where it leads."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"{method} {BASE}{path} HTTP/1.1\r\nHost: alice.example\r\nConnection: close\r\n{headers}\r\n{TAB}\r\n\r\n"
    writer.write(head.encode())
    answer = (await asyncio.wait_for(reader.read(), 10)).decode()
    writer.close()
    lines = answer.partition("\r\n\r\n")[0].split("\r\n")
    told = dict(line.split(": ", 1) for line in lines[1:])
    return int(lines[0].split()[1]), told.get("Location", "")


@pytest.mark.parametrize("headers", [*ELSEWHERE, OWN, "Sec-Fetch-Site: none", "Accept: */*"])
@pytest.mark.parametrize(
    "path",
    [
        "lab/tree/..%2F..%2Ffiles%2Fteam%2Fm.ipynb",
        "lab/tree/%2e%2E%2f..%2ffiles/team/m.ipynb?reset",
        "lab/workspaces/x/tree/..%2F..%2Ffiles%2Fteam%2Fm.ipynb",
        "lab/tree/a/..%2F..%2F..%2Ffiles",
        "lab/tree/..%5C..%5Cfiles",
        "lab/tree/.%2Ftree%2F.%2F.%2Ftree%2F.%2Ffiles%2Fteam%2Fm.ipynb",
        "doc/tree/./tree/./files",
        "lab?file-browser-path=..%2F..%2Ffiles",
        "doc/tree/..%252F..%252Ffiles%252Fteam%252Fm.ipynb",
        "edit/..%2F..%2Ffiles%2Fteam%2Fm.ipynb",
        "notebooks/..%2F..%2Ffiles",
        "consoles/..%2Fx",
        "tree/..",
        f"lab/tree/%{'25' * 30000}2e%2e",  # read a few times only: one as it came
    ],
)
async def test_no_page_has_a_path_that_leads_out_of_the_files(session: int, headers: str, path: str) -> None:
    """JupyterLab would ask for what lies there, as for a file, and believe what that says."""
    assert await led(session, path, headers) == ((302, BASE) if len(path) < 10000 else (200, ""))


@pytest.mark.parametrize(
    "path", ["lab/tree/a..b/..c/d../...", "lab/tree/a/tree/.b", "lab/tree/a%2Fb.ipynb", "api/contents/a%2F..%2Fb"]
)
async def test_other_paths_are_as_they_were(session: int, hers: str, path: str) -> None:
    assert (await led(session, path, f"{OWN}\r\n{hers}"))[1] == ""


@pytest.mark.parametrize("headers", [*ELSEWHERE, OWN])  # a notebook that a colleague wrote has links, too
@pytest.mark.parametrize(
    ("path", "without"),
    [
        ("lab?reset", "lab"),
        ("lab?reset=1", "lab"),
        ("lab?clone=theirs", "lab"),
        ("lab?clone", "lab"),
        ("lab/?reset", "lab/"),
        (
            "lab/tree/first.ipynb?reset&file-browser-path=/a%20b&clone=x",
            "lab/tree/first.ipynb?file-browser-path=/a%20b",
        ),
        ("lab/workspaces/auto-b?token=hers&reset", "lab/workspaces/auto-b?token=hers"),
        ("lab??reset", "lab"),
        ("lab?%72eset", "lab"),
        ("doc/tree/first.ipynb?reset", "doc/tree/first.ipynb"),
        ("tree?reset", "tree"),
        ("notebooks/first.ipynb?factory=Notebook&reset", "notebooks/first.ipynb?factory=Notebook"),
        ("edit1?reset", "edit1"),
        ("notebooksx?reset", "notebooksx"),
        ("treetemplates/first.ipynb?reset&a=b", "treetemplates/first.ipynb?a=b"),
        ("?reset", ""),
    ],
)
async def test_a_link_leads_to_the_same_page_with_the_layout_as_it_is(
    session: int, hers: str, headers: str, path: str, without: str
) -> None:
    for login in (hers, "Accept: */*"):
        assert await led(session, path, f"{headers}\r\n{login}") == (302, BASE + without)
    assert (await led(session, without, f"{headers}\r\n{hers}"))[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        f"{OWN}\r\nCache-Control: max-age=0",  # as JupyterLab itself goes there
        f"{OWN}\r\nCache-Control: no-cache",
        "Sec-Fetch-Site: none",
        "Accept: */*",
        f"{HUBS}\r\nCache-Control: max-age=0",  # JupyterLab loads its page again (Firefox names who led to it first)
        "Sec-Fetch-Site: cross-site\r\nAuthorization: token hers",
    ],
)
@pytest.mark.parametrize("path", ["lab?reset", "lab/workspaces/mine?reset=1", "lab?clone=mine", "tree?reset"])
async def test_jupyterlab_itself_a_typed_address_and_a_program_are_obeyed(
    session: int, hers: str, headers: str, path: str
) -> None:
    assert await led(session, path, f"{headers}\r\n{hers}") == (200, "")


@pytest.mark.parametrize(
    "path",
    ["lab?resets=1", "lab/tree/reset", "tools/mlflow/?reset", "files/own.html?reset", "oauth_callback?code=x&clone=y"],
)
async def test_what_jupyterlab_does_not_act_on_is_left_alone(session: int, hers: str, path: str) -> None:
    assert (await led(session, path, f"Sec-Fetch-Site: cross-site\r\n{hers}"))[0] == 200


async def test_nobody_is_led_out_of_the_session(session: int) -> None:
    assert await led(session, "/evil.example/lab?reset", "Sec-Fetch-Site: cross-site") == (200, "")


BOBS = "lab/tree/isilon/bobs"


@pytest.mark.parametrize("headers", ELSEWHERE)
@pytest.mark.parametrize(
    ("path", "without"),
    [
        (f"{BOBS}/course.jupyterlab-workspace", BOBS),
        (f"{BOBS}/course.jupyterlab-workspace?reset&a=b", f"{BOBS}?a=b"),
        (f"{BOBS}/a%20b.JupyterLab-Workspac%65", BOBS),
        ("lab/tree/course.jupyterlab-workspace", "lab"),
        ("doc/tree/bobs/course.jupyterlab-workspace", "doc/tree/bobs"),
        ("lab/workspaces/mine/tree/course.jupyterlab-workspace", "lab/workspaces/mine"),
        ("lab/tree/bobs%2Fcourse.jupyterlab-workspace%2F.", "lab"),
        (f"{BOBS}/course.jupyterlab-workspace/", "lab"),
        ("lab/tree/course.jupyterlab-work/tree/space", "lab"),
        ("lab?file-browser-path=isilon/bobs/course.jupyterlab-workspace", "lab"),
        ("lab?a=b&file-browser-path=%2Fcourse%2Ejupyterlab-workspace", "lab?a=b"),
        ("?file-browser-path=course.jupyterlab-workspace", ""),
    ],
)
async def test_a_link_of_elsewhere_to_a_file_with_a_layout_leads_to_its_folder(
    session: int, hers: str, headers: str, path: str, without: str
) -> None:
    for login in (hers, "Accept: */*"):
        assert await led(session, path, f"{headers}\r\n{login}") == (302, BASE + without)
    assert await led(session, without, f"{headers}\r\n{hers}") == (200, "")


@pytest.mark.parametrize("headers", [OWN, f"{OWN}\r\nCache-Control: max-age=0", "Sec-Fetch-Site: none", "Accept: */*"])
async def test_the_session_itself_and_a_typed_address_open_a_file_with_a_layout(
    session: int, hers: str, headers: str
) -> None:
    assert await led(session, f"{BOBS}/course.jupyterlab-workspace", f"{headers}\r\n{hers}") == (200, "")


@pytest.mark.parametrize(
    "path",
    [BOBS, f"{BOBS}/course.ipynb", "lab?file-browser-path=/isilon", "notebooks/course.jupyterlab-workspace"],
)
async def test_a_link_to_what_is_no_layout_leads_there(session: int, hers: str, path: str) -> None:
    assert await led(session, path, f"Sec-Fetch-Site: cross-site\r\n{hers}") == (200, "")


@pytest.mark.parametrize("page", [PendingPage, SpawnPage])
@pytest.mark.parametrize(
    ("place", "without"),
    [
        ("/user/alice/lab?reset", "/user/alice/lab"),
        ("/user/alice/lab?a=b&%72eset=1&clone=c#d", "/user/alice/lab?a=b#d"),
        ("/user/alice/?reset", "/user/alice/"),
        ("/user/alice/lab/tree/reset?file-browser-path=/a%20b&c#?reset", None),
        ("/user/alice/lab", None),
        ("/user/alice/tools/x/?", None),
    ],
)
def test_a_page_that_waits_for_the_session_leads_there_with_the_layout_as_it_is(
    monkeypatch: pytest.MonkeyPatch, page: Any, place: str, without: str | None
) -> None:
    monkeypatch.setattr(BaseHandler, "get_next_url", lambda self, user=None, default=None: place)
    assert page.__new__(page).get_next_url() == (place if without is None else without)


def test_the_hub_and_the_way_to_a_session_know_the_same_words() -> None:
    assert requests.OF_LAYOUT == session_paths.OF_LAYOUT
