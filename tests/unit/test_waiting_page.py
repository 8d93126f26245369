"""The page of a session that waits, as it comes from the hub: what is heard of it, and what its scripts find there."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from portal.testing.behaviours import PendingForever
from tests.unit.served_hub import CHECKOUT, ServedHub, served_hub
from tests.unit.test_failures import started

SCRIPTS = CHECKOUT / "templates/hub/static/js"


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[ServedHub]:
    async with served_hub(tmp_path) as hub:
        yield hub


async def test_one_place_is_heard_and_what_changes_each_second_is_not_in_it(served: ServedHub) -> None:
    browser = await served.browser("alice")
    served.slurm.next_job(PendingForever())

    main = (await started(browser)).text.partition("<main")[2].partition("</main>")[0]

    assert '<div id="progress-message" class="dsp-message">' in main
    assert '<p id="pending-heard" class="visually-hidden" role="status" aria-live="polite"></p>' in main
    assert main.count("aria-live") == 1


async def test_the_button_that_asks_for_a_notification_is_hidden_until_its_script_finds_that_there_are_any(
    served: ServedHub,
) -> None:
    browser = await served.browser("alice")
    served.slurm.next_job(PendingForever())

    page = (await started(browser)).text

    assert re.search(r'<button type="button" id="tell-me" [^>]* hidden>Tell me when it is ready</button>', page)
    (icon,) = re.findall(r'data-ready-icon="([^"?]*)', page)
    assert (await browser.get(icon)).headers["Content-Type"] == "image/svg+xml"
    scripts = [Path(one).name for one in re.findall(r'<script nonce="[^"]*" src="([^"?]*)', page)]
    assert scripts.index("tell.js") < scripts.index("pending.js"), "which uses it"


def test_permission_is_asked_for_by_the_button_alone() -> None:
    asking = [file.name for file in SCRIPTS.glob("*.js") if "requestPermission" in file.read_text()]
    assert asking == ["tell.js"]
    script = (SCRIPTS / "tell.js").read_text()
    assert script.count("requestPermission") == 1
    assert "requestPermission" in script.partition("async function toggle()")[2].partition("\n  }\n")[0]
    assert 'button.addEventListener("click", () => toggle()' in script


def test_no_page_of_the_hub_loads_itself_anew_where_there_are_scripts() -> None:
    """A page that does takes a screen reader back to its beginning: only without scripts there is no other way."""
    for file in (CHECKOUT / "templates/hub").glob("*.html"):
        if file.name not in ("restarting.html", "proxy_page.html"):  # the proxy's own, which have no scripts
            without = re.sub(r"<noscript>.*?</noscript>", "", file.read_text(), flags=re.DOTALL)
            assert 'http-equiv="refresh"' not in without, file.name
