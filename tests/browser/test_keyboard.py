"""A person who has a keyboard and nothing else does everything on the hub's pages: no test here moves a mouse."""

from __future__ import annotations

import re
from collections.abc import Iterator
from re import Pattern
from typing import Literal

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.portal_page import jobs_of, picture, submit_as
from tests.inside import eventually, sh

PERSON = "ivan"
STOPS = 120  # no page has so many controls
LAB_DEADLINE_MS = 90_000
Role = Literal["button", "link"]

broken_step = ""  # the name of the first step that failed; conftest.py fills it in


@pytest.fixture(scope="module", autouse=True)
def _gpus_in_use() -> Iterator[None]:
    """Somebody else has all GPUs of sxm2: who asks for one there waits."""
    job = submit_as("bob", "--partition=sxm2", "--nodes=3", "--gres=gpu:4", "--wrap=sleep 600")
    eventually(lambda: [j for j in jobs_of("bob") if j.id == job and j.state == "RUNNING"], "bob's job runs")
    yield
    sh("scancel", str(job))
    sh("scancel", f"--user={PERSON}")
    eventually(lambda: not jobs_of(PERSON), "no job is left", within_s=60)


def tab_to(page: Page, control: Locator) -> None:
    """Press Tab until the focus is on a control that can be seen."""
    expect(control).to_be_visible()
    for _ in range(STOPS):
        page.keyboard.press("Tab")
        if control.evaluate("one => one === document.activeElement"):
            return
    raise AssertionError(f"the Tab key does not get to {control}")


def go(page: Page, role: Role, name: str | Pattern[str]) -> None:
    """Tab to a control with this name and press its key: a button, whatever it is made of, takes the space bar."""
    tab_to(page, page.get_by_role(role, name=name).first)
    page.keyboard.press("Space" if role == "button" else "Enter")


def write(page: Page, label: str, text: str) -> None:
    """Tab to a field and put a text in the place of what is there: the Tab key has selected that."""
    tab_to(page, page.get_by_label(label, exact=True))
    page.keyboard.type(text)


def choose(page: Page, name: str) -> None:
    """Tab to the group of a radio button, and go to it with the arrow keys."""
    wanted = page.get_by_role("radio", name=re.compile(f"^{name} "))
    group = page.locator(f"input[name={wanted.get_attribute('name')}]")
    tab_to(page, group.and_(page.locator(":checked")))
    for _ in range(group.count()):
        if wanted.is_checked():
            return
        page.keyboard.press("ArrowDown")
    raise AssertionError(f"the arrow keys do not get to {name}")


def sign_in(page: Page, person: str) -> None:
    """The login page, by the keyboard."""
    page.goto("/hub/login")
    expect(page.get_by_label("User name")).to_be_focused()
    page.keyboard.type(person)
    write(page, "Password", f"{person}-demo")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="My Server", level=1)).to_be_visible()


def test_they_sign_in_and_fill_in_the_form(page: Page) -> None:
    sign_in(page, PERSON)
    go(page, "button", "Start My Server")
    expect(page.get_by_role("heading", name="Start a session")).to_be_visible()
    choose(page, "sxm2")
    choose(page, "1 GPU")
    write(page, "Hours", "2")


def test_they_keep_their_choices_and_make_a_link_of_them(page: Page) -> None:
    go(page, "button", "Keep these choices")
    write(page, "Name", "One GPU")
    page.keyboard.press("Enter")
    expect(page.get_by_text("These are your choices “One GPU”")).to_be_visible()
    go(page, "button", "Link to these choices")
    go(page, "button", "Copy")
    expect(page.locator("#link-status")).not_to_be_empty()
    go(page, "link", "Open it")
    expect(page.get_by_label("Hours", exact=True)).to_have_value("2")


def test_they_wait_unfold_what_happened_and_change_the_request(page: Page) -> None:
    go(page, "button", "Start")
    expect(page.locator("#progress-message")).to_contain_text("waits", timeout=30_000)
    tab_to(page, page.locator("summary", has_text="What happened so far"))
    page.keyboard.press("Enter")
    expect(page.locator("details[open]")).to_be_visible()
    go(page, "link", "Change the request")
    expect(page.locator("#place-is-lost")).to_be_visible()
    choose(page, "0 GPUs")
    picture(page, "keyboard-change")
    go(page, "button", "Change the request")
    page.wait_for_url(re.compile(f"/user/{PERSON}/lab"), timeout=LAB_DEADLINE_MS)


def test_they_stop_the_session_and_start_it_again_from_its_record(page: Page) -> None:
    page.goto("/hub/home")
    go(page, "button", "Stop My Server")
    again = page.get_by_role("button", name=re.compile("^Start again"))
    expect(again.first).to_be_visible(timeout=60_000)
    go(page, "button", re.compile("^Start again"))
    expect(page.get_by_role("heading", name="Start a session")).to_be_visible()
    expect(page.get_by_role("radio", name=re.compile("^0 GPUs "))).to_be_checked()


def test_they_rename_and_remove_their_choices(page: Page) -> None:
    go(page, "link", "Rename or remove")
    write(page, "Another name for “One GPU”", "Mine")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Mine")).to_be_visible()
    go(page, "button", "Remove “Mine”")
    expect(page.get_by_text("You keep no choices yet")).to_be_visible()


def test_an_administrator_finds_a_person_and_stops_the_session(page: Page, chromium: Browser, address: str) -> None:
    page.goto("/hub/spawn")
    go(page, "button", "Start")
    page.wait_for_url(re.compile(f"/user/{PERSON}/lab"), timeout=LAB_DEADLINE_MS)
    context = chromium.new_context(base_url=address, reduced_motion="reduce")
    admins = context.new_page()
    sign_in(admins, "carol")
    go(admins, "link", "Admin")
    tab_to(admins, admins.get_by_placeholder("Search users"))
    admins.keyboard.type(PERSON)
    expect(admins.get_by_role("button", name="More of carol")).to_have_count(0)
    go(admins, "button", f"More of {PERSON}")
    picture(admins, "keyboard-admin")
    go(admins, "button", "Stop Server")
    eventually(lambda: not jobs_of(PERSON), "the session has ended", within_s=60)
    context.close()


def test_they_log_out(page: Page) -> None:
    page.goto("/hub/home")
    go(page, "button", "Logout")
    page.wait_for_url(re.compile("/hub/login"))
