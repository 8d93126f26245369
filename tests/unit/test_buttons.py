"""The buttons of the pages: only kinds whose colours the portal's own style sheet sets, so that each can be read."""

from __future__ import annotations

import re
from pathlib import Path

PAGES = Path(__file__).parents[2] / "templates" / "hub"
OUTLINE = re.compile(r"\bbtn-outline-[a-z]+")
OF_JUPYTERHUB = {"btn-outline-contrast"}  # JupyterHub's own style sheet sets its colours for both themes


def test_every_outlined_button_has_the_colours_of_both_themes() -> None:
    styles = (PAGES / "static" / "css" / "portal.css").read_text()
    used = {kind for page in PAGES.glob("*.html") for kind in OUTLINE.findall(page.read_text())}

    assert "btn-outline-primary" in used
    assert {kind for kind in used if f".{kind} {{" not in styles} <= OF_JUPYTERHUB
