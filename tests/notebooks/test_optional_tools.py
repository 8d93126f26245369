"""The demo's optional web tools as a person uses them: an editor with a terminal, and pages that train a network."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Page, ViewportSize, expect, sync_playwright

from tests.browser.conftest import address
from tests.browser.portal_page import LAB_DEADLINE_MS, picture, start_lab
from tests.browser.tool_page import listening, opened_by, panel_item, processes, sockets_of, tile
from tests.inside import CHROMIUM, CHROMIUM_ARGUMENTS, eventually, has_no_job, home, sh

__all__ = ["address"]  # a fixture
PERSON, NEIGHBOUR = "grace", "heidi"
PROGRAMS = "code-server|image_trainer"
ANSWERS_WITHIN_MS = 120_000  # as a session waits for a tool
TRAINED_WITHIN_MS = 300_000
OF_TOOLS = (
    "notes.py",
    "handed-out.html",
    "who.txt",
    "image-trainer",
    ".local/share/code-server",
    ".config/code-server",
    ".cache/image-trainer",
)
CSP = "content-security-policy"
HANDED_OUT = "<title>no script</title><script>document.title = `a script of ${location.pathname}`</script>"
# Runs as a neighbour: which of these Unix sockets let it in.
TRIES = """
import socket, sys
for path in sys.argv[1:]:
    with socket.socket(socket.AF_UNIX) as one:
        try:
            one.connect(path.replace("@", chr(0)) if path[0] == "@" else path)
            print("open", path)
        except OSError as error:
            print(error.strerror)
"""


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_left() -> Iterator[None]:
    take_away()
    yield
    take_away()


def take_away() -> None:
    """The person has no session, and nothing of the tools."""
    sh("scancel", f"--user={PERSON}")
    eventually(partial(has_no_job, PERSON), "no job is left", within_s=60)
    sh("rm", "-rf", *(str(home(PERSON) / one) for one in (*OF_TOOLS, ".jupyter/lab/workspaces")))


@pytest.fixture(scope="module")
def page(address: str) -> Iterator[Page]:
    """A browser that ends with this module: others of the ring have their own."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_ARGUMENTS)
        size = ViewportSize(width=1280, height=860)
        context = browser.new_context(base_url=address, viewport=size, reduced_motion="reduce")
        context.set_default_timeout(30_000)
        yield context.new_page()
        browser.close()


@pytest.fixture(scope="module")
def lab(page: Page) -> Page:
    """JupyterLab in a session without GPUs, with a file to edit."""
    sh("sh", "-c", "echo 'print(1)' > ~/notes.py", user=PERSON)
    start_lab(page, PERSON)
    return page


@pytest.fixture(scope="module")
def editor(lab: Page) -> Page:
    """The tab of the editor."""
    tab = opened_by(lab, tile(lab, "VS Code"))
    expect(tab.locator(".monaco-workbench")).to_be_visible(timeout=ANSWERS_WITHIN_MS)
    return tab


@pytest.fixture(scope="module")
def trainer(lab: Page) -> Page:
    """The tab of the image trainer."""
    tab = opened_by(lab, tile(lab, "Image Trainer"))
    expect(tab.get_by_role("heading", name="Image Trainer")).to_be_visible(timeout=ANSWERS_WITHIN_MS)
    return tab


def test_the_editor_opens_a_file_of_the_home_and_saves_what_is_written(editor: Page) -> None:
    expect(editor).to_have_url(re.compile(rf"/user/{PERSON}/tools/code-server/"))
    editor.locator(".explorer-folders-view").get_by_text("notes.py", exact=True).dblclick(timeout=LAB_DEADLINE_MS)
    text = editor.locator(".editor-instance .view-lines")
    expect(text).to_contain_text("print(1)", timeout=LAB_DEADLINE_MS)  # VS Code first reads its extensions
    text.click()
    editor.keyboard.press("Control+End")
    editor.keyboard.type("print(22)")
    expect(text).to_contain_text("print(22)")
    picture(editor, "81-editor")
    editor.keyboard.press("Control+s")
    eventually(lambda: (home(PERSON) / "notes.py").read_text() == "print(1)\nprint(22)", "it is saved")


def test_its_terminal_is_the_persons_on_the_node(editor: Page) -> None:
    editor.keyboard.press("Control+Shift+Backquote")
    trust = editor.locator(".monaco-dialog-box").get_by_role("button", name="Trust Folder & Continue")
    trust.click()  # asked once of one's own home, and of each folder of somebody else
    expect(trust).to_be_hidden()
    terminal = editor.locator(".terminal-wrapper .xterm").first
    expect(terminal).to_be_visible(timeout=LAB_DEADLINE_MS)
    terminal.click()
    editor.keyboard.type("echo $(id -un) $SLURM_JOB_ID [$TMPDIR] > who.txt\n")
    who = home(PERSON) / "who.txt"
    job = sh("squeue", "--noheader", f"--user={PERSON}", "--format=%i").strip()
    eventually(
        lambda: who.is_file() and who.read_text() == f"{PERSON} {job} [/tmp]\n", "the terminal has written", within_s=60
    )
    picture(editor, "82-editor-terminal")


def test_a_file_that_the_editor_hands_out_has_no_rights_of_the_session_s_pages(editor: Page) -> None:
    file = home(PERSON) / "handed-out.html"
    sh("sh", "-c", 'printf %s "$1" > "$2"', "write", HANDED_OUT, str(file), user=PERSON)
    asked = editor.evaluate("performance.getEntriesByType('resource').map(entry => entry.name)")
    (editors,) = {found[1] for name in asked if (found := re.match(r"(.*/tools/code-server/[^/]+)/static/", name))}
    address = f"{editors}/vscode-remote-resource?path={file}"

    answer = editor.request.get(address)

    assert (answer.status, answer.text()) == (200, HANDED_OUT)
    assert answer.headers["content-type"].startswith("text/html")
    own, ours = answer.headers[CSP].split(", ")
    assert ours == "sandbox"
    assert own.startswith("default-src 'none'"), "what VS Code itself forbids holds as well"
    tab = editor.context.new_page()
    tab.goto(address)
    assert tab.title() == "no script"
    tab.close()


def test_the_trainer_learns_to_tell_images_apart_and_shows_how_well(trainer: Page) -> None:
    trainer.get_by_role("button", name="Make an example").click()
    expect(trainer.locator(".grid-wrap img").first).to_be_visible(timeout=LAB_DEADLINE_MS)
    trainer.get_by_label("number input for Epochs").fill("2")
    trainer.get_by_role("button", name="Train", exact=True).click()
    expect(trainer.get_by_text(re.compile("Epoch [12] of 2 in"))).to_be_visible(timeout=TRAINED_WITHIN_MS)
    expect(trainer.get_by_text(re.compile(r"Done\..*are told right.*Kept:"))).to_be_visible(timeout=TRAINED_WITHIN_MS)
    picture(trainer, "83-trainer")


def test_it_says_what_an_image_is(trainer: Page) -> None:
    (image, *_) = sorted((home(PERSON) / "image-trainer/example/Trouser").iterdir())
    trainer.locator("input[type=file]").set_input_files(image)
    answer = trainer.get_by_test_id("label-output-value")
    expect(answer).to_have_text(
        re.compile(r"^\s*(T-shirt|Trouser|Dress|Coat|Shirt|Sandal|Bag|Boot|Sneaker|Pullover)\s*$")
    )
    picture(trainer, "84-trainer-tries")


def test_what_it_hands_out_has_no_rights_of_the_session_s_pages(trainer: Page) -> None:
    shown = trainer.locator(".grid-wrap img").first.get_attribute("src")
    answer = trainer.request.get(str(shown))
    assert answer.ok
    assert answer.headers[CSP] == "sandbox"
    (kept,) = (home(PERSON) / "image-trainer").glob("*.json")
    refused = trainer.request.get(f"{trainer.url.partition('?')[0].rstrip('/')}/gradio_api/file={kept}")
    assert refused.status == 403, "files of the home are not its to hand out"


def test_a_folder_without_images_is_refused_in_words(trainer: Page) -> None:
    trainer.get_by_label("Folder of images").fill("/usr/share/doc")
    trainer.get_by_role("button", name="Train", exact=True).click()
    expect(trainer.get_by_text("needs two folders with images in them")).to_be_visible()


def test_neither_listens_on_a_port_and_a_neighbour_gets_into_no_socket(editor: Page, trainer: Page) -> None:
    own = sockets_of(processes(PERSON, PROGRAMS))
    assert not own & listening()

    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    paths = {line[7] for line in lines if len(line) > 7 and f"socket:[{line[6]}]" in own}
    assert {"code-server.sock", "image-trainer.sock"} <= {Path(path).name for path in paths}
    assert "open" in sh("python3", "-c", TRIES, *paths, user=PERSON)
    assert "open" not in sh("python3", "-c", TRIES, *paths, user=NEIGHBOUR)


def test_logs_are_tabs_with_the_icon_of_the_tool_and_stop_ends_all_processes(
    lab: Page, editor: Page, trainer: Page
) -> None:
    lab.get_by_role("tab", name="Web Tools").click()
    for name, words in (
        ("code-server", "HTTP server listening on"),
        ("image-trainer", "Uvicorn running on unix socket"),
    ):
        panel_item(lab, name).get_by_role("button", name="Log").click()
        expect(lab.locator(".dsportal-Log:visible")).to_contain_text(words)
    tab = lab.locator(".lm-TabBar-tab", has_text="Log of VS Code")
    expect(tab.locator(".lm-TabBar-tabIcon svg")).to_be_visible()
    picture(lab, "85-logs-of-tools")
    for name in ("code-server", "image-trainer"):
        panel_item(lab, name).get_by_role("button", name="Stop").click()
        lab.get_by_role("dialog").get_by_role("button", name="Stop").click()
        expect(panel_item(lab, name)).to_contain_text("not running")
    eventually(lambda: not processes(PERSON, PROGRAMS), "all processes of the tools have ended")
