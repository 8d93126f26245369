"""A person's own named choices: their names, the table, the form and REST with one check behind both."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal
from unittest.mock import Mock

import httpx
import pytest
from jupyterhub import orm
from sqlalchemy.exc import OperationalError

from portal.databases import connections, copies
from portal.databases import named_choices as store
from portal.options import named
from portal.options.named import LONGEST, MOST, Kept, NamedChoices, NameRefused
from spawners import slurm as spawner_module
from tests.unit.conftest import delete_person
from tests.unit.served_hub import ServedHub, served_hub
from tests.unit.test_form import Page
from tests.unit.test_several_sessions import main_of, start, user_of, with_sessions

API = "/hub/api/dsportal/choices/alice"
PAGE = "/hub/dsportal/choices/alice"
TWO = {"partition": "sxm2", "gpus": 2, "hours": 3}
GONE = OperationalError("SELECT 1", {}, OSError("gone"))


# -- names and the list ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given", ["", "   ", "a\nb", "a\tb", "x" * (LONGEST + 1), "\ud800", "a\u202eb", "a\0", "\u200b"]
)
def test_a_name_that_cannot_be_seen_or_kept_is_refused_with_what_is_allowed(given: str) -> None:
    with pytest.raises(NameRefused) as refused:
        named.name_of(given)

    assert f"Allowed: 1 to {LONGEST} characters that can be seen" in refused.value.message
    refused.value.message.encode()


@pytest.mark.parametrize("given", ["two GPUs", "Übung 3", "深度学习", "a/b?c=<d>&'\"", "x" * LONGEST])
def test_any_other_name_is_kept_as_it_is(given: str) -> None:
    kept = named.with_choices((), f" {given} ", TWO)

    assert named.from_text(named.to_text(kept)) == (NamedChoices(given, TWO),)


def test_of_a_name_with_very_many_marks_nothing_is_composed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take the square of their number, while everybody waits."""
    composed: list[int] = []
    usual = unicodedata.normalize

    def noted(form: Literal["NFC"], text: str) -> str:
        composed.append(len(text))
        return usual(form, text)

    monkeypatch.setattr(unicodedata, "normalize", noted)
    with pytest.raises(NameRefused, match="one of 20001 characters"):
        named.name_of("a" + 10_000 * "\u0301\u0327")
    assert named.name_of(LONGEST * "u\u0308\u0304") == LONGEST * "\u01d6", "marks apart, as some keyboards write them"
    assert composed == [3 * LONGEST]


def test_names_that_look_alike_are_one() -> None:
    kept = named.with_choices((), "Übung", TWO)

    again = named.with_choices(kept, "U\u0308bung", {"gpus": 1})

    assert again == (NamedChoices("Übung", {"gpus": 1}),)


def many() -> Kept:
    kept: Kept = ()
    for number in range(MOST):
        kept = named.with_choices(kept, f"{number}", TWO)
    return kept


def test_there_are_so_many_and_no_more_and_each_can_be_replaced() -> None:
    kept = many()

    with pytest.raises(NameRefused, match=f"You have {MOST} named choices"):
        named.with_choices(kept, "one more", TWO)
    assert named.with_choices(kept, "7", {"gpus": 1})[7] == NamedChoices("7", {"gpus": 1})


def test_one_is_renamed_in_its_place_and_never_over_another() -> None:
    kept = many()

    assert [one.name for one in named.renamed(kept, "1", "first")][:3] == ["0", "first", "2"]
    assert named.renamed(kept, "1", "1") == kept
    with pytest.raises(NameRefused, match="other choices named “2”"):
        named.renamed(kept, "1", "2")
    with pytest.raises(NameRefused, match=r"no choices named “none”\. You have: “0”, “1”"):
        named.renamed(kept, "none", "new")
    with pytest.raises(NameRefused, match="You have none yet"):
        named.without((), "none")


# -- the table ------------------------------------------------------------------------------------------


@pytest.fixture
def db() -> Any:
    """A hub's database with two people, as the hub has opened it."""
    session = orm.new_session_factory("sqlite:///:memory:")()
    session.add_all([orm.User(name=name) for name in ("alice", "bob")])
    session.commit()
    connections.prepare(session)
    yield session
    session.close()


def test_each_person_has_their_own_and_who_is_deleted_takes_them_along(db: Any) -> None:
    for text in ("first", "second"):
        store.keep(db, 1, text)
    store.keep(db, 2, "of bob")

    assert [store.of_person(db, number) for number in (1, 2, 3)] == ["second", "of bob", ""]
    delete_person(db, "bob")
    assert store.of_person(db, 2) == ""


def test_a_copy_of_the_database_has_them_and_brings_them_back(db: Any) -> None:
    store.keep(db, 1, "kept")
    connection = db.connection()
    copy = copies.make(connection, "4621fec11365")
    for table in (store.TABLE, *reversed(orm.Base.metadata.sorted_tables)):
        connection.execute(table.delete())

    copies._fill(connection, copy)
    db.commit()

    assert store.of_person(db, 1) == "kept"


# -- the form -------------------------------------------------------------------------------------------


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[ServedHub]:
    async with served_hub(tmp_path) as hub:
        yield hub


async def ask(browser: httpx.AsyncClient, query: str = "", **fields: str) -> httpx.Response:
    """Press *Keep these choices* in the form."""
    data = {"partition": "sxm2", "gpus": "2", "hours": "3", **fields, "_xsrf": browser.cookies["_xsrf"]}
    return await browser.post(f"{PAGE}{query}", data=data)


async def keep(browser: httpx.AsyncClient, name: str, query: str = "") -> httpx.Response:
    """Type a name on the page that follows."""
    fields = [one for one in Page((await ask(browser, query)).text).tags if one[0] == "input"]
    data = {str(field["name"]): str(field["value"]) for _, field in fields if field.get("type") == "hidden"}
    assert data["opt-gpus"] == "2"
    return await browser.post(f"{PAGE}/keep{query}", data={**data, "name": name})


async def send(browser: httpx.AsyncClient, action: str, **fields: str) -> httpx.Response:
    return await browser.post(f"{PAGE}/{action}", data={**fields, "_xsrf": browser.cookies["_xsrf"]})


def chosen(answer: httpx.Response) -> tuple[str | None, str | None]:
    """The GPUs and the hours of a form."""
    page = Page(answer.text)
    return page.chosen("gpus"), page.fields("hours")[0]["value"]


async def test_choices_are_kept_by_the_form_and_fill_it_in_without_scripts(served: ServedHub) -> None:
    browser = await served.browser("alice")
    before = await browser.get("/hub/spawn")
    asked = await ask(browser)
    assert "Keep these choices" in before.text
    assert "My choices" not in before.text
    assert "2 GPUs · 3 h" in main_of(asked)

    kept = await keep(browser, "two <b>GPUs</b>")
    follow = await browser.get("/hub/spawn")
    link = re.search(r'href="(\?opt-choice=[^"]+)"', follow.text)
    assert link
    filled = await browser.get(f"/hub/spawn{link[1]}")

    for answer in (kept, filled):
        assert answer.status_code == 200
        assert chosen(answer) == ("2", "3")
        assert "These are your choices “two &lt;b&gt;GPUs&lt;/b&gt;”: check them, then press Start." in answer.text
        assert "Nothing was started" not in answer.text
    assert chosen(follow) != ("2", "3")
    assert served.slurm.jobs == {}, "nothing was started"


async def test_the_page_leads_back_to_the_form_it_came_from_and_nowhere_else(served: ServedHub) -> None:
    browser = await served.browser("alice")

    named_form = await keep(browser, "a", "?back=/hub/spawn/alice&next=/user/alice/lab")
    elsewhere = await keep(browser, "b", "?back=//evil.example/hub/spawn&next=//evil.example")

    assert named_form.url.path == "/hub/spawn/alice"
    assert dict(named_form.url.params) == {"opt-choice": "a", "next": "/user/alice/lab"}
    assert f"{elsewhere.url.host}{elsewhere.url.path}" == f"{browser.base_url.host}/hub/spawn/alice"
    assert "next" not in elsewhere.url.params


@pytest.mark.parametrize(
    "back",
    [
        "/hub/spawn/../../user/bob/page",
        "/hub/spawn/%2e%2e/%2E./user/bob/page",
        "/hub/spawn\\..\\..\\user\\bob",
        "/hub/dsportal/change/../../../user/bob",
        "/hub/spawn/alice\nx",
    ],
)
async def test_the_way_back_leads_to_the_form_however_its_address_is_spelled(served: ServedHub, back: str) -> None:
    browser = await served.browser("alice")

    page = await browser.get(PAGE, params={"back": back})
    kept = await keep(browser, "a", f"?{httpx.QueryParams({'back': back})}")

    links = [tag["href"] for name, tag in Page(page.text).tags if name == "a" and "btn-link" in str(tag.get("class"))]
    assert links == ["/hub/spawn/alice"]
    assert (kept.status_code, kept.url.path) == (200, "/hub/spawn/alice")


async def test_they_are_renamed_and_removed_on_their_page(served: ServedHub) -> None:
    browser = await served.browser("alice")
    await keep(browser, "first")

    renamed = await send(browser, "rename", name="first", new_name="second")
    refused = await send(browser, "rename", name="second", new_name="\n")
    gone = await send(browser, "remove", name="first")

    assert renamed.url.path == PAGE
    assert "second" in main_of(renamed)
    assert "first" not in main_of(renamed)
    assert (refused.status_code, gone.status_code) == (400, 400)
    assert "no choices named “first”. You have: “second”." in main_of(gone)
    assert "You keep no choices yet" in main_of(await send(browser, "remove", name="second"))


async def test_what_is_not_possible_is_not_kept_and_the_page_says_why(served: ServedHub) -> None:
    browser = await served.browser("alice")

    asked = await ask(browser, gpus="99")
    forged = await send(browser, "keep", **{"name": "x", "opt-gpus": "99"})
    unknown = await send(browser, "keep", **{"name": "x", "opt-comment": "--wrap=id"})
    unnamed = await keep(browser, " ")

    for answer in (asked, forged):
        assert answer.status_code == 400
        assert "gpus: 99 is not possible here" in main_of(answer)
    assert unknown.status_code == 400
    assert unnamed.status_code == 400
    assert 'name="opt-gpus" value="2"' in unnamed.text, "the choices are still there"
    assert user_of(served).spawner.offer.named.kept == ()


async def test_choices_that_the_site_does_not_offer_any_more_are_told_kindly(served: ServedHub) -> None:
    browser = await served.browser("alice")
    user = user_of(served)
    old = named.with_choices((), "old", {"partition": "gone", "gpus": 2, "hours": 3})
    store.keep(user.db, user.id, named.to_text(old))

    answer = await browser.get("/hub/spawn", params={"opt-choice": "old"})
    unknown = await browser.get("/hub/spawn", params={"opt-choice": "nobody's"})

    assert answer.status_code == 200
    assert "“old” is not possible any more as you kept it; the form has what comes nearest." in main_of(answer)
    assert "Nothing was started" not in answer.text
    assert chosen(answer) == ("2", "3"), "the others are as they were kept"
    assert "You have: “old”." in main_of(unknown)
    sent = await browser.post("/hub/spawn", data={"partition": "gone", "_xsrf": browser.cookies["_xsrf"]})
    assert sent.status_code == 400, "the check is the same as ever"


async def test_they_fill_in_the_form_of_a_session_with_a_name_and_of_one_that_waits(tmp_path: Path) -> None:
    spawner_module.site_of.cache_clear()
    site = with_sessions(tmp_path, "sessions_max = 2")

    def prepare(hub: Any) -> None:
        hub.config.SlurmSessionSpawner.site_file = site

    async with served_hub(tmp_path, prepare, allow_named_servers=True) as served:
        browser = await served.browser("alice")
        await keep(browser, "two")
        await start(served, browser)
        second = await browser.get("/hub/spawn/alice/second", params={"opt-choice": "two"})
        waits = await browser.get("/hub/dsportal/change/alice", params={"opt-choice": "two"})

    for answer in (second, waits):
        assert chosen(answer) == ("2", "3")
        assert "These are your choices “two”" in main_of(answer)
        assert "Nothing was changed" not in main_of(answer)
    assert "/hub/dsportal/choices/alice?back=/hub/dsportal/change/alice" in waits.text


async def test_without_the_database_the_form_comes_without_them_and_says_so_to_who_asks(
    served: ServedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = await served.browser("alice")
    await keep(browser, "two")
    monkeypatch.setattr(store, "of_person", Mock(side_effect=GONE))

    form = await browser.get("/hub/spawn")
    asked = await browser.get("/hub/spawn", params={"opt-choice": "two"})
    page = await browser.get(PAGE)

    assert form.status_code == 200
    assert "My choices" not in form.text
    assert "Named choices cannot be read or kept now" in main_of(asked)
    assert page.status_code == 503


# -- REST -----------------------------------------------------------------------------------------------


async def test_rest_keeps_renames_and_removes_with_the_same_check(served: ServedHub) -> None:
    browser = await served.browser("alice")
    browser.headers["Authorization"] = f"token {served.token('alice')}"

    kept = await browser.put(API, json={"name": "two", "options": {"gpus": 2, "hours": 3}})
    renamed = await browser.patch(API, json={"name": "two", "new_name": "a/b"})
    told = await browser.get(API)
    started = await browser.put(API, json={"name": "no", "options": {"gpus": 99}})
    unseen = await browser.put(API, json={"name": "\u202e", "options": {}})
    removed = await browser.delete(API, params={"name": "a/b"})

    assert (kept.status_code, kept.json()) == (200, {"name": "two", "options": TWO})
    assert renamed.json()["name"] == "a/b"
    assert told.json() == {"choices": [{"name": "a/b", "options": TWO}]}
    assert started.status_code == 400
    assert "gpus: 99 is not possible here" in started.json()["message"]
    assert unseen.status_code == 400
    assert (removed.status_code, removed.json()) == (200, {"name": "a/b"})
    assert (await browser.get(API)).json() == {"choices": []}
    assert (await browser.delete(API, params={"name": "a/b"})).status_code == 400


@pytest.mark.parametrize(
    "body", ["", "[]", "{}", '{"name": 1, "options": {}}', '{"name": "a", "options": {}, "more": 1}']
)
async def test_rest_says_what_a_body_has(served: ServedHub, body: str) -> None:
    browser = await served.browser("alice")
    browser.headers["Authorization"] = f"token {served.token('alice')}"

    answer = await browser.put(API, content=body)

    assert answer.status_code == 400
    assert "name (text) and options (an object)" in answer.json()["message"]


async def test_a_lone_surrogate_is_refused_by_every_door(served: ServedHub) -> None:
    browser = await served.browser("alice")
    form = await send(browser, "keep", **{"name": "\\ud800", "opt-gpus": "1"})
    browser.headers["Authorization"] = f"token {served.token('alice')}"

    rest = await browser.put(API, content='{"name": "\\ud800", "options": {"gpus": 1}}')

    assert form.status_code == 200, "a form sends a backslash, which is a letter like others"
    assert rest.status_code == 400
    assert user_of(served).spawner.offer.named.kept[0].name == "\\ud800"


async def test_nobody_reads_or_changes_anothers(served: ServedHub) -> None:
    alice = await served.browser("alice")
    await keep(alice, "two")
    bob = await served.browser("bob")

    page = await bob.get(PAGE)
    sent = await bob.post(f"{PAGE}/remove", data={"name": "two", "_xsrf": bob.cookies["_xsrf"]})
    told = await bob.get(API, headers={"Authorization": f"token {served.token('bob')}"})

    assert {page.status_code, sent.status_code, told.status_code} <= {403, 404}
    assert [one.name for one in user_of(served).spawner.offer.named.kept] == ["two"]
