"""Somebody whose browser asks for German reads German on every page of the hub, and whoever asks otherwise English."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.portal_page import assert_for_everybody, jobs_of, submit_as
from tests.inside import eventually, sh

PERSON = "judy"
LAB_DEADLINE_MS = 90_000
# What only English has; names of things (Slurm, JupyterLab) are the same in both.
ENGLISH = re.compile(r"\b(the|your|you|and|with|is|are|this|not|sessions?|of|for|hours|cores)\b", re.IGNORECASE)

broken_step = ""  # the name of the first step that failed; conftest.py fills it in


@pytest.fixture(scope="module")
def address(attentive: str) -> str:
    """A portal that looks at its sessions and at the queue every other second."""
    return attentive


@pytest.fixture(scope="module")
def context(chromium: Browser, address: str) -> Iterator[BrowserContext]:
    """A browser as a German system has it."""
    context = chromium.new_context(
        base_url=address, viewport={"width": 1280, "height": 860}, reduced_motion="reduce", locale="de-DE"
    )
    context.set_default_timeout(30_000)
    yield context
    context.close()


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    sh("scancel", f"--user={PERSON}")
    eventually(lambda: not jobs_of(PERSON), "no job is left", within_s=60)


@pytest.fixture(scope="module")
def full_partition() -> Iterator[int]:
    """Somebody else has all GPUs of sxm2: the next job waits in the queue."""
    job = submit_as("bob", "--partition=sxm2", "--nodes=3", "--gres=gpu:4", "--wrap=sleep 600")
    eventually(lambda: [j for j in jobs_of("bob") if j.id == job and j.state == "RUNNING"], "bob's job runs")
    yield job
    sh("scancel", str(job))


def assert_german(page: Page, name: str, but: str = "") -> None:
    """The page says that it is German, and is; axe and a narrow window find nothing amiss.

    ``but`` is what is not the portal's own word: a site's profiles and templates, names of permissions.
    """
    expect(page.locator("html")).to_have_attribute("lang", "de")
    said = page.evaluate(
        """but => {
            const copy = document.body.cloneNode(true);
            const notOurs = ["script", "pre", "code", but].filter(Boolean).join(",");
            copy.querySelectorAll(notOurs).forEach((one) => one.remove());
            const named = [...copy.querySelectorAll("[aria-label], [placeholder], [title]")].flatMap((one) =>
                ["aria-label", "placeholder", "title"].map((name) => one.getAttribute(name) || ""));
            return [copy.textContent, ...named, document.title].join(" \\n ").replace(/\\s+/g, " ");
        }""",
        but,
    )
    assert [said[max(0, found.start() - 40) : found.end() + 40] for found in ENGLISH.finditer(said)] == []
    assert_for_everybody(page, f"german {name}")


def test_the_login_page_and_what_it_refuses(page: Page) -> None:
    page.goto("/hub/login")
    assert_german(page, "login", but=".dsp-login-hero h1")

    page.get_by_label("Benutzername").fill(PERSON)
    page.get_by_label("Passwort").fill("wrong")
    page.get_by_role("button", name="Anmelden").click()
    expect(page.get_by_role("alert")).to_contain_text("Benutzername oder Passwort ist falsch.")

    page.get_by_label("Benutzername").fill(PERSON)
    page.get_by_label("Passwort").fill(f"{PERSON}-demo")
    page.get_by_role("button", name="Anmelden").click()
    expect(page.get_by_role("heading", name="Mein Server", level=1)).to_be_visible()


@pytest.mark.parametrize(
    ("place", "heading", "but"),
    [
        ("home", "Mein Server", ""),
        ("spawn", "Eine Sitzung starten", ".dsp-profiles strong, .dsp-profiles span, .dsp-partition-title"),
        ("token", "Token", ".token-note, .visually-hidden"),
        (
            "templates",
            "Vorlagen",
            ".dsp-template h3, .dsp-summary-text, .dsp-template dd, .visually-hidden, .dsp-framework",
        ),
        ("again", "Noch einmal Ihr Passwort", ""),
        ("logout", "Abmelden?", ""),
        ("nowhere", "Hier ist nichts", ""),
        ("error/503", "Die Sitzung antwortet nicht", ""),
        (f"user/{PERSON}/lab", "Mein Server läuft nicht", ""),
    ],
)
def test_a_page_of_the_hub(page: Page, place: str, heading: str, but: str) -> None:
    page.goto(f"/hub/{place}")
    expect(page.get_by_role("heading", level=1)).to_contain_text(heading)
    assert_german(page, place.replace("/", " "), but)


def test_a_choice_that_is_not_possible_is_refused_in_german_by_form_and_rest(page: Page) -> None:
    page.goto(f"/hub/spawn/{PERSON}?gpus=99&hours=2")
    expect(
        page.get_by_text("99 ist hier nicht möglich. Erlaubt: eine ganze Zahl von 0 bis 4.", exact=True)
    ).to_be_visible()

    page.goto("/hub/home")
    ask = """language => fetch("/hub/api/users/judy/server", {
        method: "POST",
        headers: {
            "X-XSRFToken": window.jhdata.xsrf_token, "Content-Type": "application/json", "Accept-Language": language,
        },
        body: JSON.stringify({ gpus: 99 }),
    }).then((answer) => answer.json()).then((told) => told.message)"""
    assert "ist hier nicht möglich" in page.evaluate(ask, "de")
    assert "is not possible here" in page.evaluate(ask, "en")


def test_the_script_of_the_form_says_the_choice(page: Page) -> None:
    page.goto("/hub/spawn")
    page.get_by_role("radio", name=re.compile("^1 GPU ")).check()

    expect(page.locator("#options-summary")).to_contain_text(
        re.compile("^1 GPU, .*Kerne und .* Arbeitsspeicher in .* für .* h$")
    )
    expect(page.locator("#hours-limit")).to_contain_text("Stunden, höchstens")


def test_the_waiting_page(page: Page, full_partition: int) -> None:
    page.get_by_role("radio", name=re.compile("^sxm2 ")).check()
    page.get_by_role("button", name="Start").click()

    expect(page.get_by_role("heading", name="Ihre Sitzung startet", level=1)).to_be_visible()
    expect(page.locator("#progress-message")).to_contain_text("Jetzt ist keine GPU frei.", timeout=40_000)
    assert_german(page, "waiting")


@pytest.mark.long
def test_the_page_of_a_request_that_waits_and_its_end(page: Page, full_partition: int) -> None:
    page.get_by_role("link", name="Anforderung ändern").click()
    expect(page.locator("#place-is-lost")).to_contain_text("Sein Platz in der Warteschlange ist verloren")

    page.goto("/hub/home")
    expect(page.get_by_role("heading", name="Wartet in der Warteschlange")).to_be_visible()
    assert_german(page, "home waiting")
    page.get_by_role("button", name="Meinen Server beenden").click()
    expect(page.get_by_role("heading", name="Läuft nicht", exact=True)).to_be_visible(timeout=60_000)
    expect(page.locator(".dsp-ended-row").first).to_contain_text("Sie haben die Sitzung beendet.")
    assert_german(page, "home ended")


@pytest.mark.long
def test_a_token_is_made_and_revoked(page: Page) -> None:
    page.goto("/hub/token")
    page.get_by_label("Notiz", exact=True).fill("german")
    page.get_by_role("button", name="Neues API-Token anfordern").click()
    expect(page.locator("#token-status")).to_contain_text("Das Token wurde erstellt.")

    page.reload()
    page.get_by_role("button", name="Widerrufen german").click()
    expect(page.locator("#token-status")).to_contain_text("„german“ wurde widerrufen.")


@pytest.mark.long
def test_the_page_of_administrators(chromium: Browser, address: str) -> None:
    context = chromium.new_context(base_url=address, reduced_motion="reduce", locale="de-DE")
    page = context.new_page()
    page.goto("/hub/login")
    page.get_by_label("Benutzername").fill("carol")
    page.get_by_label("Passwort").fill("carol-demo")
    page.get_by_role("button", name="Anmelden").click()
    page.goto("/hub/admin", wait_until="networkidle")

    expect(page.get_by_role("button", name="Mehr zu carol")).to_be_visible()
    expect(page.get_by_role("heading", name="Wie gut die Vorhersagen waren")).to_be_visible()
    assert_for_everybody(page, "german admin")
    context.close()


@pytest.mark.parametrize("locale", ["en-GB", "fr-FR"])
def test_whoever_asks_for_no_german_reads_english(chromium: Browser, address: str, locale: str) -> None:
    context = chromium.new_context(base_url=address, locale=locale)
    page = context.new_page()
    page.goto("/hub/login")

    expect(page.locator("html")).to_have_attribute("lang", "en")
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    context.close()
