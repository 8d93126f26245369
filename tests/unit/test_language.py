"""The hub's pages speak the reader's language: each text is in each catalogue, and is chosen for each request."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

import pytest
from jinja2 import Environment, nodes
from jinja2.lexer import TOKEN_DATA

from portal.history import reasons
from portal.language import amounts, catalogue, templates
from portal.language.templates import Translated
from portal.language.texts import _, chosen, language, ngettext, speak
from tests import texts
from tests.unit.served_hub import served_hub

LANGUAGES = catalogue.languages()
ROOT = Path(__file__).parents[2]
PAGES = ROOT / "templates" / "hub"
OF_THE_PROXY = {"proxy_page.html", "restarting.html", "other_address.html", "too_big.html"}
TEMPLATES = sorted(path.name for path in PAGES.glob("*.html") if path.name not in OF_THE_PROXY)
STOCK_PAGE = Path(sys.prefix) / "share" / "jupyterhub" / "templates" / "page.html"
HTML = re.compile(r"<[^>]*>")
FILLED_IN = re.compile(r"%\(\w+\)s|\{\w*\}")
NOT_SHOWN = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>|[\w-]+=\"[^\"]*\"|dsp-[\w-]*", re.DOTALL)
SAME_EVERYWHERE = {"GB", "h", "UTC"}
SHOWN = re.compile(r'\b(?:aria-label|alt|title|placeholder|data-label|data-busy)="([^"{]*[A-Za-z][^"{]*)"')
environment = Environment(extensions=[Translated], autoescape=True)


@pytest.fixture
def german() -> Iterator[None]:
    """Somebody who reads German asks."""
    speak("de")
    yield
    speak("en")


def test_a_moment_has_its_weekday_in_the_readers_language_without_a_script_too(german: None) -> None:
    source = (PAGES / "dsportal.html").read_text()
    page = environment.from_string(source + "{{ moments(['um ', at]) }}")
    at = datetime(2026, 11, 25, 12).astimezone()

    assert f">Mi. {at:%H:%M %Z}</time>" in page.render(at=at)
    speak("en")
    assert f">Wed {at:%H:%M %Z}</time>" in page.render(at=at)


@pytest.mark.parametrize("name", LANGUAGES)
def test_a_catalogue_holds_the_texts_of_now_and_no_others(name: str) -> None:
    held = catalogue.path_of(name).read_bytes()

    assert held == texts.updated(name), "run: python -m tests.texts"
    assert b"#, fuzzy" not in held


@pytest.mark.parametrize("name", LANGUAGES)
def test_no_text_is_without_a_translation(name: str) -> None:
    assert [one.id for one in texts.read(name) if not one.string or not all(one.string)] == []


@pytest.mark.parametrize("name", LANGUAGES)
def test_a_translation_fills_in_what_its_text_does_and_has_its_html(name: str) -> None:
    for one in texts.read(name):
        for text, translated in zip(forms(one.id), forms(one.string), strict=True):
            assert set(FILLED_IN.findall(text)) == set(FILLED_IN.findall(translated)), text
            assert not text or sorted(HTML.findall(text)) == sorted(HTML.findall(translated)), text


def forms(text: object) -> tuple[str, ...]:
    """A text alone, or those for one and for many."""
    return (text,) if isinstance(text, str) else tuple(text) if isinstance(text, tuple | list) else ()


def test_no_text_is_marked_within_another_one() -> None:
    """In an f-string nobody collects it: Python before 3.12 sees there a text without parts."""
    sources = [path.read_text() for folder in ("portal", "spawners") for path in (ROOT / folder).rglob("*.py")]

    assert [found for source in sources for found in re.findall(r"[rf]?f[\"'].*\{[^}]*\bn?_\([\"'].*", source)] == []


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_has_no_text_that_is_not_marked(name: str) -> None:
    source = (PAGES / name).read_text()
    bare = "".join(
        value
        for _line, token, value in without_marked(environment.lexer.tokeniter(source, name))
        if token == TOKEN_DATA
    )
    shown = re.sub(NOT_SHOWN, " ", bare)

    assert set(re.findall(r"[A-Za-z]+", shown)) <= SAME_EVERYWHERE
    assert SHOWN.findall(bare) == []


def without_marked(tokens: Iterable[tuple[int, str, str]]) -> list[tuple[int, str, str]]:
    """The tokens of a template but those between ``trans`` and ``endtrans``."""
    kept: list[tuple[int, str, str]] = []
    is_marked = False
    for token in tokens:
        if token[1:] == ("name", "trans"):
            is_marked = True
        if not is_marked:
            kept.append(token)
        if token[1:] == ("name", "endtrans"):
            is_marked = False
    return kept


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_shows_no_words_of_an_expression_that_are_not_marked(name: str) -> None:
    tree = environment.parse((PAGES / name).read_text())
    marked = {id(inner) for call in tree.find_all(nodes.Call) for inner in words_in(call) if is_gettext(call)}

    bare = [one.value for one in tree.find_all(nodes.Const) if is_words(one.value) and id(one) not in marked]

    assert bare == []


def is_gettext(call: nodes.Call) -> bool:
    return isinstance(call.node, nodes.Name) and call.node.name in {"_", "gettext", "ngettext"}


def words_in(call: nodes.Call) -> list[nodes.Const]:
    return list(call.find_all(nodes.Const))


def is_words(value: object) -> bool:
    """Two words, or one that begins as a sentence does; but no HTML, no address and no name of a product."""
    if not isinstance(value, str) or value in {"Data Scientist Portal", "UTC"} or "-" in value or "<" in value:
        return False
    return bool(re.match(r"[A-Z“][a-z]|[a-z]+ [a-z]+ ", value))


def test_the_texts_of_jupyterhubs_own_page_are_where_they_are_looked_for() -> None:
    """A JupyterHub that words its page otherwise is noticed here."""
    changed = Translated(environment).preprocess(STOCK_PAGE.read_text(), "templates/page.html")

    assert [text for text in templates.STOCK if text != "Error" and f'{{{{ _("{text}") }}}}' not in changed] == []
    assert all(after in changed for _before, after in (templates.TITLE, templates.LANGUAGE))


@pytest.mark.parametrize(
    ("accepted", "spoken"),
    [
        ("", "en"),
        ("de", "de"),
        ("de-CH, en;q=0.8", "de"),
        ("en-US,en;q=0.9,de;q=0.8", "en"),
        ("fr, de;q=0.5, en;q=0.4", "de"),
        ("fr", "en"),
        ("*", "en"),
        ("de;q=0, en", "en"),
        ("en;q=0.3, de;q=0.7", "de"),
        ("DE-at", "de"),
        ("de;q=x, \x00, ;;;", "en"),
    ],
)
def test_the_language_is_the_one_that_the_browser_likes_best_of_those_there_are(accepted: str, spoken: str) -> None:
    assert chosen(accepted) == spoken


@pytest.mark.usefixtures("german")
def test_texts_are_shown_in_the_language_of_the_request() -> None:
    assert language() == "de"
    assert _("Password") == "Passwort"
    assert _("") == ""
    assert ngettext("%(count)s core", "%(count)s cores", 2) == "%(count)s Kerne"


@pytest.mark.usefixtures("german")
@pytest.mark.parametrize(
    ("kept", "read"),
    [
        ("The session used up its hours.", "Die Stunden der Sitzung waren um."),
        ("The session was stopped by carol.", "Die Sitzung wurde von carol beendet."),
        (
            "The session's job failed with exit code 1. Its last lines are below.\nKilled",
            "Der Job der Sitzung ist mit Rückgabewert 1 fehlgeschlagen. Seine letzten Zeilen stehen unten.\nKilled",
        ),
        ("What a site's own spawner said.", "What a site's own spawner said."),
        ("", ""),
    ],
)
def test_the_reason_of_an_end_is_kept_in_english_and_read_in_the_language_of_who_reads_it(kept: str, read: str) -> None:
    assert reasons.shown(kept) == read


@pytest.mark.usefixtures("german")
def test_numbers_have_the_marks_of_the_language() -> None:
    assert (amounts.figure("1,240.5"), amounts.gpus(1), amounts.gpus_or_none(0)) == ("1.240,5", "1 GPU", "keine GPU")


def test_without_a_request_texts_are_english() -> None:
    assert _("Password") == "Password"


@pytest.mark.usefixtures("german")
def test_what_is_filled_into_a_text_is_escaped() -> None:
    template = environment.from_string("{% trans %}Enter the session of {{ person }}{% endtrans %}")

    assert template.render(person="<b>") == "Die Sitzung von &lt;b&gt; betreten"


@pytest.mark.usefixtures("german")
def test_jupyterhubs_times_of_a_token_are_in_the_readers_language() -> None:
    stock = '<option value="3600">1 Hour</option>\n<option selected="selected"value="">Max (90 days)</option>'

    assert templates.in_language(stock).count("Stunde<") == 1
    assert "Höchstens (90 Tage)" in templates.in_language(stock)


async def test_a_page_and_a_refusal_of_the_hub_are_in_the_language_that_the_browser_asks_for(tmp_path: Path) -> None:
    async with served_hub(tmp_path) as served:
        browser = await served.browser("alice")
        home = await browser.get("/hub/home", headers={"Accept-Language": "de-DE,de;q=0.9,en;q=0.8"})
        nowhere = await browser.get("/hub/nowhere", headers={"Accept-Language": "de"})
        english = await browser.get("/hub/home", headers={"Accept-Language": "fr"})

    assert '<html lang="de">' in home.text
    assert ">Startseite<" in home.text
    assert "Hier ist nichts" in nowhere.text
    assert '<html lang="en">' in english.text
    assert ">Home<" in english.text
