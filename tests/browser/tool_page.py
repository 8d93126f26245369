"""What the tests of web tools share: the tab that a click opens, a tool's processes, and what they have open."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from playwright.sync_api import Locator, Page

from tests.inside import sh

LISTENS = "0A"  # TCP_LISTEN; proc(5), /proc/net/tcp


def tile(lab: Page, title: str) -> Locator:
    """The tile of a tool in JupyterLab's launcher, in sight."""
    found = lab.locator(".jp-LauncherCard", has=lab.get_by_text(title, exact=True))
    found.scroll_into_view_if_needed()
    return found


def opened_by(page: Page, press: Locator) -> Page:
    """The tab that a click opens."""
    with page.context.expect_page() as opened:
        press.click()
    return opened.value


def panel_item(lab: Page, name: str) -> Locator:
    """A tool in the panel of web tools."""
    return lab.locator(f'#dsportal-tools li[data-tool="{name}"]')


def processes(person: str, pattern: str) -> list[Path]:
    """The processes of a person whose command line has the pattern in it."""
    found = sh("pgrep", "-u", person, "-f", pattern, check=False).split()
    return [Path("/proc", number) for number in found]


def sockets_of(running: Iterable[Path]) -> set[str]:
    """The sockets that processes have open, as the kernel names them; what is closed meanwhile is left out."""
    found = set()
    for process in running:
        with suppress(OSError):  # helpers come and go
            for link in (process / "fd").iterdir():
                with suppress(OSError):
                    found.add(str(link.readlink()))
    return {name for name in found if name.startswith("socket:")}


def listening() -> set[str]:
    """The sockets of all processes here that listen on a port."""
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path("/proc/net", name).read_text().splitlines()[1:]]
    found = {f"socket:[{row[9]}]" for row in rows if row[3] == LISTENS}
    assert found, "somebody listens here"
    return found
