"""The launcher of a site with many kernels: one row, in order, with labels that can be read."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from portal.site import Site
from tests.session.conftest import window
from tests.session.session_server import Server
from tests.session.test_lab import open_lab, tile

# Of each its title, and whose version it is.
KERNELS = {
    "jax": ("JAX 0.9", ""),
    "torch-2.9": ("PyTorch 2.9", "torch"),
    "torch-2.10": ("PyTorch 2.10", "torch"),
    "torch": ("PyTorch 2.8 (default)", ""),
    "path": ("shared/tensorflow-keras", ""),
    "word": ("environmentalstatistics", ""),
}
IN_ORDER = ["environmentalstatistics", "JAX 0.9", "PyTorch 2.8 (default)", "PyTorch 2.10", "PyTorch 2.9"]
# The words of a label that are drawn in two lines.
BROKEN = """label => {
  const text = document.createTreeWalker(label, NodeFilter.SHOW_TEXT);
  const broken = [];
  for (let node = text.nextNode(); node; node = text.nextNode()) {
    for (const word of node.data.matchAll(/[^\\s/-]+/g)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      if (range.getClientRects().length > 1) broken.push(word[0]);
    }
  }
  return broken;
}"""


@pytest.fixture(scope="module")
def many(start_server: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory, site: Site) -> Server:
    """A session with many kernels."""
    jupyter = tmp_path_factory.mktemp("many")
    for name, (title, table) in KERNELS.items():
        mark = {"table": table} if table else {}
        spec = {"argv": [sys.executable], "display_name": title, "language": "python", "metadata": {"dsportal": mark}}
        kernel = Path(jupyter, "kernels", name, "kernel.json")
        kernel.parent.mkdir(parents=True)
        kernel.write_text(json.dumps(spec))
    return start_server(JUPYTER_PATH=f"{jupyter}:{site.kernels.folder}")


def of_these(texts: list[str]) -> list[str]:
    return [text.strip() for text in texts if text.strip() in IN_ORDER]


def test_the_launcher_has_each_kernel_once_by_title_with_the_default_version_first(
    browser: Browser, many: Server, picture: Callable[[Page, str], None]
) -> None:
    with window(browser, many) as page:
        open_lab(page, many)
        expect(tile(page, "JAX")).to_be_visible()
        assert of_these(page.locator(".jp-LauncherCard-label").all_inner_texts()) == IN_ORDER
        picture(page, "launcher")


@pytest.mark.long
def test_labels_wrap_between_words_and_behind_slashes_and_break_no_word(browser: Browser, many: Server) -> None:
    with window(browser, many) as page:
        open_lab(page, many)
        path = tile(page, "shared/tensorflow").locator("p")
        expect(path).to_have_text("shared/tensorflow-keras")
        assert path.evaluate("label => label.clientHeight / parseFloat(getComputedStyle(label).lineHeight)") > 1.9
        assert page.locator(".jp-LauncherCard-label p").evaluate_all(f"labels => labels.flatMap({BROKEN})") == []


@pytest.mark.long
def test_the_console_s_tile_asks_for_the_kernel(browser: Browser, many: Server) -> None:
    with window(browser, many) as page:
        open_lab(page, many)
        expect(page.locator('.jp-LauncherCard[data-category="Console"]')).to_have_count(0)
        page.locator(".jp-LauncherCard", has=page.get_by_text("Console", exact=True)).click()
        expect(page.get_by_role("dialog").filter(has_text="Select Kernel").locator("select")).to_contain_text("JAX 0.9")


@pytest.mark.long
def test_the_new_menu_of_notebook_7_has_the_same_order(browser: Browser, many: Server) -> None:
    with window(browser, many) as page:
        page.goto(f"{many.url}tree")
        page.locator(".jp-DropdownMenu .lm-MenuBar-item").click()
        expect(page.locator(".lm-Menu-item", has_text="New Environment")).to_be_visible()
        assert of_these(page.locator(".lm-Menu-itemLabel").all_inner_texts()) == IN_ORDER
