"""What is copied from a page of somebody else's and pasted into a terminal waits there for the Enter key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest
from playwright.sync_api import Page, WebSocket

from tests.inside import eventually, home

THEIRS = "http://page.localhost:18900/"
SHOWN = """<!doctype html><title>How to</title><p>echo nice</p><script>
document.addEventListener('copy', event => {
  event.clipboardData.setData('text/plain', decodeURIComponent(location.hash.slice(1)));
  event.preventDefault();
});
</script>"""
SENT: list[str] = []  # what the page has sent by its web sockets
HEARD: list[str] = []  # what came by them
NUMBERS = count()
WANTS_TO_KNOW = "[?2004h"  # how a shell, at its prompt, asks to be told of a paste; while a command runs it does not
ENDS = {"a paste's end": "%1B[201~", "a signal": "%03", "a paste's end of one byte": "%C2%9B201~"}


@pytest.fixture(scope="module")
def terminal(alice: tuple[Page, str]) -> Iterator[Page]:
    """A terminal of Alice's in JupyterLab, whose shell has answered."""
    page, session = alice
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.on("websocket", listen)
    page.context.route(f"{THEIRS}**", lambda route: route.fulfill(content_type="text/html", body=SHOWN))
    page.goto(f"{session}/lab?reset")
    page.locator(".jp-LauncherCard", has_text="Terminal").click()
    page.locator(".xterm-screen").click()
    typed(page, "touch ~/answers")
    yield page
    page.context.clear_permissions()
    page.context.unroute(f"{THEIRS}**")


def listen(socket: WebSocket) -> None:
    """Note what goes through a web socket."""
    socket.on("framesent", lambda frame: SENT.append(str(frame)))
    socket.on("framereceived", lambda frame: HEARD.append(str(frame)))


def typed(page: Page, command: str) -> None:
    """A command that makes a file of the home, the file's end, and the next prompt."""
    file = home("alice") / command.partition("~/")[2]
    number = next(NUMBERS)
    page.keyboard.type(f"{command}; echo done-$((1 + {number}))\n")
    eventually(file.exists, f"{command} is done")
    file.unlink()
    until_at_prompt(page, f"done-{1 + number}")


def until_at_prompt(page: Page, last: str) -> None:
    """After the last output of a command the terminal has heard that its shell wants to be told of a paste."""
    for _ in range(200):
        if WANTS_TO_KNOW in "".join(HEARD).partition(last)[2]:
            break
        page.wait_for_timeout(50)  # events of Playwright come meanwhile
    else:
        pytest.fail(f"the shell has no prompt: {HEARD}")
    HEARD.clear()
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 200)))")  # xterm reads later


def copied(page: Page, text: str) -> None:
    """Somebody copies all of a page of Bob's, which says what is copied."""
    tab = page.context.new_page()
    tab.goto(f"{THEIRS}#{text}")
    tab.keyboard.press("Control+a")
    tab.keyboard.press("Control+c")
    tab.close()
    page.bring_to_front()


def until_sent(page: Page, words: str) -> None:
    """What was pasted has left the page."""
    for _ in range(200):
        if any(words in frame for frame in SENT):
            SENT.clear()
            return
        page.wait_for_timeout(50)  # events of Playwright come meanwhile
    pytest.fail(f"{words!r} was not sent: {SENT}")


def by_key(page: Page) -> None:
    """Paste as most people do."""
    page.keyboard.press("Control+v")


def by_menu(page: Page) -> None:
    """Paste by JupyterLab's own command."""
    page.locator(".xterm-screen").click(button="right")
    page.get_by_role("menuitem", name="Paste").click()


@pytest.mark.parametrize("paste", [by_key, by_menu])
@pytest.mark.parametrize("end", ENDS)
def test_no_command_runs_before_the_enter_key(terminal: Page, end: str, paste: Callable[[Page], None]) -> None:
    taken = home("alice") / "taken"
    taken.unlink(missing_ok=True)
    copied(terminal, f"echo nice{ENDS[end]}%0Dtouch ~/taken%0D")

    paste(terminal)
    until_sent(terminal, "echo nice")
    terminal.locator(".xterm-screen").click()  # whoever had the keyboard: a menu gives it back a moment later
    terminal.keyboard.press("Control+c")
    until_at_prompt(terminal, "^C")
    typed(terminal, "touch ~/goes-on")  # which the shell does after all that came before

    assert not taken.exists()


def test_a_text_of_several_lines_is_pasted_as_it_is(terminal: Page) -> None:
    files = [home("alice") / name for name in ("first-line", "second line")]
    copied(terminal, "touch ~/first-line%0D%0Atouch ~/'second line' # ä%09")

    by_key(terminal)
    until_sent(terminal, "first-line")
    assert not any(file.exists() for file in files)
    terminal.keyboard.press("Enter")

    for file in files:
        eventually(file.exists, "what was pasted is done")
        file.unlink()
