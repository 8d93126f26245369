"""The one plain page that a session shows when something cannot be opened."""

from __future__ import annotations

from html import escape
from typing import Any

from portal.forwarding import origins

LED_HERE = "A link or an address has led you here, to {what} of your session."
A_BOARD = "a TensorBoard"
NOT_AHEAD = "This TensorBoard does not run."
NOT_AHEAD_ADVICE = "It starts when you open it."
BOARD_ADVICE = "A TensorBoard reads what lies in its folder. Open it if you meant to."

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{fault}</title>
<style>
:root {{ color-scheme: light dark; background: Canvas; color: CanvasText; }}
body {{ font: 1rem/1.6 system-ui, sans-serif; max-width: 38rem; margin: 14vh auto; padding: 0 1.5rem; }}
h1 {{ font-size: 1.4rem; line-height: 1.35; overflow-wrap: anywhere; margin: 0 0 .75rem; }}
p {{ margin: 0 0 1.25rem; overflow-wrap: anywhere; }}
pre {{ overflow-x: auto; padding: 1rem; border: 1px solid #8888; border-radius: .4rem; }}
a {{ color: #1565c0; }}
@media (prefers-color-scheme: dark) {{ a {{ color: #82b7f5; }} }}
</style>
</head>
<body>
<main>
<h1>{fault}</h1>
<p>{advice}</p>
{detail}{again}<p><a href="{home}">Back to the notebooks and files</a></p>
</main>
</body>
</html>
"""


def page(fault: str, advice: str, home: str, detail: str = "", again: str = "") -> str:
    """An HTML page: what is wrong, what to do, the way back; a log's lines and a link to open it after all, if any.

    The link says whence it leads, also where the site has pages say nothing.
    """
    log = f"<pre>{escape(detail)}</pre>\n" if detail else ""
    link = f'<p><a referrerpolicy="same-origin" href="{escape(again)}">Open it</a></p>\n' if again else ""
    return _PAGE.format(fault=escape(fault), advice=escape(advice), home=escape(home), detail=log, again=link)


def is_from_elsewhere(request: Any) -> bool:
    """Whether a page of another origin sends a request, where the browser tells."""
    return origins.is_from_elsewhere(request.headers)


def is_own_click(request: Any) -> bool:
    """Whether a person goes on from one of this session's pages: nothing else leads there, nor any part of a page."""
    return origins.is_from_own_page(request.headers) and request.headers.get("Sec-Fetch-Dest", "document") == "document"


def is_ahead(request: Any) -> bool:
    """Whether a browser asks for a page before the person does."""
    return origins.is_ahead(request.headers)


def from_elsewhere(request: Any, home: str, what: str = A_BOARD, advice: str = BOARD_ADVICE) -> str:
    """The page for such a request: only the person's own click opens a board, or ``what`` else it leads to."""
    return page(LED_HERE.format(what=what), advice, home, again=request.uri if request.method == "GET" else "")
