"""The icon of a kernel: the site's own file, letters for a framework that is known, else the language's.

The makers' logos are theirs; the letters are ours.
"""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from portal.errors import KernelError
from portal.homes.regular_file import without_waiting

if TYPE_CHECKING:  # a session draws the tools' icons, and needs none of the site's settings for it
    from portal.settings.kernel_tables import KernelTable

LARGEST = 64 * 1024
PNG = b"\x89PNG\r\n\x1a\n"
_LOGOS = Path(__file__).with_name("logos")
# By the first word of a kernel's title or name: letters, and the colour behind them (4.5 : 1 against white at least).
FRAMEWORKS = {
    "tensorflow": ("TF", "#b0450d"),
    "keras": ("K", "#b3121d"),
    "pytorch": ("PT", "#b23218"),
    "jax": ("JX", "#5c3a9e"),
    "mxnet": ("MX", "#0b6a8f"),
    "theano": ("TH", "#345a8a"),
    "pytensor": ("PY", "#345a8a"),
    "horovod": ("HV", "#3f6212"),
    "dask": ("DA", "#9a3412"),
    "ray": ("RA", "#1d5fa8"),
    "inference": ("IN", "#0f6b52"),
    "onnx": ("ON", "#0f6b52"),
    "julia": ("JL", "#6b3fa0"),
    "mlflow": ("ML", "#1b4f9c"),
}
TOOLS = "#0b5f5a"
_MARK = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64">
  <rect x="4" y="4" width="56" height="56" rx="11" fill="{colour}"/>
  <text x="32" y="41" font-family="system-ui, sans-serif" font-size="25" font-weight="700" fill="#fff" \
text-anchor="middle">{letters}</text>
</svg>
"""
_FRAME = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64">
  <image href="data:{kind};base64,{data}" width="64" height="64"/>
</svg>
"""
_BADGE = """  <g>
    <rect x="{left}" y="44" width="{width}" height="18" rx="6" fill="#0b5f5a" stroke="#fff" stroke-width="2"/>
    <text x="{middle}" y="57.5" font-family="system-ui, sans-serif" font-size="12" font-weight="700" fill="#fff" \
text-anchor="middle">{badge}</text>
  </g>
</svg>
"""


def icon(kernel: KernelTable) -> bytes:
    """An SVG of 64 by 64 units.

    Raises:
        KernelError: the site's own file cannot be read, is too big, or is neither SVG nor PNG.
    """
    text = _own(Path(kernel.icon)) if kernel.icon else _usual(kernel)
    return (with_badge(text, kernel.badge) if kernel.badge else text).encode()


def of_tool(title: str, file: Path | None) -> str:
    """An SVG for a web tool: the site's own file, or the first two letters of its title.

    Raises:
        KernelError: as :func:`icon`.
    """
    if file is not None:
        return _own(file)
    letters = "".join(letter for letter in title if letter.isalnum())[:2] or "?"
    return _MARK.format(letters=escape(letters), colour=TOOLS)


def with_badge(text: str, badge: str) -> str:
    """An icon with a short word on its lower edge."""
    width = 8 + 8 * len(badge)
    left = 63 - width
    drawn = _BADGE.format(left=left, width=width, middle=left + width / 2, badge=escape(badge))
    return text.rstrip().removesuffix("</svg>") + drawn


def _usual(kernel: KernelTable) -> str:
    words = [*kernel.title.lower().split()[:1], kernel.name.lower().partition("-")[0]]
    for word in words:
        if word in FRAMEWORKS:
            letters, colour = FRAMEWORKS[word]
            return _MARK.format(letters=letters, colour=colour)
    logo = _LOGOS / f"{kernel.language}.svg"
    if logo.is_file():
        return logo.read_text()
    return _MARK.format(letters=escape(kernel.language[:2]), colour=TOOLS)


def _own(file: Path) -> str:
    """The site's file as the picture within an SVG: whatever it is, it runs nothing and is of the right size."""
    try:
        with open(file, "rb", opener=without_waiting) as opened:
            content = opened.read(LARGEST + 1)
    except OSError as error:
        raise KernelError(f"The icon {file} cannot be read: {error.strerror}.") from error
    is_png = content.startswith(PNG)
    is_svg = b"<svg" in content[:1024]
    if len(content) > LARGEST or not (is_png or is_svg):
        raise KernelError(f"The icon {file} is no SVG or PNG of at most {LARGEST // 1024} KiB.")
    kind = "image/png" if is_png else "image/svg+xml"
    return _FRAME.format(kind=kind, data=base64.b64encode(content).decode())
