"""The form of a site that offers everything, in the page and with the scripts of the real one."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from portal.site import Identity, Site, parse
from spawners import form
from tests.browser.portal_page import assert_accessible, log_in_as, picture

PERSON = "erin"
TABLES = {
    "gpu": (
        {"name": "a100", "title": "NVIDIA A100", "gres": "gpu:a100", "cores_per_gpu": 16, "memory_gb_per_gpu": 120},
        {"name": "slice", "title": "A seventh of an A100", "gres": "gpu:a100_1g.5gb", "gpus_max": 1},
    ),
    "partition": (
        {
            "name": "gpu",
            "title": "For everybody",
            "gpu": ("a100", "slice"),
            "account": ("ai", "teaching"),
            "qos": ("normal", "long"),
            "reservation": ("", "course-ml"),
            "constraint": ("", "nvlink"),
            "licenses": ("", "matlab:1"),
            "mail_type": ("", "BEGIN,END"),
        },
        {"name": "cpu", "title": "Without GPUs", "gpus_max": 0, "cores_max": 32, "memory_gb_max": 128},
    ),
}


@pytest.fixture(scope="module")
def rich() -> Site:
    return parse(dict(TABLES))


def test_a_form_with_every_field_is_accessible_and_fits_any_screen(page: Page, rich: Site) -> None:
    log_in_as(page, PERSON)
    page.goto(f"/hub/spawn/{PERSON}")
    page.evaluate(
        """html => {
            const form = document.getElementById("spawn_form");
            const kept = [form.elements._xsrf, form.querySelector(".dsp-actions")];
            form.innerHTML = html;
            form.prepend(kept[0]);
            form.append(kept[1]);
        }""",
        form.render(rich, Identity(PERSON)),
    )

    for label in ("Kind of GPU", "Account", "QOS", "Reservation", "Nodes", "Licences", "E-mail"):
        expect(page.get_by_label(label, exact=True)).to_be_visible()
    expect(page.get_by_label("CPU cores without a GPU")).to_have_accessible_description(
        "Up to 32; leave it empty for 2, and with GPUs: they bring their own."
    )
    page.get_by_label("Account", exact=True).select_option("teaching")
    assert_accessible(page, "the form with every field")  # before the pictures, whose style the page's policy refuses
    picture(page, "25-every-field")
    page.get_by_label("Memory without a GPU").scroll_into_view_if_needed()
    picture(page, "25-every-field-below")
    for width in (1280, 360):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    picture(page, "26-every-field-narrow")
