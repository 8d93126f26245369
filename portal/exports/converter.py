"""A notebook as another file: what a session's server starts for each, in a private folder, and ends.

A notebook may be somebody else's, and nbconvert (7.17) writes, works and names as it says. So this is a process of its
own, in a folder that holds nothing else, and may be ended at any time. It is started by its path, with ``-I``: of the
portal it imports nothing.

It reads a line of JSON, the notebook after it, and answers with a line of JSON, what was made and the files beside it.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import pickle
import re
import resource
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

ANSWER_MAX = 2**29  # bytes
WORDS_MAX = 4000
ALIVE_S = 320  # a little longer than it is waited for; of each program that it starts, so much of a processor
PR_SET_PDEATHSIG = 1  # prctl(2)
OF_LANGUAGE = "python"  # the one exporter that a notebook of a language may name, as those of IPython do
PICTURE = re.compile(r"[\w-][\w.-]*\.(png|jpe?g|gif|svg|webp|bmp|pdf)", re.ASCII | re.IGNORECASE)
PICTURE_TYPES = {"image/jpeg": ".jpg", "image/gif": ".gif", "image/svg+xml": ".svg", "application/pdf": ".pdf"}
MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+", re.ASCII)
EXTENSION = re.compile(r"\.[\w.+-]{1,20}", re.ASCII)
# TeX, and a browser that draws a page of its own files, do what a notebook says, with all files of the person.
RUN_WHAT_A_NOTEBOOK_SAYS = ("PDFExporter", "WebPDFExporter", "QtPDFExporter", "QtPNGExporter")
OFF = (
    "There are no exports as {} here: the notebook would decide what is read of your files. Export it as HTML, and "
    "print that page into a PDF with the browser; or as LaTeX, look at it, and run xelatex in a terminal."
)
# XeLaTeX starts no program: neither by \write18, nor the converter of its driver, which PostScript could steer. What it
# reads as TeX lies where it works, or belongs to it (kpathsea, "paranoid"); its pictures, its fonts and its driver may
# be any file of the person, whence it is off.
PDF = ("xelatex", "-no-shell-escape", "-output-driver=xdvipdfmx -q -E -D false", "{filename}", "-quiet")
OF_TEX = {"openin_any": "p", "openout_any": "p", "shell_escape": "f", "MKTEXTFM": "0", "MKTEXMF": "0", "MKTEXPK": "0"}
FORMAT = "xelatex.fmt"  # what TeX is a memory image of; it looks for that where it works first, and runs three times


class _NoFormat(Exception):
    """Nothing converts into it."""


class _Off(Exception):
    """What converts into it would run what a notebook says, and the site has not turned it on."""


def main() -> int:
    """Convert what standard input has."""
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # whatever a library prints is no answer
    end_by_itself()
    os.environ.update(OF_TEX)
    asked = json.loads(sys.stdin.buffer.readline())
    parts: list[bytes] = []
    try:
        head = _converted(asked, json.load(sys.stdin.buffer), parts)
    except _NoFormat:
        head = {"status": 404, "words": f"No exporter for format: {asked['format']}"}
    except _Off:
        head = {"status": 403, "words": OFF.format(asked["format"])}
    except Exception as error:  # whatever the notebook made of it
        words = f"nbconvert failed: {error}"[:WORDS_MAX]
        head = {"status": 500, "words": words, "trace": traceback.format_exc()[-WORDS_MAX:]}
    answer.write(json.dumps(head).encode() + b"\n")
    for part in parts:
        answer.write(part)
    answer.close()
    return 0


def end_by_itself() -> None:
    """Whatever a notebook makes of it, and whatever became of who started it: nothing here goes on for long."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")  # the first to go where memory ends
    signal.alarm(ALIVE_S)
    for what, most in ((resource.RLIMIT_CPU, ALIVE_S), (resource.RLIMIT_FSIZE, ANSWER_MAX), (resource.RLIMIT_CORE, 0)):
        with suppress(OSError, ValueError):  # a site's own limit is lower
            resource.setrlimit(what, (most, most))


def with_settings(of_site: Mapping[str, Any]) -> Any:
    """What counts for nbconvert's exporters: a site's own settings, and what it has not set."""
    from traitlets.config import Config

    config = Config({name: {"enabled": False} for name in RUN_WHAT_A_NOTEBOOK_SAYS})
    config.PDFExporter.latex_command = list(PDF)
    config.merge(Config(of_site))
    return config


def _exporter(asked: Mapping[str, Any]) -> Any:
    """What converts.

    Raises:
        _NoFormat: there is none of that name.
        _Off: the site has not turned it on.
    """
    from nbconvert.exporters import base

    _without_own_format()
    config = with_settings(pickle.loads(base64.b64decode(asked["config"])))  # noqa: S301  the server's own, who started this
    find: Any = base.get_exporter
    try:
        exporter = find(asked["format"], config)(config=config)
    except base.ExporterNameError as error:
        raise _NoFormat from error
    except base.ExporterDisabledError as error:
        raise _Off from error
    if asked["format"] == "html" and asked["sanitize"] is not None:
        exporter.sanitize_html = asked["sanitize"]
    return exporter


def _without_own_format() -> None:
    """Have nothing that TeX wrote be read as its format by the next run: a folder has that name."""
    from nbconvert.exporters import pdf

    exporter: Any = pdf.PDFExporter
    usual = exporter.run_latex

    def run_latex(self: Any, *args: Any, **kwargs: Any) -> Any:
        Path(FORMAT).mkdir(exist_ok=True)
        return usual(self, *args, **kwargs)

    exporter.run_latex = run_latex


def _converted(asked: Mapping[str, Any], content: Any, parts: list[bytes]) -> dict[str, object]:
    """Put what is made of a notebook into ``parts``, and answer what they are."""
    from nbformat import from_dict

    exporter = _exporter(asked)
    make_plain(content)
    output, resources = exporter.from_notebook_node(from_dict(content), resources=asked["resources"])
    files = {Path(name).name: data for name, data in (resources.get("outputs") or {}).items()}
    made = [output.encode() if isinstance(output, str) else output, *files.values()]
    if sum(map(len, made)) > ANSWER_MAX:
        raise ValueError(f"what was made has more than {ANSWER_MAX >> 20} MiB")
    parts += made
    media = str(exporter.output_mimetype)
    extension = str(resources["output_extension"])
    return {
        "status": 200,
        "media_type": media if MEDIA_TYPE.fullmatch(media) else "text/plain",
        "extension": extension if EXTENSION.fullmatch(extension) else ".txt",
        "names": list(files),
        "sizes": list(map(len, parts)),
    }


def make_plain(notebook: Any) -> None:
    """Take out of a notebook what would name an exporter, or a file in the folder that this works in."""
    language = _dict(_dict(notebook.get("metadata")).get("language_info"))
    if language.get("nbconvert_exporter") != OF_LANGUAGE:
        language.pop("nbconvert_exporter", None)
    for number, cell in enumerate(_cells(notebook)):
        _rename(cell, number)
        for output in cell.get("outputs") or ():
            for name in ("filename", "filenames"):
                _dict(_dict(output).get("metadata")).pop(name, None)


def _cells(notebook: Any) -> Iterator[Any]:
    cells = notebook.get("cells")
    yield from (cell for cell in cells if isinstance(cell, dict)) if isinstance(cells, list) else ()


def _dict(value: Any) -> Any:
    return value if isinstance(value, dict) else {}


def _rename(cell: Any, number: int) -> None:
    """Give the attachments of a cell, but those with the plain name of a picture, such names."""
    attached = _dict(cell.get("attachments"))
    new = {name: f"{number}-{at}{_ending(data)}" for at, (name, data) in enumerate(attached.items()) if not _fits(name)}
    if not new:
        return
    cell["attachments"] = {new.get(name, name): data for name, data in attached.items()}
    names = re.compile("attachment:(" + "|".join(map(re.escape, sorted(new, key=len, reverse=True))) + ")")
    lines = cell.get("source")
    source = "".join(map(str, lines)) if isinstance(lines, list) else str(lines)
    cell["source"] = names.sub(lambda found: f"attachment:{new[found[1]]}", source)


def _fits(name: str) -> bool:
    return PICTURE.fullmatch(name) is not None


def _ending(data: Any) -> str:
    return next((ending for media, ending in PICTURE_TYPES.items() if media in _dict(data)), ".png")


if __name__ == "__main__":
    raise SystemExit(main())
