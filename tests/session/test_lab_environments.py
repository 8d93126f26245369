"""Environments and modules in JupyterLab and Notebook 7, as a person meets them: made, used, looked up and removed."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.portal_page import assert_accessible
from tests.session.conftest import window
from tests.session.session_server import Server
from tests.session.test_lab import Picture, open_lab, tile

PANEL = "#dsportal-environments"
MADE_WITHIN_S = 120


@pytest.fixture
def no_environments(cluster_server: Server) -> None:
    """Nothing is left of another test."""
    for one in cluster_server.json("dsportal/api/environments")["environments"]:
        cluster_server.ask(f"dsportal/api/environments/{one['name']}", "DELETE")


def dialog_for(page: Page, **texts: str) -> Locator:
    """The dialog that is open, filled in by its labels."""
    dialog = page.get_by_role("dialog")
    for label, text in texts.items():
        dialog.get_by_label(re.compile(f"^{label}")).fill(text)
    return dialog


def shown(page: Page, name: str) -> Locator:
    return page.locator(f'{PANEL} li[data-environment="{name}"]')


def removed(page: Page, name: str) -> None:
    shown(page, name).get_by_role("button", name="Remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(shown(page, name)).to_have_count(0)


def test_an_environment_is_made_on_chosen_modules_and_is_in_the_launcher(
    browser: Browser, cluster_server: Server, no_environments: None, picture: Picture
) -> None:
    with window(browser, cluster_server) as page:
        open_lab(page, cluster_server)
        page.get_by_role("tab", name="Environments and Modules").click()
        expect(page.locator(PANEL)).to_contain_text("You have none yet.")
        page.locator(PANEL).get_by_role("tab", name="Modules").click()
        page.get_by_label("Search modules").fill("python")
        module = page.locator(f'{PANEL} li[data-module^="shared/python/"]').first
        module.locator("summary").click()
        expect(module.locator("dl")).to_contain_text("PATH begins with /cm/shared/apps/python3")
        picture(page, "modules")
        assert_accessible(page, "modules", PANEL)
        module.get_by_role("button", name="Choose").click()
        page.locator(PANEL).get_by_role("button", name="New environment").click()

        dialog = dialog_for(page, Name="My Vision", Packages="oneofmine\n")
        expect(dialog.get_by_label(re.compile("^On top"))).to_have_value(re.compile("^shared/python/"))
        picture(page, "dialog")
        dialog.get_by_role("button", name="Create").click()
        expect(page.get_by_role("alert")).to_contain_text("name: 'My Vision' is not possible here")
        picture(page, "refused")
        expect(page.get_by_role("dialog").get_by_label(re.compile("^Packages"))).to_have_value("oneofmine")
        dialog_for(page, Name="vision", Title="Vision").get_by_role("button", name="Create").click()

        one = shown(page, "vision")
        expect(one).to_contain_text("being made")
        one.get_by_role("button", name="Log").click()
        expect(page.locator(".dsportal-Log")).to_contain_text("It is ready.", timeout=MADE_WITHIN_S * 1000)
        expect(one).to_have_attribute("data-state", "ready")
        expect(one).to_contain_text(re.compile(r"venv, \d+ MB on shared/python/"))
        picture(page, "ready")
        assert_accessible(page, "environments", PANEL)
        page.locator(".lm-TabBar-tab", has_text="Launcher").click()
        expect(tile(page, "Vision")).to_be_visible()
        picture(page, "launcher")
        removed(page, "vision")
        expect(tile(page, "Vision")).to_have_count(0)


@pytest.mark.long
def test_notebook_7_makes_one_from_its_new_menu_and_says_what_pip_said(
    browser: Browser, cluster_server: Server, no_environments: None, picture: Picture
) -> None:
    with window(browser, cluster_server) as page:
        page.goto(f"{cluster_server.url}tree")
        page.locator(".jp-FileBrowser-toolbar").get_by_text("New", exact=True).click()
        page.get_by_role("menuitem", name="New Environment…").click()
        modules = "shared\nshared/python"
        dialog_for(page, Name="odd", Packages="oneofmine==9", On=modules).get_by_role("button", name="Create").click()
        one = shown(page, "odd")
        expect(one).to_contain_text("pip said: Could not find a version", timeout=MADE_WITHIN_S * 1000)
        picture(page, "failed")
        one.get_by_role("button", name="Log").click()
        expect(page.locator(".dsportal-Log")).to_contain_text("It failed: pip said")
        page.get_by_role("dialog").get_by_role("button", name="Close").click()
        removed(page, "odd")
