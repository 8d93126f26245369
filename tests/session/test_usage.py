"""What a session uses, as its person sees it in JupyterLab and in Notebook 7."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.portal_page import assert_accessible
from tests.lessons import lesson, write
from tests.session.session_server import Server, wait_for

GIB = 2**30
ASKS_AGAIN_MS = 11_000
KERNEL = {"name": "plain"}
SHOWN_AS = """state => {
  Object.defineProperty(document, "visibilityState", {configurable: true, get: () => state});
  document.dispatchEvent(new Event("visibilitychange"));
}"""

Picture = Callable[[Page, str], None]


@pytest.fixture(scope="module")
def server(start_server: Callable[..., Server]) -> Server:
    """A server with 4 GB for its job, which has no cgroup."""
    started = start_server(SLURM_JOB_ID="4711", SLURM_CPUS_ON_NODE="2", SLURM_MEM_PER_NODE="4096")
    write(started.home / "first.ipynb", lesson("1 + 1", kernel="plain"))
    return started


def follow(page: Page, used_gib: float, seen: list[str]) -> None:
    """The job uses so much of 48 GB from the next look on; ``seen`` gets a line for each look."""
    kernel = {"id": "k", "name": "plain", "path": "a/big.ipynb", "memory_bytes": used_gib * GIB, "cores_busy": 1.5}
    gpu = {"uuid": "GPU-1", "name": "Tesla V100", "busy_percent": 73, "memory_used_bytes": 2 * GIB, "error": ""}

    def answer(route: Route) -> None:
        seen.append(route.request.url)
        usage = {
            "source": "cgroup v2",
            "memory": {"used_bytes": used_gib * GIB, "limit_bytes": 48 * GIB},
            "cpu": {"cores_busy": 1.5, "cores": 10},
            "gpus": [{**gpu, "memory_bytes": 32 * GIB}],
            "why_no_gpus": "",
            "disk": {"size_bytes": 100 * GIB, "used_bytes": 40 * GIB, "free_bytes": 60 * GIB},
            "kernels": [kernel],
        }
        route.fulfill(content_type="application/json", body=json.dumps(usage))

    page.unroute("**/dsportal/api/usage*")
    page.route("**/dsportal/api/usage*", answer)


def test_asking_is_no_activity_and_strangers_are_told_nothing(server: Server) -> None:
    before = server.json("api/status")["last_activity"]
    assert server.json("dsportal/api/usage")["kernels"] == []
    assert server.ask("dsportal/api/usage", token="")[0] == 403
    assert server.json("api/status")["last_activity"] == before


def test_the_server_tells_what_job_and_kernels_use(server: Server) -> None:
    session = {"path": "first.ipynb", "name": "first.ipynb", "type": "notebook", "kernel": KERNEL}
    kernel_id = server.json("api/sessions", "POST", session)["kernel"]["id"]

    def measured() -> Any:
        usage = server.json("dsportal/api/usage")
        return usage if usage["cpu"]["cores_busy"] is not None and usage["kernels"] else None

    usage = wait_for("a second look", measured)

    assert usage["source"] == "processes"
    assert usage["memory"]["limit_bytes"] == 4 * GIB
    assert usage["memory"]["used_bytes"] > usage["kernels"][0]["memory_bytes"] > 0
    assert (usage["kernels"][0]["id"], usage["kernels"][0]["path"]) == (kernel_id, "first.ipynb")
    assert (usage["gpus"], usage["why_no_gpus"]) == ([], "This session has no GPU.")


@pytest.mark.parametrize("address", ["lab?reset", "tree", "notebooks/first.ipynb"])
def test_a_small_item_opens_all_that_the_session_uses(
    page: Page, server: Server, picture: Picture, address: str
) -> None:
    page.goto(f"{server.url}{address}")
    item = page.locator(".dsportal-Usage button")
    expect(item).to_have_text(re.compile(r"^0\.\d of 4 GB$"))

    item.click()

    dialog = page.get_by_role("dialog").filter(has_text="What this session uses")
    expect(dialog).to_contain_text("This session has no GPU.")
    expect(dialog).to_contain_text("the sum over its processes")
    expect(dialog).to_contain_text("free where your home is")
    assert_accessible(page, "what a session uses", ".jp-Dialog")
    picture(page, "usage")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def test_near_its_memory_a_session_is_warned_once_until_it_has_room_again(
    page: Page, server: Server, picture: Picture
) -> None:
    seen: list[str] = []
    page.clock.install()
    follow(page, 44, seen)
    page.goto(f"{server.url}lab?reset")
    warning = page.locator(".Toastify__toast").filter(has_text="44 of 48 GB of memory")
    expect(warning).to_contain_text("big.ipynb has most, 44 GB")

    page.clock.fast_forward(ASKS_AGAIN_MS)
    wait_for("a second look", lambda: page.evaluate("1") and len(seen) > 1)

    expect(warning).to_have_count(1)
    warning.get_by_role("button", name="Show").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Tesla V100, 73 % busy, 2 of 32 GB of its memory")
    expect(dialog).to_contain_text("10, 1.5 busy")
    expect(dialog).to_contain_text("plain: Python 3.11.2, starts in 0.9 s, tested 2026-11-25 in gpu")
    icon = dialog.locator("td img")
    expect(icon).to_have_attribute("src", re.compile("/kernelspecs/plain/logo-svg.svg"))
    assert icon.evaluate("image => image.decode().then(() => image.naturalWidth)") > 0
    picture(page, "all")
    follow(page, 20, seen)
    page.clock.fast_forward(ASKS_AGAIN_MS)
    expect(dialog).to_contain_text("20 of 48 GB")


def test_a_hidden_tab_asks_for_nothing(page: Page, server: Server) -> None:
    seen: list[str] = []
    page.clock.install()
    follow(page, 1, seen)
    page.goto(f"{server.url}lab?reset")
    expect(page.locator(".dsportal-Usage button")).to_have_text("1 of 48 GB")
    page.evaluate(SHOWN_AS, "hidden")
    before = len(seen)

    for _ in range(5):
        page.clock.fast_forward(ASKS_AGAIN_MS)

    assert len(seen) == before
    page.evaluate(SHOWN_AS, "visible")
    page.clock.fast_forward(ASKS_AGAIN_MS)
    wait_for("a look of who is back", lambda: page.evaluate("1") and len(seen) > before)
