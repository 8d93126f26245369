"""One person's page can do nothing as another person: a hostile session's page, in a real browser."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from tests.forms import of_long_form
from tests.inside import eventually, home, jobs_of, sh
from tests.security.conftest import NAME, Two

ONE_ORIGIN = ""
NOTEBOOK = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
LOCALHOST = "localhost:18500"  # as in the demo: to a browser, names below it are other sites
A_NAME = f"{NAME}:18500"  # names below it are the same site, so cookies are sent; the harder case
HTTPS = f"https://{NAME}:18500"


def tokens_of(page: Page, name: str) -> list[str]:
    """The ids of somebody's tokens, as that person sees them on the hub's own page."""
    ask = """name => fetch(`/hub/api/users/${name}/tokens`, {headers: {"X-XSRFToken": jhdata.xsrf_token}})
        .then(answer => answer.json())"""
    return [token["id"] for token in page.evaluate(ask, name)["api_tokens"]]


def kernels_of(page: Page, session: str) -> int:
    """How many kernels run in the session whose page this is."""
    page.wait_for_function("document.cookie.includes('_xsrf=')")
    ask = """session => fetch(`${session}/api/kernels`,
        {headers: {"X-XSRFToken": /_xsrf=([^;]+)/.exec(document.cookie)[1]}}).then(answer => answer.json())"""
    found = page.evaluate(ask, session)
    assert isinstance(found, list), found
    return len(found)


def made_by_lab(page: Page, session: str, name: str) -> int:
    """The status that a session answers to a new folder, with the cookie that JupyterLab would send as its token."""
    page.wait_for_function("document.cookie.split('; ').filter(one => one.startsWith('_xsrf=')).length === 1")
    ask = """address => fetch(address, {method: "PUT", body: '{"type": "directory"}',
        headers: {"X-XSRFToken": /_xsrf=([^;]+)/.exec(document.cookie)[1]}}).then(answer => answer.status)"""
    status: int = page.evaluate(ask, f"{session}/api/contents/{name}")
    return status


def visit(two: Two, path: str = "/user/bob/notebook") -> Page:
    """Carol opens a page of Bob's session."""
    page = two.carol.context.new_page()
    given = {
        "portal": two.address,
        "session": two.session,
        "visitor": "carol",
        "name": two.login[0],
        "value": two.login[1],
        "token": two.token,
    }
    query = urlencode(given)
    page.goto(f"{two.bobs}{path}?{query}")
    expect(page).to_have_title("A nice notebook")
    return page


def all_tried(hostile: Page) -> dict[str, str]:
    """What the page got, by what it tried; "" = nothing."""
    hostile.evaluate("void tryAll().then(found => { window.found = found; })")
    got: dict[str, str] = hostile.wait_for_function("window.found", timeout=90_000).json_value()
    with hostile.expect_popup() as popup:
        hostile.get_by_role("button", name="More").click()
    popup.value.wait_for_load_state()
    got["reads a window that it opened"] = hostile.evaluate("seenInPopup()")
    return got


def loses_hold(hostile: Page, address: str) -> None:
    """A page has no hold of a window any more that it has opened, as soon as something is there."""
    with hostile.expect_popup() as popup:
        hostile.evaluate("address => { window.opened = window.open(address) }", address)
    hostile.wait_for_function("window.opened.closed")  # to that page: the window is open still
    assert not popup.value.is_closed()
    popup.value.close()


LOADS = """async ([session, token]) => {
  const address = name => `${session}/files/origins/${name}?_xsrf=${encodeURIComponent(token)}`;
  const loaded = (kind, given) => new Promise(go => {
    const one = Object.assign(document.createElement(kind), given);
    one.onload = () => go(one.naturalWidth || '');
    one.onerror = () => go('');
    document.head.append(one);
  });
  await loaded('script', {src: address('own.js')});
  await loaded('link', {rel: 'stylesheet', href: address('own.css')});
  return {
    'runs a script of hers': window.hers ?? '',
    'is drawn by a style of hers': getComputedStyle(document.documentElement).getPropertyValue('--hers'),
    'measures a picture of hers': await loaded('img', {src: address('own.svg')}),
  };
}"""
OF_CAROL = {
    "own.js": "window.hers = 'a secret'",
    "own.css": ":root { --hers: secret }",
    "own.svg": '<svg xmlns="http://www.w3.org/2000/svg" width="123" height="45"/>',
    "theirs.html": "<script>document.title = new URLSearchParams(location.search).get('_xsrf')</script>",
}


@pytest.mark.parametrize("two_people", [HTTPS], indirect=True)
def test_a_page_that_was_opened_from_ones_files_has_nobody_load_more_of_them(two_people: Two) -> None:
    """JupyterLab opens a file with the token against forged requests in its address, where a page of Bob's reads it."""
    carol = two_people.carol
    folder = home("carol") / "origins"
    sh("mkdir", "-p", str(folder), user="carol")
    for name, text in OF_CAROL.items():
        (folder / name).write_text(text)
    cookies = carol.context.cookies(f"{two_people.session}/")
    token = next(one["value"] for one in cookies if one["name"] == "_xsrf")
    tab = carol.context.new_page()
    tab.goto(f"{two_people.session}/files/origins/theirs.html?_xsrf={token}")
    assert tab.title() == token  # Bob's page has it

    got = visit(two_people).evaluate(LOADS, [two_people.session, token])

    assert got == dict.fromkeys(got, "")
    own = carol.evaluate(LOADS, [two_people.session, token])
    assert list(own.values()) == ["a secret", "secret", 123]
    sh("rm", "-r", str(folder))


FETCHES_AHEAD = """addresses => {
  const rules = Object.assign(document.createElement('script'), {type: 'speculationrules'});
  rules.textContent = JSON.stringify({prefetch: [{urls: addresses, eagerness: 'immediate'}]});
  document.head.append(rules);
}"""


@pytest.mark.parametrize("two_people", [HTTPS], indirect=True)
def test_a_page_of_somebody_elses_has_nothing_done_by_what_a_browser_fetches_ahead(two_people: Two) -> None:
    """Chromium sends the visitor's cookies along, and says that no page asks."""
    asked: list[str] = []
    hostile = visit(two_people)
    network = hostile.context.new_cdp_session(hostile)
    network.on("Preload.prefetchStatusUpdated", lambda told: asked.append(f"{told['status']} {told['prefetchUrl']}"))
    network.send("Preload.enable")
    addresses = [f"{two_people.session}/logout", f"{two_people.session}/api/contents"]

    hostile.evaluate(FETCHES_AHEAD, addresses)

    def are_refused() -> bool:
        hostile.wait_for_timeout(100)  # what Chromium tells is heard meanwhile
        assert not [one for one in asked if one.startswith(("Ready", "Success"))], asked
        return {f"Failure {one}" for one in addresses} <= set(asked)

    eventually(are_refused, "all that is fetched ahead has failed")
    assert [one for one in two_people.carol.context.cookies() if "user-carol" in one["name"]]


@pytest.mark.parametrize("two_people", [*map(of_long_form, (LOCALHOST, A_NAME)), HTTPS], indirect=True)
def test_with_a_domain_a_page_of_somebody_elses_gets_nothing_and_changes_nothing(two_people: Two) -> None:
    carol = two_people.carol
    hub_page = carol.context.new_page()
    hub_page.goto("/hub/home")
    before = (tokens_of(hub_page, "carol"), kernels_of(carol, two_people.session), jobs_of("carol"))

    hostile = visit(two_people)
    got = all_tried(hostile)

    assert got == dict.fromkeys(got, "")
    assert len(got) == 13
    if two_people.address == HTTPS or LOCALHOST in two_people.address:  # which such a word takes
        loses_hold(hostile, f"{two_people.session}/lab")
    hub_page.goto("/hub/home")
    expect(hub_page.get_by_role("heading", name="My Server", level=1)).to_be_visible()  # she is still logged in
    assert hub_page.evaluate("navigator.serviceWorker?.controller ?? null") is None
    assert hub_page.evaluate("navigator.serviceWorker?.getRegistrations().then(found => found.length) ?? 0") == 0
    assert (tokens_of(hub_page, "carol"), kernels_of(carol, two_people.session), jobs_of("carol")) == before
    if LOCALHOST not in two_people.address:  # which takes no cookies for all that is below it
        for way in ("fillsTheJar()", "fillsTheJarOtherwise()", "fillsTheJarBySockets()"):
            hostile.evaluate(way)
            hub_page.evaluate("sessionStorage.clear()")  # as after a while, in another tab
            hub_page.goto("/hub/home")
            expect(hub_page.get_by_role("heading", name="My Server", level=1)).to_be_visible()
        carol.reload()
        expect(carol.locator("#jp-main-dock-panel")).to_be_visible(timeout=60_000)
        hostile.evaluate("leavesItsToken()")
        hub_page.goto("/hub/home")
        assert tokens_of(hub_page, "carol")  # the hub takes what is her own
        assert made_by_lab(carol, two_people.session, "soon") == 201  # in the page that is open
        hostile.evaluate("leavesItsToken()")
        carol.reload()
        expect(carol.locator("#jp-main-dock-panel")).to_be_visible(timeout=60_000)
        assert made_by_lab(carol, two_people.session, "after a reload") == 201
        hostile.evaluate("leavesANumber('x'.repeat(300))")
        hub_page.goto("/hub/home")
        assert tokens_of(hub_page, "carol")
        hostile.evaluate("leavesANumber('1'.repeat(32))")  # such as the hub gives
        hub_page.goto("/hub/home")
        hostile.evaluate("leavesANumber('2'.repeat(32))")
        assert tokens_of(hub_page, "carol")  # in the page that is open
        assert made_by_lab(carol, two_people.session, "with such a number") == 201
        carol.reload()
        expect(carol.locator("#jp-main-dock-panel")).to_be_visible(timeout=60_000)
        hostile.evaluate("leavesANumber('3'.repeat(32))")
        assert made_by_lab(carol, two_people.session, "with another one") == 201
    if two_people.address == HTTPS:  # without it a host of the same site may set cookies for all of it
        carol.wait_for_function("!document.cookie.includes('jupyterhub-session-id')")
        assert made_by_lab(carol, two_people.session, "in the end") == 201
        hostile.evaluate("putsItsLogin()")
        hub_page.goto("/hub/home")
        expect(hub_page.locator("#login_widget")).to_contain_text("carol")


@pytest.mark.parametrize("two_people", [ONE_ORIGIN], indirect=True)
def test_without_a_domain_the_hub_itself_gives_nothing_and_a_session_is_open_to_the_page(two_people: Two) -> None:
    carol = two_people.carol
    hub_page = carol.context.new_page()
    hub_page.goto("/hub/home")
    before = (tokens_of(hub_page, "carol"), jobs_of("carol"))

    hostile = visit(two_people)
    got = all_tried(hostile)

    # Only an address for each person keeps sessions apart: a session's server cannot tell whose page asks.
    assert {name for name, found in got.items() if found} == {"opens a web socket to the session"}
    hub_page.goto("/hub/home")
    expect(hub_page.get_by_role("heading", name="My Server", level=1)).to_be_visible()
    assert hub_page.evaluate("navigator.serviceWorker.controller") is None
    assert (tokens_of(hub_page, "carol"), jobs_of("carol")) == before


@pytest.mark.parametrize("two_people", [ONE_ORIGIN], indirect=True)
def test_without_a_domain_a_page_opens_a_converted_notebook_by_a_click_alone(two_people: Two) -> None:
    notebook = home("carol") / "own.ipynb"
    sh("sh", "-c", 'printf %s "$1" > "$2"', "write", NOTEBOOK, str(notebook), user="carol")
    address = f"{two_people.session}/nbconvert/html/own.ipynb"
    opens = "address => { setTimeout(() => { location.href = address }) }"

    hostile = visit(two_people)
    with hostile.expect_response(lambda answer: answer.url == address) as led:
        hostile.evaluate(opens, address)
    assert led.value.status == 403
    with hostile.expect_response(lambda answer: answer.url == address) as opened:
        hostile.get_by_role("link", name="Open it").click()
    assert opened.value.status == 200

    own = two_people.carol.context.new_page()
    own.goto(f"{two_people.session}/lab/workspaces/own")  # the usual one is open already: this page would go elsewhere
    expect(own.locator("#jp-main-dock-panel")).to_be_visible(timeout=60_000)
    with own.context.expect_page() as tab:
        own.evaluate("address => { window.open(address, '_blank', 'noopener') }", address)  # as JupyterLab does
    expect(tab.value).to_have_title("own")
    notebook.unlink()


@pytest.mark.parametrize("two_people", [ONE_ORIGIN], indirect=True)
def test_without_a_domain_no_other_spelling_of_its_address_lets_a_page_steer_a_window_of_the_hub(
    two_people: Two,
) -> None:
    for path in ("/%2Fuser/bob/notebook", "/%2f%2Fuser/bob/notebook"):
        hostile = visit(two_people, path)
        with hostile.expect_popup() as popup:
            hostile.get_by_role("button", name="More").click()
        popup.value.wait_for_load_state()

        assert hostile.evaluate("seenInPopup()") == "", path


@pytest.mark.parametrize("two_people", [ONE_ORIGIN], indirect=True)
def test_without_a_domain_a_session_has_no_service_worker(two_people: Two) -> None:
    """What one answers has what headers it likes: a page that keeps a hold of the hub's window, say."""
    hostile = visit(two_people)
    register = """([script, given]) => navigator.serviceWorker.register(script, given).then(
        found => found.scope, error => error.message)"""

    for script in ("/user/bob/worker.js", "/user/bob?worker.js", "/user//bob/worker.js", "/%75ser/bob/worker.js"):
        for given in ({}, {"scope": "/user/bob/"}, {"type": "module"}):
            assert "bad HTTP response code (403)" in hostile.evaluate(register, [script, given]), script
    assert hostile.evaluate("navigator.serviceWorker.getRegistrations().then(found => found.length)") == 0
