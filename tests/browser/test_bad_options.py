"""Options that nobody may have: refused behind the form, the REST API and a link, with a message and without a job."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.portal_page import assert_accessible, jobs_of, log_in_as, picture

PERSON = "erin"
BAD = [
    ({"gpus": 5}, "gpus", "from 0 to 4"),
    ({"gpus": "many"}, "gpus", "a whole number"),
    ({"hours": -1}, "hours", "from 1 to 24"),
    ({"hours": "8\n"}, "hours", "a whole number"),
    ({"partition": '"; rm -rf'}, "partition", "sxm2"),
    ({"partition": "sxm2\n#SBATCH --account=vip"}, "partition", "sxm2"),
    ({"partition": "iq"}, "partition", "sxm2"),
    ({"gpus": [1, 4]}, "gpus", ""),
    ({"qos": "vip"}, "qos", "partition, gpus, hours"),
]


@pytest.fixture(scope="module", autouse=True)
def _erin(page: Page) -> None:
    log_in_as(page, PERSON)


@pytest.fixture(autouse=True)
def _no_job() -> Any:
    yield
    assert jobs_of(PERSON) == []


def send_form(page: Page, options: dict[str, Any]) -> tuple[int, str]:
    """Send the form as a browser would with these values; the status and the message on the page that comes back."""
    page.goto(f"/hub/spawn/{PERSON}")
    pairs = [
        [key, str(value)]
        for key, values in options.items()
        for value in (values if isinstance(values, list) else [values])
    ]
    # The page's own checks are left out: whatever arrives, the hub has to refuse it.
    with page.expect_response(lambda response: response.request.method == "POST") as answered:
        page.evaluate(
            """pairs => {
                const form = document.getElementById("spawn_form");
                form.replaceChildren(form.elements._xsrf, ...pairs.map(([name, value]) =>
                    Object.assign(document.createElement("textarea"), { name, value })));
                form.submit();
            }""",
            pairs,
        )
    alert = page.get_by_role("alert")
    expect(alert).to_be_visible()
    return answered.value.status, alert.inner_text()


def send_rest(page: Page, options: dict[str, Any]) -> tuple[int, str]:
    """Start a session with the REST API, as a script would."""
    page.goto("/hub/home")
    answer = page.evaluate(
        """async ([person, options]) => {
            const answer = await fetch(`/hub/api/users/${person}/server`, {
                method: "POST",
                headers: { "X-XSRFToken": window.jhdata.xsrf_token, "Content-Type": "application/json" },
                body: JSON.stringify(options),
            });
            return { status: answer.status, message: (await answer.json()).message };
        }""",
        [PERSON, options],
    )
    return answer["status"], answer["message"]


@pytest.mark.parametrize(("options", "field", "allowed"), BAD)
def test_the_form_comes_back_with_what_is_wrong(page: Page, options: dict[str, Any], field: str, allowed: str) -> None:
    status, message = send_form(page, options)

    assert status == 400
    assert field in message
    assert allowed in message


@pytest.mark.parametrize(("options", "field", "allowed"), BAD)
def test_the_rest_api_says_what_is_wrong(page: Page, options: dict[str, Any], field: str, allowed: str) -> None:
    status, message = send_rest(page, options)

    assert status == 400
    assert field in message
    assert allowed in message


def test_a_refused_value_is_said_at_its_field_and_the_other_choices_stay(page: Page) -> None:
    page.goto(f"/hub/spawn/{PERSON}")
    page.get_by_role("radio", name="3 GPUs").check()
    page.evaluate("document.getElementById('spawn_form').noValidate = true")
    page.get_by_label("Hours", exact=True).fill("-1")
    page.get_by_role("button", name="Start").click()

    expect(page.get_by_text("Nothing was started.")).to_be_visible()
    hours = page.get_by_label("Hours", exact=True)
    expect(hours).to_have_value("-1")
    expect(hours).to_have_attribute("aria-invalid", "true")
    expect(hours).to_have_accessible_description(re.compile("^-1 is not possible here. Allowed: a whole number from 1"))
    expect(page.get_by_role("radio", name="3 GPUs")).to_be_checked()
    assert_accessible(page, "options with a message")
    picture(page, "20-bad-hours")


@pytest.mark.parametrize("query", ["opt-gpus=1", "gpus=1&partition=sxm2", "anything=1"])
def test_a_link_never_starts_a_session(page: Page, query: str) -> None:
    page.goto(f"/hub/spawn/{PERSON}?{query}")

    expect(page.get_by_role("heading", name="Start a session")).to_be_visible()
    page.goto("/hub/home")
    expect(page.get_by_role("heading", name="Not running")).to_be_visible()


def test_the_choices_of_a_link_are_filled_in_and_wait_for_the_person(page: Page) -> None:
    page.goto(f"/hub/spawn/{PERSON}?gpus=3&hours=2")

    expect(
        page.get_by_text("These are the choices of the link that you followed: check them, then press Start.")
    ).to_be_visible()
    expect(page.get_by_role("radio", name="3 GPUs")).to_be_checked()
    expect(page.get_by_label("Hours", exact=True)).to_have_value("2")
    picture(page, "21-choices-of-a-link")


def test_a_link_that_asks_for_too_much_says_so_at_the_field(page: Page) -> None:
    page.goto(f"/hub/spawn/{PERSON}?gpus=99&hours=2")

    expect(
        page.get_by_text("99 is not possible here. Allowed: a whole number from 0 to 4.", exact=True)
    ).to_be_visible()
    expect(page.get_by_label("Hours", exact=True)).to_have_value("2")
