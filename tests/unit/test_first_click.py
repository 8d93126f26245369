"""Which clicks count is said by one script, on the hub's pages and in JupyterLab (what it does: in a browser)."""

from __future__ import annotations

import re
from pathlib import Path

from tests.unit.served_hub import CHECKOUT, served_hub

HUBS = CHECKOUT / "templates/hub/static/js/first_click.js"
LABS = CHECKOUT / "templates/lab/src/firstclick.js"


def test_the_hub_and_jupyterlab_have_the_same() -> None:
    assert LABS.is_symlink()
    assert LABS.resolve() == HUBS


async def test_it_stands_in_the_hubs_pages_before_all_scripts(tmp_path: Path) -> None:
    """A page of somebody else's can keep a browser from a script's own address, by a cookie for it alone."""
    async with served_hub(tmp_path) as hub:
        page = (await (await hub.browser("alice")).get("/hub/home")).text
    scripts = re.findall(r"<script nonce=\"[^\"]*\"(?! type)([^>]*)>(.*?)</script>", page, flags=re.DOTALL)
    assert scripts[:2] == [("", file.read_text().rstrip("\n")) for file in (HUBS, HUBS.with_name("too_big.js"))]
