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


async def test_it_is_the_first_script_of_the_hubs_pages(tmp_path: Path) -> None:
    async with served_hub(tmp_path) as hub:
        page = (await (await hub.browser("alice")).get("/hub/home")).text
    scripts = [Path(one).name for one in re.findall(r'<script nonce="[^"]*" src="([^"?]*)', page)]
    assert scripts[0] == HUBS.name
