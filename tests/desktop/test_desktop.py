"""The desktop of docs/howto/web-tools.md as a person uses it: windows, keys and mouse, and who else gets to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Page, ViewportSize, expect, sync_playwright

from tests.browser.portal_page import LAB_DEADLINE_MS, picture, start_lab
from tests.browser.tool_page import listening, opened_by, panel_item, processes, sockets_of, tile
from tests.hub.conftest import FOLDER, PORT, Hub
from tests.inside import CHROMIUM, CHROMIUM_ARGUMENTS, eventually, has_no_job, home, sh

CHECKOUT = Path(__file__).resolve().parents[2]
PAGE = CHECKOUT / "docs/howto/web-tools.md"
PROGRAM = CHECKOUT / "deploy/environments/desktop/desktop.py"
PERSON, NEIGHBOUR = "grace", "heidi"
PROGRAMS = "Xtigervnc|desktop/desktop.py|icewm|xterm"
KEYMAPS = [f"/tmp/server-{number}.xkm" for number in range(20)]
SCREENS = Path("/tmp/.X11-unix")  # as systemd makes it at the boot of a node
# In a terminal on the desktop: who it is, and where the mouse is pressed (xterm's ctlseqs, "Mouse Tracking").
TERMINAL = """#!/bin/sh
echo "$(id -un) $SLURM_JOB_ID" > ~/terminal.txt
printf 'Write your name: '
read -r name
echo "$name" > ~/typed.txt
stty raw -echo
printf '\\033[?1000h'
dd bs=1 count=12 of=clicked.part 2> /dev/null
mv clicked.part clicked.txt
printf '\\033[?1000l'
stty sane
echo "Hello $name"
squeue --me
exec sh
"""
TASK_BAR = """() => {
  const screen = document.querySelector("canvas");
  const { data } = screen.getContext("2d").getImageData(1000, 850, 1, 1);
  return screen.width === 1280 && screen.height === 860 && Math.min(...data) > 150;
}"""
# Runs as a neighbour: what a screen answers to a program without its cookie (X11, "Connection Setup": 0 is a refusal).
TRY = """
import socket, struct, sys
with socket.socket(socket.AF_UNIX) as one:
    one.connect(sys.argv[1])
    one.sendall(struct.pack("<BxHHHHxx", ord("l"), 11, 0, 0, 0))
    print("answer", one.recv(1)[0])
"""
ENTER = """
import socket, sys
for path in sys.argv[1:]:
    with socket.socket(socket.AF_UNIX) as one:
        try:
            one.connect(path)
            print("open", path)
        except OSError as error:
            print(error.strerror)
"""


@pytest.fixture(scope="module")
def portal() -> Iterator[str]:
    """The address of a portal with the entry of the page in its settings."""
    (entry,) = [one for one in re.findall(r"(?ms)^```toml\n(.*?)^```", PAGE.read_text()) if 'name = "desktop"' in one]
    hub = Hub(FOLDER.with_name("test-desktop"), PORT + 900)
    hub.prepare()
    with hub.site_file.open("a") as settings:
        settings.write("\n" + entry.replace("/cm/shared/apps/desktop/desktop.py", str(PROGRAM)))
    SCREENS.mkdir(exist_ok=True)
    SCREENS.chmod(0o1777)
    take_away()
    sh("touch", *KEYMAPS, user=NEIGHBOUR)  # with one of these a screen of that number does not start
    hub.start()
    yield hub.url
    take_away()
    sh("rm", *KEYMAPS)
    hub.stop()


def take_away() -> None:
    """The person has no session, and nothing of the desktop."""
    sh("scancel", f"--user={PERSON}")
    eventually(partial(has_no_job, PERSON), "no job is left", within_s=60)
    names = ("terminal.sh", "terminal.txt", "typed.txt", "clicked.txt", "clicked.part", ".icewm")
    sh("rm", "-rf", *(str(home(PERSON) / one) for one in (*names, ".jupyter/lab/workspaces")))


@pytest.fixture(scope="module")
def lab(portal: str) -> Iterator[Page]:
    """JupyterLab in a session."""
    sh("sh", "-c", 'printf %s "$1" > ~/terminal.sh; chmod u+x ~/terminal.sh', "write", TERMINAL, user=PERSON)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_ARGUMENTS)
        size = ViewportSize(width=1280, height=860)
        context = browser.new_context(base_url=portal, viewport=size, reduced_motion="reduce")
        context.set_default_timeout(30_000)
        page = context.new_page()
        start_lab(page, PERSON)
        yield page
        browser.close()


@pytest.fixture(scope="module")
def desktop(lab: Page) -> Page:
    """The tab of the desktop."""
    tab = opened_by(lab, tile(lab, "Desktop"))
    expect(tab.locator("html.noVNC_connected")).to_be_attached(timeout=LAB_DEADLINE_MS)
    return tab


def text_of(name: str) -> str:
    """A file of the person's home; ``""`` where there is none."""
    file = home(PERSON) / name
    return file.read_text() if file.is_file() else ""


def test_keys_and_mouse_get_to_a_program_on_the_desktop(desktop: Page) -> None:
    screen = desktop.locator("canvas").first
    eventually(lambda: desktop.evaluate(TASK_BAR), "the window manager draws its task bar, as wide as the window")
    screen.click(position={"x": 700, "y": 20})
    desktop.keyboard.press("Control+Alt+Space")
    desktop.keyboard.type("xterm -fa Mono -fs 13 -geometry 80x24+100+80 -e ~/terminal.sh\n", delay=20)
    eventually(lambda: text_of("terminal.txt"), "a terminal is open")
    job = sh("squeue", "--noheader", f"--user={PERSON}", "--format=%i").strip()
    assert text_of("terminal.txt") == f"{PERSON} {job}\n"

    screen.click(position={"x": 400, "y": 300})
    desktop.keyboard.type("Grace\n", delay=20)
    eventually(lambda: text_of("typed.txt") == "Grace\n", "the terminal has what was typed")
    pressed = partial(screen.click, position={"x": 400, "y": 300})
    eventually(lambda: pressed() or text_of("clicked.txt"), "the terminal was told of the mouse", every_s=1)

    assert text_of("clicked.txt").startswith("\x1b[M ")
    picture(desktop, "86-desktop")


def test_no_port_is_open_and_a_neighbour_gets_onto_no_screen(desktop: Page) -> None:
    own = sockets_of(processes(PERSON, PROGRAMS))
    assert not own & listening()

    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    paths = {line[7] for line in lines if len(line) > 7 and f"socket:[{line[6]}]" in own}
    private = [path for path in paths if path.endswith(("/screen", "/desktop.sock"))]
    assert len(private) == 2
    assert sh("python3", "-c", ENTER, *private, user=PERSON).count("open") == 2
    assert "open" not in sh("python3", "-c", ENTER, *private, user=NEIGHBOUR)
    (shared,) = [path for path in paths if path.startswith(str(SCREENS))]
    assert sh("python3", "-c", TRY, shared, user=NEIGHBOUR).strip() == "answer 0"


def test_the_next_tab_shows_the_same_desktop_and_stop_ends_all_of_it(lab: Page, desktop: Page) -> None:
    desktop.close()
    tab = opened_by(lab, tile(lab, "Desktop"))
    expect(tab.locator("html.noVNC_connected")).to_be_attached(timeout=LAB_DEADLINE_MS)
    assert processes(PERSON, "xterm")

    lab.get_by_role("tab", name="Web Tools").click()
    panel_item(lab, "desktop").get_by_role("button", name="Stop").click()
    lab.get_by_role("dialog").get_by_role("button", name="Stop").click()

    expect(panel_item(lab, "desktop")).to_contain_text("not running")
    eventually(lambda: not processes(PERSON, PROGRAMS), "all processes of the desktop have ended")
    assert not [*Path("/").glob("tmp/.X11-unix/X*")], "its screen is taken away"
