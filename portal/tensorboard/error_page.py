"""The one plain page that a session shows when something cannot be opened."""

from __future__ import annotations

from html import escape

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{fault}</title>
<style>
:root {{ color-scheme: light dark; }}
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
{detail}<p><a href="{home}">Back to the notebooks and files</a></p>
</main>
</body>
</html>
"""


def page(fault: str, advice: str, home: str, detail: str = "") -> str:
    """An HTML page: what is wrong, what to do, the way back, and the lines of a log if there are any."""
    log = f"<pre>{escape(detail)}</pre>\n" if detail else ""
    return _PAGE.format(fault=escape(fault), advice=escape(advice), home=escape(home), detail=log)
