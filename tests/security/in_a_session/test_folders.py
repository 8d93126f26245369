"""A notebook in a folder of somebody else's: opening it runs nothing of what lies beside it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.forms import of_long_form
from tests.inside import eventually, home, sh
from tests.session.test_ports import PYTHON_LINE

FIRST_SCRIPT = re.compile(r"<head><script>.*?</script>", re.DOTALL)
THEIRS = Path("/mnt/isilon/bobs-lesson")
TAKEN = Path("/mnt/isilon/taken")  # where what ran says as whom


def notebook(kernel: str, language: str) -> str:
    """An empty notebook for a kernel."""
    spec = {"name": kernel, "display_name": kernel, "language": language}
    return json.dumps({"cells": [], "metadata": {"kernelspec": spec}, "nbformat": 4, "nbformat_minor": 5})


def put(name: str, text: str) -> None:
    """Bob leaves a file beside his notebook."""
    (THEIRS / name).write_text(text)
    sh("chown", "bob", str(THEIRS / name))


def put_lesson(kernel: str, language: str) -> None:
    """Bob leaves a notebook in a new folder; alice has kernels of her own."""
    for folder, user in ((THEIRS, "bob"), (TAKEN, "alice")):
        sh("rm", "-rf", str(folder))
        sh("mkdir", str(folder), user=user)
    put_own_kernels()
    put("lesson.ipynb", notebook(kernel, language))


PYTHON = f"import os\nopen('{TAKEN}/python', 'w').close()\n"
R = f"writeLines('', '{TAKEN}/R')\n"


OWN = {
    "argv": ["/cm/shared/apps/python3/3.11/bin/python3", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
    "display_name": "own",
    "language": "python",
    "env": {"PYTHONPATH": ":/opt/own"},  # as lines of shell leave it that put a folder behind what there was
}


def put_own_kernels() -> None:
    """Alice's own kernels: one names the folder that it is started in, as an empty word does, one is a shell script."""
    by_shell = {**OWN, "argv": ["/bin/sh", "-c", f"exec {sys.executable} {' '.join(PYTHON_LINE)}"], "env": {}}
    for name, spec in (("own", OWN), ("own-shell", by_shell)):
        folder = home("alice") / ".local/share/jupyter/kernels" / name
        sh("mkdir", "-p", str(folder), user="alice")
        (folder / "kernel.json").write_text(json.dumps(spec))


def ran() -> list[str]:
    """What has run."""
    return sh("ls", str(TAKEN)).split()


def asked(lab: Page, method: str, path: str) -> str:
    """What her session answers to a request of JupyterLab's."""
    ask = """([method, path]) => fetch(`/user/alice/api/${path}`, {method,
        headers: {"X-XSRFToken": /_xsrf=([^;]+)/.exec(document.cookie)[1]}}).then(answer => answer.text())"""
    return str(lab.evaluate(ask, [method, path]))


def saved(lab: Page, path: str, model: dict[str, Any]) -> tuple[int, str]:
    """The status and the text that her session answers when she saves."""
    ask = """async ([path, model]) => {
        const answer = await fetch(`/user/alice/api/contents/${path}`, {method: "PUT", body: JSON.stringify(model),
            headers: {"X-XSRFToken": /_xsrf=([^;]+)/.exec(document.cookie)[1]}})
        return [answer.status, await answer.text()]}"""
    status, text = lab.evaluate(ask, [path, model])
    return int(status), str(text)


def states(lab: Page) -> list[str]:
    """The states of her kernels."""
    return [kernel["execution_state"] for kernel in json.loads(asked(lab, "GET", "kernels"))]


def completed(lab: Page, kernel: str, code: str) -> list[str]:
    """What a kernel offers behind some code, asked as JupyterLab does when somebody presses Tab."""
    ask = """([kernel, code]) => new Promise((done, failed) => {
        const origin = location.origin.replace(/^http/, "ws");
        const socket = new WebSocket(`${origin}/user/alice/api/kernels/${kernel}/channels?session_id=tab`);
        const header = {msg_id: "tab", msg_type: "complete_request", username: "", session: "tab",
            date: new Date().toISOString(), version: "5.3"};
        const content = {code, cursor_pos: code.length};
        const message = {channel: "shell", header, parent_header: {}, metadata: {}, content, buffers: []};
        socket.onopen = () => socket.send(JSON.stringify(message));
        socket.onerror = () => failed(new Error("the web socket failed"));
        socket.onmessage = event => {
            const told = JSON.parse(event.data);
            if (told.header.msg_type === "complete_reply") {
                socket.close();
                done(told.content.matches);
            }
        };
    })"""
    return list(lab.evaluate(ask, [kernel, code]))


def kernels_ended(lab: Page) -> bool:
    """End her kernels; true when none is left."""
    for kernel in json.loads(asked(lab, "GET", "kernels")):
        asked(lab, "DELETE", f"kernels/{kernel['id']}")
    return not states(lab)


@pytest.mark.parametrize(
    ("kernel", "language", "file", "text"),
    [
        ("python3", "python", "ipykernel_launcher.py", PYTHON),
        of_long_form("python3", "python", "storemagic.py", PYTHON),
        ("own-shell", "python", "ipykernel_launcher.py", PYTHON),
        of_long_form("own", "python", "ipykernel.py", PYTHON),
        ("ir", "R", ".Rprofile", R),
    ],
)
def test_opening_a_notebook_runs_nothing_that_somebody_left_beside_it(
    alice: tuple[Page, str], kernel: str, language: str, file: str, text: str
) -> None:
    page, session = alice
    put_lesson(kernel, language)
    put(file, text)

    tab = page.context.new_page()
    tab.goto(f"{session}/lab/tree/isilon/{THEIRS.name}/lesson.ipynb")
    eventually(lambda: ran() or "idle" in states(page), "the kernel is there", within_s=60)
    eventually(lambda: kernels_ended(page), "the kernel is gone")
    tab.close()

    assert ran() == []


@pytest.mark.parametrize("kernel", [of_long_form("python3"), "own-shell"])
def test_a_completion_runs_nothing_that_somebody_left_beside_the_notebook(alice: tuple[Page, str], kernel: str) -> None:
    """IPython imports jedi at the first Tab, and jedi looks for packages that an environment may not have."""
    page, session = alice
    put_lesson(kernel, "python")
    for name in ("jedi", "parso", "colorama", "numpydoc"):
        put(f"{name}.py", PYTHON)

    tab = page.context.new_page()
    tab.goto(f"{session}/lab/tree/isilon/{THEIRS.name}/lesson.ipynb")
    eventually(lambda: "idle" in states(page), "the kernel is there", within_s=60)
    (one,) = json.loads(asked(page, "GET", "kernels"))
    offered = completed(page, one["id"], "impo")
    eventually(lambda: kernels_ended(page), "the kernel is gone")
    tab.close()

    assert "import" in offered
    assert ran() == []


def test_opening_a_file_writes_through_no_link_that_somebody_left_beside_it(alice: tuple[Page, str]) -> None:
    page, session = alice
    hers = home("alice") / "new.txt"
    sh("rm", "-rf", str(THEIRS), str(hers))
    sh("mkdir", "-p", str(THEIRS / ".ipynb_checkpoints"), user="bob")
    sh("chmod", "777", str(THEIRS), user="bob")
    put("notes.txt", "bob's words")
    sh("chmod", "666", str(THEIRS / "notes.txt"))
    sh("ln", "-s", str(hers), str(THEIRS / ".ipynb_checkpoints" / "notes-checkpoint.txt"), user="bob")
    path = f"isilon/{THEIRS.name}/notes.txt"

    tab = page.context.new_page()
    tab.goto(f"{session}/lab/tree/{path}")
    expect(tab.get_by_role("tab", name="notes.txt")).to_be_visible(timeout=60_000)
    eventually(lambda: json.loads(asked(page, "GET", f"contents/{path}/checkpoints")), "there is a checkpoint")
    tab.close()

    assert not hers.exists()


def test_saving_a_notebook_writes_through_no_link_that_somebody_left_beside_it(alice: tuple[Page, str]) -> None:
    page, _ = alice
    hers, linked = home("alice") / "hers.txt", home("alice") / "linked.txt"
    for file in (hers, linked):
        sh("rm", "-f", str(file))
        sh("sh", "-c", f"echo hers > {file}", user="alice")
    sh("rm", "-rf", str(THEIRS))
    sh("mkdir", str(THEIRS), user="bob")
    sh("chmod", "777", str(THEIRS), user="bob")
    put("lesson.ipynb", notebook("python3", "python"))
    sh("chmod", "666", str(THEIRS / "lesson.ipynb"))
    sh("ln", "-s", str(hers), str(THEIRS / ".~lesson.ipynb"), user="bob")
    sh("ln", "-s", str(linked), str(THEIRS / "linked.txt"), user="bob")
    path = f"isilon/{THEIRS.name}"
    changed = json.loads(notebook("python3", "python"))
    changed["metadata"]["mine"] = 1

    status, _ = saved(page, f"{path}/lesson.ipynb", {"type": "notebook", "format": "json", "content": changed})
    refused, words = saved(page, f"{path}/linked.txt", {"type": "file", "format": "text", "content": "bob"})

    assert status in (200, 201)
    assert json.loads((THEIRS / "lesson.ipynb").read_text())["metadata"]["mine"] == 1
    assert (refused, "is a link that somebody else made" in words) == (403, True)
    assert [file.read_text() for file in (hers, linked)] == ["hers\n", "hers\n"]


# A chart whose tooltip is a script, laid over the whole page: whoever moves the mouse would run it.
CHART = {
    "$schema": "https://vega.github.io/schema/vega/v5.json",
    "width": 900,
    "height": 600,
    "marks": [
        {
            "type": "rect",
            "encode": {
                "enter": {
                    "fill": {"value": "#fff"},
                    "width": {"value": 900},
                    "height": {"value": 600},
                    "tooltip": {"signal": "{image: 'x\" onerror=\"document.title = `taken`'}"},
                }
            },
        }
    ],
}
OVER_ALL = {"defaultStyle": ".vega-embed{position:fixed;inset:0;z-index:99999;opacity:0}", "renderer": "svg"}


def put_charts() -> None:
    """Bob leaves a notebook with a chart, of which nothing was run, and a file with one."""
    mime = "application/vnd.vega.v5+json"
    lesson = json.loads(notebook("python3", "python"))
    # One that is laid over the page by what the output says, and one that draws its tooltip, too.
    outputs = [
        {
            "output_type": "display_data",
            "data": {mime: CHART, "text/plain": ["the chart of bob"]},
            "metadata": metadata,
        }
        for metadata in ({mime: {"embed_options": OVER_ALL}}, {})
    ]
    cell = {"cell_type": "code", "execution_count": 1, "id": "chart", "metadata": {}, "outputs": outputs, "source": "1"}
    lesson["cells"] = [cell]
    put_lesson("python3", "python")
    put("chart.ipynb", json.dumps(lesson))
    put("chart.vg", json.dumps(CHART | {"usermeta": {"embedOptions": OVER_ALL}}))


def look_at_chart(tab: Page) -> None:
    """Alice moves the mouse over the page: there is no chart of Vega's, and no script of one has run."""
    for place in (300, 300), (420, 380), (500, 420):
        tab.mouse.move(*place)
        tab.wait_for_timeout(100)
    assert tab.locator(".vega-embed").count() == 0
    assert "taken" not in tab.title()


def test_a_chart_in_somebodys_notebook_or_file_is_not_drawn(alice: tuple[Page, str]) -> None:
    page, session = alice
    put_charts()
    tab = page.context.new_page()
    folder = f"isilon/{THEIRS.name}"

    for place in (f"lab/tree/{folder}/chart.ipynb?reset", f"notebooks/{folder}/chart.ipynb"):
        tab.goto(f"{session}/{place}")
        expect(tab.get_by_text("the chart of bob")).to_have_count(2, timeout=60_000)
        look_at_chart(tab)

    for place in (f"lab/tree/{folder}/chart.vg", f"edit/{folder}/chart.vg"):
        tab.goto(f"{session}/{place}")
        expect(tab.locator(".cm-content", has_text="schema")).to_be_visible(timeout=60_000)
        look_at_chart(tab)

    tab.goto(f"{session}/edit/{folder}/chart.vg?factory=Vega5")  # as a link asks for what draws it
    expect(tab.get_by_role("button", name="min left")).to_be_visible(timeout=60_000)
    look_at_chart(tab)

    tab.goto(f"{session}/tree/{folder}")
    with tab.expect_popup() as opened:
        tab.get_by_text("chart.vg").dblclick()
    expect(opened.value.locator(".cm-content", has_text="schema")).to_be_visible(timeout=60_000)
    look_at_chart(opened.value)
    tab.close()


def test_nor_is_it_in_a_page_that_goes_on_without_the_portals_part(alice: tuple[Page, str]) -> None:
    """As one that was loaded before the portal's pages ended then: its server shows it no files."""
    page, session = alice
    put_charts()
    tab = page.context.new_page()

    def without_first_script(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=FIRST_SCRIPT.sub("<head>", answer.text(), count=1))

    address = f"{session}/notebooks/isilon/{THEIRS.name}/chart.ipynb"
    tab.route(address, without_first_script)
    tab.route("**/lab/extensions/dsportal-lab/**", lambda route: route.abort())
    tab.goto(address)
    expect(tab.get_by_text("A part of this page is missing")).to_be_visible(timeout=60_000)
    expect(tab.get_by_text("the chart of bob")).to_have_count(0)
    look_at_chart(tab)
    tab.close()


def test_no_text_has_links_to_commands_where_a_browser_was_kept_from_the_settings(alice: tuple[Page, str]) -> None:
    page, session = alice
    put_lesson("python3", "python")
    lesson = json.loads(notebook("python3", "python"))
    text = '<button data-commandlinker-command="notebook:run-all-cells">read on</button> of bob'
    lesson["cells"] = [{"cell_type": "markdown", "id": "linked", "metadata": {}, "source": text}]
    put("linked.ipynb", json.dumps(lesson))
    tab = page.context.new_page()
    tab.route("**/lab/api/settings**", lambda route: route.abort())
    tab.goto(f"{session}/notebooks/isilon/{THEIRS.name}/linked.ipynb")
    expect(tab.locator(".jp-RenderedMarkdown", has_text="of bob")).to_be_visible(timeout=60_000)
    assert tab.locator("[data-commandlinker-command]").count() == 0
    tab.close()


COMMAND = "terminal:create-new"
LINKS = {
    "a link": f'<a data-commandlinker-command="{COMMAND}" href="#">read on</a>',
    "a word in it": f'<b data-commandlinker-command="{COMMAND}" data-commandlinker-args="{{}}">read on</b>',
    "a formula": rf"$\data{{commandlinker-command={COMMAND}}}{{\text{{read on}}}}$",
    "a formula of MathML": f'<math><mtext data-commandlinker-command="{COMMAND}">read on</mtext></math>',
    "a formula in display": rf"$$\data{{commandlinker-command={{{COMMAND}}}}}{{\text{{read on}}}}$$",
    "a drawing": f'<svg><text y="20" data-commandlinker-command="{COMMAND}">read on</text></svg>',
}
FORMULAS = 2  # that MathJax draws: MathML is no TeX
DOCUMENTS = ".jupyter/lab/user-settings/@jupyterlab/docmanager-extension/plugin.jupyterlab-settings"


@pytest.fixture
def markdown_is_drawn() -> Iterator[None]:
    """Alice has chosen that files of Markdown are opened as they are drawn, and not in the editor."""
    chosen = home("alice") / DOCUMENTS
    sh("mkdir", "-p", str(chosen.parent), user="alice")
    chosen.write_text('{"defaultViewers": {"markdown": "Markdown Preview"}}')
    yield
    chosen.unlink()


@pytest.mark.usefixtures("markdown_is_drawn")
def test_a_click_in_somebodys_text_gives_jupyterlab_no_command(alice: tuple[Page, str]) -> None:
    """Each way is a cell of its own, or a paragraph."""
    page, session = alice
    ways = [f"Words of bob. {text}" for text in LINKS.values()]
    lesson = json.loads(notebook("python3", "python"))
    lesson["cells"] = [
        {"cell_type": "markdown", "id": f"words-{number}", "metadata": {}, "source": text}
        for number, text in enumerate(ways)
    ]
    put_lesson("python3", "python")
    put("words.ipynb", json.dumps(lesson))
    put("words.md", "\n\n".join(ways))
    tab = page.context.new_page()
    for place in ("words.ipynb?reset", "words.md?reset"):
        tab.goto(f"{session}/lab/tree/isilon/{THEIRS.name}/{place}")
        rendered = tab.locator(".jp-RenderedMarkdown")
        expect(rendered.get_by_text("Words of bob.")).to_have_count(len(LINKS), timeout=60_000)
        expect(rendered.locator("mjx-container")).to_have_count(FORMULAS, timeout=60_000)
        for element in tab.locator("[data-commandlinker-command]").all():
            element.dispatch_event("click")
        for element in rendered.get_by_text("read on").all():
            element.dispatch_event("click")
        tab.wait_for_timeout(1500)
        assert tab.locator(".lm-DockPanel").get_by_role("tab", name="Terminal").count() == 0, place
    tab.close()
