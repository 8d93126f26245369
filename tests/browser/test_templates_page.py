"""The page of templates: found by words, and a card starts a session with what its template needs and opens it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.portal_page import assert_accessible, log_in_as, picture
from tests.inside import eventually, has_no_job, sh

PERSON = "heidi"
LAB_DEADLINE_MS = 90_000

broken_step = ""  # the name of the first step that failed; conftest.py fills it in


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    sh("scancel", f"--user={PERSON}")
    eventually(lambda: has_no_job(PERSON), "no job is left", within_s=60)


def test_templates_are_found_by_words_and_by_framework_without_a_script(page: Page) -> None:
    log_in_as(page, PERSON)
    page.get_by_role("link", name="Templates", exact=True).click()
    expect(page.get_by_role("heading", name="Templates", level=1)).to_be_visible()
    every = page.get_by_role("listitem").filter(has=page.get_by_role("link", name=re.compile("^Start with it")))
    in_all = every.count()
    assert in_all >= 8, "those of the kernels that the demo offers"
    assert_accessible(page, "templates")
    picture(page, "40-templates")

    page.get_by_label("Words").fill("horovod resnet50")
    page.get_by_role("button", name="Search").click()

    expect(page.get_by_role("status")).to_have_text(re.compile(rf"^\s*1 of {in_all} templates\. Show all\s*$"))
    expect(page.locator("[data-template='horovod/resnet50']")).to_be_visible()
    page.get_by_role("link", name="Show all").click()
    page.get_by_label("Framework").select_option("TensorFlow")
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".dsp-framework").filter(has_text="Horovod")).to_have_count(0)
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    picture(page, "41-templates-small")
    page.set_viewport_size({"width": 1280, "height": 860})


def test_a_card_fills_the_form_in_and_the_session_opens_its_notebook(page: Page) -> None:
    card = page.locator("[data-template='tensorflow/mnist']")
    card.get_by_role("link", name=re.compile("^Start with it")).click()

    expect(page.get_by_text("These are the choices of the link that you followed")).to_be_visible()
    expect(page.get_by_role("radio", name="1 GPU", exact=False).first).to_be_checked()
    expect(page.get_by_role("alert")).to_have_count(0)
    assert_accessible(page, "options of a card")
    picture(page, "42-options-of-a-card")
    page.get_by_role("button", name="Start").click()

    page.wait_for_url(re.compile(r"/lab/.*tree/templates/tensorflow/mnist\.ipynb"), timeout=LAB_DEADLINE_MS)
    expect(page.get_by_role("tab", name="mnist.ipynb")).to_be_visible(timeout=LAB_DEADLINE_MS)
    picture(page, "43-notebook-of-a-card")


def test_with_a_session_a_card_opens_in_it(page: Page) -> None:
    page.goto("/hub/templates?framework=TensorFlow")
    card = page.locator("[data-template='tensorflow/tensorboard']")
    expect(card.get_by_role("link", name=re.compile("^Open"))).to_have_attribute(
        "href", re.compile(rf"/user/{PERSON}/lab/tree/templates/tensorflow/tensorboard\.ipynb$")
    )
    picture(page, "44-templates-with-a-session")
