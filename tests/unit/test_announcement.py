"""What the site tells everybody: the text of a file, on the hub's pages and inside sessions; and a session's news."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from portal.guard import announcement
from portal.guard.announcement import AnnouncementFile, SiteAnnouncement
from portal.quotas.figures import GIB, Quota
from portal.session_hub.news import FRESH_S, NOTHING, News
from spawners import callback
from tests.unit.served_hub import served_hub


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The site's file."""
    path = tmp_path / "announcement.txt"
    path.write_text("Maintenance on Friday.\nSave your work.\n")
    return path


async def settled(shown: AnnouncementFile) -> str:
    """What is shown after the look that this begins."""
    assert shown.text is not None
    if shown._reading:
        await shown._reading
    return shown.text


async def test_a_text_is_followed_without_a_restart_and_an_empty_file_or_none_is_nothing(file: Path) -> None:
    now = [0.0]
    shown = AnnouncementFile(str(file), clock=lambda: now[0])
    assert shown.text == "Maintenance on Friday.\nSave your work."

    file.write_text("It is over.")
    assert await settled(shown) == "Maintenance on Friday.\nSave your work.", "not looked at each time"
    now[0] = announcement.FRESH_S + 1
    assert await settled(shown) == "It is over."

    file.write_text(" \n")
    now[0] *= 2
    assert await settled(shown) == ""
    file.unlink()
    now[0] *= 2
    assert await settled(shown) == ""


async def test_a_page_does_not_wait_for_a_file_that_hangs(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    shown = AnnouncementFile(str(file), clock=lambda: now[0])
    goes_on = asyncio.Event()
    loop = asyncio.get_running_loop()

    def hangs(_path: str) -> str:
        asyncio.run_coroutine_threadsafe(goes_on.wait(), loop).result()
        return "late"

    monkeypatch.setattr(announcement, "read", hangs)
    now[0] = 60
    assert shown.text == shown.text == "Maintenance on Friday.\nSave your work."
    goes_on.set()
    assert shown._reading is not None
    await shown._reading
    assert shown.text == "late"


@pytest.mark.parametrize("kind", ["long", "binary", "bytes", "pipe", "folder"])
def test_what_is_no_short_text_is_not_shown_and_the_log_says_so_once(
    file: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    file.unlink()
    put: dict[str, Callable[[], object]] = {
        "long": lambda: file.write_text("x" * 2001),
        "binary": lambda: file.write_bytes(b"\xff\xfe"),
        "bytes": lambda: file.write_bytes(b"a\x1b[31mb"),
        "pipe": lambda: os.mkfifo(file),
        "folder": file.mkdir,
    }
    put[kind]()

    shown = AnnouncementFile(str(file))
    shown._look()

    assert shown.text == ""
    assert caplog.text.count("The announcement is not shown") == 1


@pytest.fixture
def shared(file: Path) -> Path:
    """A folder that a group may write, so that all of it can announce."""
    folder = file.parent / "shared"
    (folder / "texts").mkdir(parents=True)
    folder.chmod(0o775)
    return folder


@pytest.mark.parametrize("kind", ["link", "folder's link", "hard link"])
def test_in_a_folder_of_others_what_leads_to_another_file_is_not_shown_and_the_log_names_file_and_repair(
    file: Path, shared: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever may write there would have a file of the hub's account shown to everybody."""
    put: dict[str, tuple[Path, Callable[[Path], object]]] = {
        "link": (shared / "text", lambda place: place.symlink_to(file)),
        "folder's link": (shared / "now" / file.name, lambda place: place.parent.symlink_to(file.parent)),
        "hard link": (shared / "text", lambda place: place.hardlink_to(file)),
    }
    place, make = put[kind]
    make(place)

    shown = AnnouncementFile(str(place))

    assert shown.text == ""
    (said,) = caplog.messages
    assert f"The announcement is not shown: {place}: " in said
    assert "Write the text into a plain file there" in said


def test_a_plain_file_in_a_folder_of_others_is_shown(shared: Path) -> None:
    (shared / "texts" / "text").write_text("of the group")

    assert AnnouncementFile(str(shared / "texts" / "text")).text == "of the group"


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to somebody else")
def test_so_is_a_file_of_another_account(shared: Path) -> None:
    (shared / "text").write_text("of the group")
    for place in (shared, shared / "text"):
        os.chown(place, 65534, -1)

    assert AnnouncementFile(str(shared / "text")).text == "of the group"


def test_a_link_that_only_the_site_can_have_made_is_followed(file: Path) -> None:
    (file.parent / "link").symlink_to(file.name)
    (file.parent / "named-twice").hardlink_to(file)

    assert AnnouncementFile(str(file.parent / "link")).text == "Maintenance on Friday.\nSave your work."


def test_another_text_has_another_id() -> None:
    assert SiteAnnouncement("one").as_json() == {"id": SiteAnnouncement("one").id, "text": "one"}
    assert SiteAnnouncement("one").id != SiteAnnouncement("two").id


@pytest.mark.parametrize(
    ("template_vars", "text"),
    [
        ({}, None),
        ({"site_announcement": lambda _: "from the file", "announcement": "<b>of JupyterHub</b>"}, "from the file"),
        ({"site_announcement": lambda _: "", "announcement": "<b>of</b> Jupyter&amp;Hub<br>"}, "of Jupyter&Hub"),
        ({"announcement": lambda _: "x"}, None),
        ({"announcement": "<br>"}, None),
    ],
)
def test_sessions_show_the_file_or_jupyterhubs_own_without_its_html(
    template_vars: dict[str, Any], text: str | None
) -> None:
    found = announcement.of_sessions(template_vars)
    assert (found.text if found else None) == text


async def test_every_page_of_the_hub_shows_it_as_text(tmp_path: Path, file: Path) -> None:
    file.write_text("<script>alert(1)</script> & more")

    def prepare(hub: Any) -> None:
        hub.template_vars = {**hub.template_vars, announcement.FILE: str(file)}

    async with served_hub(tmp_path, prepare) as served:
        page = (await (await served.browser()).get("/hub/login")).text
        told = await (await served.browser("alice")).get("/hub/api/dsportal/news")
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in page
    assert told.status_code == 403, "a login is no session"


# -- inside a session -----------------------------------------------------------------------------------


class Hub:
    """Answers what it is told to, and counts."""

    def __init__(self, *answers: tuple[int, Any]) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def ask(self, method: str, name: str, *, timeout_s: float) -> tuple[int, Any]:
        assert (method, name) == ("GET", "news")
        self.asked += 1
        await asyncio.sleep(0)
        return self.answers.pop(0)


async def test_all_pages_of_a_session_ask_the_hub_once_in_a_minute_and_keep_what_it_said() -> None:
    told = {"announcement": {"id": "a1", "text": "Friday"}, "folders": [{"name": "home"}]}
    hub = Hub((200, told), (503, {"message": "away"}), (200, {"announcement": {"id": "a2"}, "folders": None}))
    now = [0.0]
    news = News(hub, clock=lambda: now[0])  # type: ignore[arg-type]

    assert await asyncio.gather(*(news.latest() for _ in range(20))) == [told] * 20
    assert hub.asked == 1
    now[0] = FRESH_S + 1
    assert await news.latest() == told, "a hub that is away takes nothing off a page"
    now[0] *= 3
    assert await news.latest() == NOTHING, "what is no text is none"
    assert hub.asked == 3


async def test_what_the_hub_answers_to_a_session_is_its_announcement_and_its_persons_quotas() -> None:
    said: list[str] = []

    async def quotas() -> tuple[Quota, ...]:
        return (Quota("home", 95 * GIB, 100 * GIB), Quota("scratch"))

    handler: Any = SimpleNamespace(
        spawner=lambda: SimpleNamespace(quotas=quotas),
        settings={"template_vars": {"site_announcement": lambda _: "Friday"}},
        set_header=lambda *_: None,
        finish=said.append,
    )

    await callback.NewsHandler.get(handler)

    told = json.loads(said[0])
    assert told["announcement"]["text"] == "Friday"
    assert [(one["name"], one["used_bytes"], one["is_nearly_full"]) for one in told["folders"]] == [
        ("home", 95 * GIB, True),
        ("scratch", None, False),
    ]
    handler.spawner = lambda: object()  # of the local mode
    await callback.NewsHandler.get(handler)
    assert json.loads(said[1])["folders"] == []
