"""A notebook of somebody else's is exported in a process of its own, and names neither programs nor files there."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import threading
import time
from importlib import metadata
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import nbformat
import pytest
from nbconvert import HTMLExporter
from tornado.web import HTTPError
from traitlets.config import Config

from portal.exports import apart, beside
from portal.exports.apart import Converted, Exports, settings_of
from portal.exports.converter import make_plain
from portal.exports.pages import formats
from tests.notebook_parts import PICTURE, PIXEL, code, markdown, notebook


async def convert(form: str, content: object, exports: Exports | None = None, **config: Any) -> Converted:
    resources = {"metadata": {"name": "a"}, "config_dir": "/nowhere"}
    asked = {"format": form, "config": settings_of(config), "resources": resources, "sanitize": None}
    return await (exports or Exports()).convert(asked, content)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the session's own files are, and where it works."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def test_a_notebook_is_a_page_a_text_with_its_pictures_or_a_script() -> None:
    content = notebook(markdown("# Title\n![p](attachment:p.png)", **{"p.png": PICTURE}), code("1 + 1"))

    page = await convert("html", content)
    text = await convert("markdown", content)
    script = await convert("script", notebook(code("1 + 1"), nbconvert_exporter="python", file_extension=".py"))

    assert (page.media_type, page.extension, page.files) == ("text/html", ".html", {})
    assert b"Title" in page.data
    assert base64.b64encode(PIXEL)[:40] in page.data
    assert list(text.files.values()) == [PIXEL]
    assert next(iter(text.files)).encode() in text.data
    assert script.extension == ".py"
    assert b"# In[1]:" in script.data


async def test_what_a_site_has_set_for_exports_counts(caplog: pytest.LogCaptureFixture) -> None:
    content = notebook(code("secret = 1"), markdown("shown"), code("zebra = 2"))
    content["cells"][2]["metadata"]["tags"] = ["hidden"]
    config = Config()
    config.HTMLExporter.theme = "dark"
    config.HTMLExporter.filters = {"a": lambda text: text}
    config.HTMLExporter.preprocessors.append("nbconvert.preprocessors.TagRemovePreprocessor")
    config.TagRemovePreprocessor.remove_cell_tags = {"hidden"}
    config.ServerApp.port = 1

    page = await convert("html", content, **config)
    plain = await convert("html", content, TemplateExporter={"exclude_input": True})

    assert b"secret" in page.data
    assert b"zebra" not in page.data
    assert b"shown" in plain.data
    assert b"secret" not in plain.data
    assert "The setting HTMLExporter.filters does not count for exports" in caplog.text


def test_what_a_site_has_turned_on_is_offered() -> None:
    offered = formats({"PDFExporter": {"enabled": True}, "HTMLExporter": {"enabled": False}})

    assert offered["pdf"] == {"output_mimetype": "application/pdf"}
    assert not {"html", "webpdf"} & offered.keys()


def test_a_format_that_does_not_work_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = EntryPoint("broken", "no_such_package:Exporter", "nbconvert.exporters")
    usual = metadata.entry_points

    def with_broken(**of: str) -> list[EntryPoint]:
        return [*usual(**of), broken]

    for place in ("portal.exports.pages", "nbconvert.exporters.base"):
        monkeypatch.setattr(f"{place}.entry_points", with_broken)

    assert formats({})["html"] == {"output_mimetype": "text/html"}
    assert "There are no exports as broken: No module named 'no_such_package'" in caplog.text


async def test_an_unknown_format_and_a_notebook_that_cannot_be_are_told(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(HTTPError) as unknown:
        await convert("nothing", notebook())
    with pytest.raises(HTTPError) as broken:
        await convert("html", {"cells": 1})

    assert unknown.value.status_code == 404
    assert unknown.value.args == ("No exporter for format: nothing",)
    assert broken.value.status_code == 500
    assert "Traceback" in caplog.text
    assert "nbconvert failed" in str(broken.value)


@pytest.mark.parametrize(
    ("program", "status", "words"),
    [("raise SystemExit(3)", 500, "exit status 3"), ("import os; os.kill(os.getpid(), 9)", 503, "more memory")],
)
async def test_what_ends_before_it_has_said_anything_is_told_as_what_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, status: int, words: str
) -> None:
    (tmp_path / "converter.py").write_text(program)
    monkeypatch.setattr(apart, "_CONVERTER", tmp_path / "converter.py")

    with pytest.raises(HTTPError) as ended:
        await convert("html", notebook())

    assert ended.value.status_code == status
    assert words in str(ended.value)


async def test_an_export_that_does_not_end_is_ended_and_the_session_goes_on_meanwhile() -> None:
    tabs = notebook(code(30_000 * "\t"), pygments_lexer="easytrieve")  # hours of one expression
    stalls = []

    async def look() -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            stalls.append(time.monotonic() - before)

    looking = asyncio.ensure_future(look())
    with pytest.raises(HTTPError) as ended:
        await convert("html", tabs, Exports(within_s=5))
    looking.cancel()

    assert ended.value.status_code == 503
    assert "longer than 5 s" in str(ended.value)
    assert max(stalls) < 3


async def test_who_goes_takes_along_what_was_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started = tmp_path / "started"
    program = tmp_path / "converter.py"
    program.write_text(
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        f"open({str(started)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        "time.sleep(600)\n"
    )
    monkeypatch.setattr(apart, "_CONVERTER", program)
    asked = asyncio.ensure_future(convert("html", notebook()))
    async with asyncio.timeout(30):
        while not (started.exists() and started.read_text()):  # noqa: ASYNC110  another process does
            await asyncio.sleep(0.05)
    processes = [Path(f"/proc/{number}") for number in started.read_text().split()]
    works_in = (processes[0] / "cwd").readlink()
    assert works_in.name.startswith("dsportal-export-")
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked

    assert not works_in.exists()
    assert not [one for one in processes if one.exists() and "Z" not in (one / "stat").read_text().split()[2]]


ENDLESS = """
import json, sys
sys.stdin.read()
head = {"status": 200, "media_type": "a/b", "extension": ".c", "names": [], "sizes": [SIZE]}
sys.stdout.buffer.write(json.dumps(head).encode() + b"\\n")
while True:
    sys.stdout.buffer.write(bytes(65536))
"""


@pytest.mark.parametrize("size", [400_000_000, 2**40])
async def test_an_export_that_nobody_reads_gives_its_turn_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    program = tmp_path / "converter.py"
    program.write_text(ENDLESS.replace("SIZE", str(size)))
    monkeypatch.setattr(apart, "_CONVERTER", program)
    exports = Exports()
    asked = asyncio.ensure_future(convert("html", notebook(), exports))
    await asyncio.wait([asked], timeout=1)
    asked.cancel()
    await asyncio.wait([asked], timeout=20)

    assert asked.done()
    assert exports.turns._value == apart.AT_ONCE


async def test_who_goes_while_files_are_copied_leaves_no_folder(
    beside_it: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    private = tmp_path / "dsp-abc"
    private.mkdir(mode=0o700)
    usual = beside.copy
    going = threading.Event()

    def copy(folder: Path, content: object, to: Path) -> None:
        going.set()
        time.sleep(1)
        usual(folder, content, to)

    monkeypatch.setattr(beside, "copy", copy)
    asked: dict[str, Any] = {
        "format": "pdf",
        "config": settings_of({}),
        "resources": {"metadata": {"path": str(beside_it)}},
        "sanitize": None,
    }
    converting = asyncio.ensure_future(Exports(folder=str(private)).convert(asked, notebook()))
    await asyncio.to_thread(going.wait, 20)
    converting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await converting
    await asyncio.sleep(1.5)

    assert list(private.iterdir()) == []


async def test_no_template_of_the_folder_that_the_session_works_in_is_a_program_of_an_export(home: Path) -> None:
    folder = home / "lab"
    folder.mkdir()
    (folder / "index.html.j2").write_text("{{ ''.__class__ }} TAKEN")
    (folder / "conf.json").write_text("{}")
    content = notebook(markdown("shown"))
    stock: Any = HTMLExporter

    page = await convert("html", content)
    in_the_session, _ = stock().from_notebook_node(nbformat.from_dict(content))

    assert b"shown" in page.data
    assert b"TAKEN" not in page.data
    assert "TAKEN" in in_the_session, "what nbconvert does by itself: without that this test says nothing"


@pytest.mark.usefixtures("xelatex")
async def test_the_session_works_where_it_did_whatever_is_exported(home: Path) -> None:
    many = notebook(*(markdown("x", **{f".bashrc{number}": PICTURE}) for number in range(50)))
    before = sorted(home.iterdir())
    seen = set()

    async def look() -> None:
        while True:
            seen.add(Path.cwd())
            await asyncio.sleep(0.001)

    looking = asyncio.ensure_future(look())
    pages = [convert("pdf", notebook(code("1")), PDFExporter={"enabled": True}) for _ in range(3)]
    await asyncio.gather(*pages, convert("markdown", many))
    looking.cancel()

    assert seen == {home}
    assert sorted(home.iterdir()) == before


NAMES = [
    "x' --option '.eps",
    ".eps",
    "xelatex.fmt",
    "../up.png",
    "a b.png",
    "dvipdfmx.cfg",
    "é.png",
    "-n.png ",
    "p.png\n",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_beside_a_notebook_has_the_plain_name_of_a_picture(name: str) -> None:
    cell = markdown(["![a](attachment:", f"{name})", " attachment:plain.png"], **{name: PICTURE, "plain.png": PICTURE})

    make_plain({"cells": [cell]})

    new, plain = cell["attachments"]
    assert (new, plain) == ("0-0.png", "plain.png")
    assert cell["source"] == "![a](attachment:0-0.png) attachment:plain.png"


@pytest.mark.parametrize(
    ("exporter", "stays"),
    [("python", True), ("pdf", False), ("a.Class", False), ("script", False), (1, False), (None, False)],
)
def test_a_notebook_names_no_other_exporter_than_that_of_its_language(exporter: object, stays: bool) -> None:
    content = notebook(nbconvert_exporter=exporter)

    make_plain(content)

    assert content["metadata"]["language_info"] == {"name": "python"} | (
        {"nbconvert_exporter": "python"} if stays else {}
    )


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"cells": 1, "metadata": []},
        {"cells": [1, {"attachments": 1, "outputs": [1, {"metadata": 1}]}], "metadata": {"language_info": 1}},
    ],
)
def test_a_notebook_of_any_shape_is_made_plain(content: dict[str, Any]) -> None:
    make_plain(content)


def test_an_output_names_no_file() -> None:
    output = {"output_type": "display_data", "metadata": {"filenames": {"image/png": "a.eps"}, "isolated": True}}

    make_plain(notebook(code("1", output)))

    assert output["metadata"] == {"isolated": True}


async def test_it_has_none_of_the_sessions_secrets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "converter.py"
    program.write_text(
        "import json, os, sys\nsys.stdin.read()\nwords = json.dumps(dict(os.environ)).encode()\n"
        "head = {'status': 200, 'media_type': 'a/b', 'extension': '.c', 'names': [], 'sizes': [len(words)]}\n"
        "sys.stdout.buffer.write(json.dumps(head).encode() + b'\\n' + words)\n"
    )
    monkeypatch.setattr(apart, "_CONVERTER", program)
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "secret")

    environment = json.loads((await convert("html", notebook())).data)

    assert "JUPYTERHUB_API_TOKEN" not in environment
    assert environment["HOME"] == os.environ["HOME"]
    assert Path(environment["TMPDIR"]).name.startswith("dsportal-export-")


@pytest.fixture
def beside_it(home: Path) -> Path:
    """A notebook's folder."""
    folder = home / "shared"
    (folder / "figures").mkdir(parents=True)
    for name in ("figures/a b.png", "plain.jpg", "macros.tex", "refs.bib", "data.csv", ".hidden.png", "unnamed.png"):
        (folder / name).write_text(name)
    return folder


def copied(folder: Path, *sources: str | list[str]) -> list[str]:
    """The names of what an export has beside it."""
    to = folder.parent / "copies"
    beside.copy(folder, notebook(*map(markdown, sources)), to)
    return sorted(str(one.relative_to(to)) for one in to.rglob("*") if one.is_file())


NAMED = (
    "![a](figures/a%20b.png)",
    "![a](<figures/a b.png>)",
    '<IMG alt="x" SRC=figures/a%20b.png>',
    "![a][1]\n\n[1]: figures/a%20b.png",
    "\\includegraphics{figures/a b}",
)


@pytest.mark.parametrize("source", NAMED)
def test_an_export_has_the_pictures_that_are_named(beside_it: Path, source: str) -> None:
    found = copied(
        beside_it, [*source.splitlines(keepends=True)], "data.csv hidden.png https://elsewhere.example/x.png"
    )

    assert found == ["figures/a b.png"]


def test_a_text_of_any_kind_is_searched_in_a_moment(beside_it: Path) -> None:
    (beside_it / "\udcff.png").write_text("odd")
    usual = signal.signal(signal.SIGALRM, Mock(side_effect=TimeoutError))
    signal.alarm(20)  # where it is square, hours
    try:
        for number, part in enumerate(("<img ", "![", "![x](", "\0", "%ff")):
            beside.copy(beside_it, notebook(markdown(part * 200_000)), beside_it.parent / f"copies-{number}")
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, usual)


def test_an_export_has_nothing_that_a_link_or_a_second_name_leads_to(beside_it: Path) -> None:
    secret = beside_it.parent / "private/key.png"
    secret.parent.mkdir(mode=0o700)
    secret.write_text("key")
    (beside_it / "link.png").symlink_to(secret)
    (beside_it / "link.tex").symlink_to(secret)
    (beside_it / "folder").symlink_to(secret.parent)
    os.link(secret, beside_it / "second.png")
    os.mkfifo(beside_it / "pipe.tex")
    names = ("link.png", "folder/key.png", "second.png", "../private/key.png", str(secret))

    assert copied(beside_it, *(f"![x]({name})" for name in names)) == []


def test_an_export_has_nothing_of_a_folder_that_was_exchanged(beside_it: Path) -> None:
    hers = beside_it.parent / "hers"
    beside_it.rename(hers)
    beside_it.symlink_to(hers)
    os.lchown(beside_it, 4_000_000, 4_000_000)

    assert copied(beside_it, "![](plain.jpg)") == []


def test_what_is_copied_has_an_end(beside_it: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "BYTES_MAX", 20)
    (beside_it / "long.png").write_bytes(21 * b"x")

    found = copied(beside_it, "![](long.png) ![](plain.jpg)")

    assert found == ["plain.jpg"]


async def test_what_makes_a_pdf_is_told_of_the_copies_alone(
    beside_it: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "converter.py"
    program.write_text(
        "import json, os, sys\nasked = json.loads(sys.stdin.readline())\nsys.stdin.read()\n"
        "path = asked['resources']['metadata']['path']\nwords = json.dumps([path, os.listdir(path)]).encode()\n"
        "head = {'status': 200, 'media_type': 'a/b', 'extension': '.c', 'names': [], 'sizes': [len(words)]}\n"
        "sys.stdout.buffer.write(json.dumps(head).encode() + b'\\n' + words)\n"
    )
    monkeypatch.setattr(apart, "_CONVERTER", program)
    asked: dict[str, Any] = {
        "format": "pdf",
        "config": settings_of({}),
        "resources": {"metadata": {"name": "a", "path": str(beside_it)}},
        "sanitize": None,
    }

    place, names = json.loads((await Exports().convert(asked, notebook(markdown("![](plain.jpg)")))).data)

    assert Path(place).parent.name.startswith("dsportal-export-")
    assert names == ["plain.jpg"]


XELATEX = """#!/bin/sh
test -d xelatex.fmt || exit 3
{ env | grep -E "^(openin_any|openout_any|shell_escape|MKTEX)" | sort; echo "$1 $2"; } > notebook.pdf
"""


@pytest.fixture
def xelatex(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs with the names of TeX's, which write what they were given: TeX comes with no set-up of these tests."""
    programs = tmp_path_factory.mktemp("programs")
    for name, text in (("xelatex", XELATEX), ("bibtex", "#!/bin/sh\nexit 0\n")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")


@pytest.mark.usefixtures("xelatex")
async def test_tex_opens_no_files_of_the_person_and_reads_no_format_that_it_wrote() -> None:
    with pytest.raises(HTTPError) as off:
        await convert("pdf", notebook(code("1 + 1")))
    made = await convert("pdf", notebook(code("1 + 1")), PDFExporter={"enabled": True})

    assert off.value.status_code == 403
    assert "print that page" in str(off.value)

    assert (made.media_type, made.extension) == ("application/pdf", ".pdf")
    assert made.data.decode().splitlines() == [
        "MKTEXMF=0",
        "MKTEXPK=0",
        "MKTEXTFM=0",
        "openin_any=p",
        "openout_any=p",
        "shell_escape=f",
        "-no-shell-escape -output-driver=xdvipdfmx -q -E -D false",
    ]
