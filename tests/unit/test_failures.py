"""What a person reads of a failure: what happened, whose turn it is, what to do, and an id that the log has too."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from jupyterhub import orm, roles
from jupyterhub.apihandlers import APIHandler
from jupyterhub.handlers.base import BaseHandler
from tornado import web

from portal.errors import AccountGone, PortalError, SessionEnded, SlurmUnavailable, SubmitRefused
from portal.guard import failures, intake
from portal.guard.failures import ADMINISTRATORS, FAILURES, NOBODYS, YOURS
from portal.guard.told import Told
from portal.hub.app import PortalHub
from portal.request import WORDS_OF_A_LINK
from portal.testing.outages import SbatchRefuses, SlurmSilent
from spawners.errors import StartRefused
from tests.unit.served_hub import CHECKOUT, ServedHub, served_hub

HOSTILE = "<script>alert('x')</script>{{ 7 * 7 }}"
ID = re.compile(r"<code>([0-9a-f]{8})</code>")


class _Fails:
    """Raises what its address says."""

    def get(self: Any, kind: str) -> None:
        """It."""
        message = self.get_query_argument("message", None)
        if kind == "surprise":
            raise KeyError("the inside of the hub")
        if kind == "unread":
            self.send_error(500)
            return
        raise web.HTTPError(int(kind), message.replace("%", "%%") if message else None)


class FailingPage(_Fails, BaseHandler):  # type: ignore[misc]
    """A page."""


class FailingCall(_Fails, APIHandler):  # type: ignore[misc]
    """A call of the REST API."""


def _with_failures(hub: PortalHub) -> None:
    hub.extra_handlers = [(r"/fails/(\w+)", FailingPage), (r"/api/fails/(\w+)", FailingCall)]


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[ServedHub]:
    async with served_hub(tmp_path, _with_failures) as hub:
        yield hub


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def for_all(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, httpx.AsyncClient]]:
    """A browser before the login and Alice's, of one hub that fails as it is asked and goes on."""
    async with served_hub(tmp_path_factory.mktemp("hub"), _with_failures) as hub:
        yield {name: await hub.browser(name) for name in ("", "alice")}


def id_of(page: str) -> str:
    (found,) = ID.findall(page)
    return str(found)


def text_of(page: str) -> str:
    """The words of a page's main part."""
    main = page.partition("<main")[2].partition("</main>")[0]
    return " ".join(re.sub("<[^>]*>", " ", main).split())


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", ["", "alice"])
@pytest.mark.parametrize("status", [400, 403, 404, 409, 413, 429, 500, 502, 503, 504])
async def test_every_failure_says_what_happened_whose_turn_it_is_what_to_do_and_an_id_that_the_log_has(
    for_all: dict[str, httpx.AsyncClient], status: int, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await for_all[name].get(f"/hub/fails/{status}?message=&token=hush")

    failure = FAILURES[status]
    assert answer.status_code == status
    assert "Traceback" not in answer.text
    for words in (failure.title, failure.happened, failure.turn, failure.advice):
        assert words in text_of(answer.text)
    assert f"<title>{failure.title} · Data Scientist Portal</title>" in answer.text
    assert f"Failure {id_of(answer.text)}: {status} GET /hub/fails/{status}:" in caplog.text
    assert "hush" not in caplog.text


async def test_a_surprise_tells_the_log_all_of_it_and_the_person_that_it_is_not_their_fault(
    served: ServedHub, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await (await served.browser("alice")).get("/hub/fails/surprise")

    assert answer.status_code == 500
    assert "the inside" not in answer.text
    assert failures.ADMINISTRATORS in text_of(answer.text)
    (record,) = [one for one in caplog.records if id_of(answer.text) in one.getMessage()]
    assert record.exc_info
    assert isinstance(record.exc_info[1], KeyError)
    assert record.exc_info[2] is not None


async def test_the_log_of_a_fault_has_the_headers_without_what_is_secret_in_them(
    served: ServedHub, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "c2VjcmV0"
    browser = await served.browser("alice")

    secrets = {"X-XSRFToken": secret, "X-CSRFToken": secret, "Cookie": f"a={secret}"}
    await browser.get("/hub/fails/surprise", headers={"X-Case": "told", **secrets})

    assert '"X-Case": "told"' in caplog.text
    assert secret not in caplog.text


async def test_what_was_raised_by_nobody_has_its_line_too(served: ServedHub, caplog: pytest.LogCaptureFixture) -> None:
    answer = await (await served.browser()).get("/hub/fails/unread")

    assert f"Failure {id_of(answer.text)}: 500" in caplog.text


async def test_a_hostile_address_or_message_shows_as_text(served: ServedHub) -> None:
    browser = await served.browser("alice")

    said = await browser.get("/hub/fails/409", params={"message": HOSTILE})
    asked = await browser.get(f"/hub/nowhere/{HOSTILE}")
    led = await browser.get("/hub/error/503", params={"url": f"/user/{HOSTILE}/lab"})

    assert "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;{{ 7 * 7 }}" in said.text
    for answer in (said, asked, led):
        assert "<script>alert" not in answer.text
    assert (said.status_code, asked.status_code, led.status_code) == (409, 404, 200)


async def test_a_message_without_end_is_cut(served: ServedHub) -> None:
    answer = await (await served.browser()).get("/hub/fails/400", params={"message": "x" * 20_000})

    assert "x" * failures.LONGEST_MESSAGE in answer.text
    assert "x" * (failures.LONGEST_MESSAGE + 1) not in answer.text


async def test_the_proxys_page_names_what_was_asked_for_in_the_log(
    served: ServedHub, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await (await served.browser()).get("/hub/error/503?url=%2Fuser%2Falice%2Flab%3Ftoken%3Dhush")

    assert failures.SESSION_SILENT.title in text_of(answer.text)
    assert "restarting it" not in answer.text
    assert f"Failure {id_of(answer.text)}: 503" in caplog.text
    assert "who asked for /user/alice/lab\n" in caplog.text
    assert "GET /hub/error/503 (" in caplog.text
    assert "hush" not in caplog.text


@pytest.mark.parametrize(
    ("asked", "is_of_hub"),
    [
        ("/hub/home", True),
        ("/hub/api/users", True),
        ("/", True),
        ("/user/alice/lab", False),
        ("/services/grafana/", False),
        ("//elsewhere.example/x", False),
        ("", False),
    ],
)
async def test_who_asked_for_a_page_of_a_hub_that_came_back_meanwhile_gets_it_by_itself(
    served: ServedHub, asked: str, is_of_hub: bool
) -> None:
    answer = await (await served.browser()).get("/hub/error/503", params={"url": asked})

    failure = failures.HUB_IS_BACK if is_of_hub else failures.SESSION_SILENT
    assert failure.title in text_of(answer.text)
    assert ("js/load_again.js" in answer.text) is is_of_hub
    assert ('<noscript><meta http-equiv="refresh" content="2"></noscript>' in answer.text) is is_of_hub


@pytest.mark.parametrize("asked", ["http://portal//elsewhere.example/x?a=b", "http://portal/hub/home"])
def test_it_is_asked_for_by_its_whole_address(asked: str) -> None:
    """The path of such a one would name another host."""
    source = (CHECKOUT / "templates/hub/static/js/load_again.js").read_text()
    window = f"globalThis.window = {{ location: {{ href: {json.dumps(f'{asked}#part')}, replace: console.log }} }};"
    early = "globalThis.setTimeout = called => called();"
    node = Path(sys.executable).parent / "node"
    done = subprocess.run([str(node), "-e", window + early + source], capture_output=True, text=True, check=True)

    assert done.stdout == f"{asked}\n"


async def test_a_form_that_was_open_too_long_says_so(served: ServedHub) -> None:
    browser = await served.browser("alice")
    answer = await browser.post("/hub/spawn", data={"_xsrf": "of before"})

    assert answer.status_code == 403
    assert "open for too long" in text_of(answer.text)
    assert "XSRF" not in text_of(answer.text)


async def test_a_call_that_fails_has_words_and_where_the_hub_failed_the_id(
    served: ServedHub, caplog: pytest.LogCaptureFixture
) -> None:
    browser = await served.browser("alice")
    headers = {"Authorization": f"token {served.token('alice')}", "Accept": "application/json"}

    surprise = await browser.get("/hub/api/fails/surprise", headers=headers)
    told = await browser.get("/hub/api/fails/503?message=Slurm is away", headers=headers)
    theirs = await browser.get("/hub/api/fails/404", headers=headers)

    assert surprise.json()["message"].startswith("Something went wrong in the portal.")
    assert f"Failure {surprise.json()['id']}: 500 GET /hub/api/fails/surprise" in caplog.text
    assert told.json() | {"id": ""} == {"status": 503, "message": "Slurm is away", "id": ""}
    assert theirs.json() == {"status": 404, "message": FAILURES[404].words}


async def test_where_no_page_can_be_made_there_are_words_all_the_same(
    served: ServedHub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(_self: Any) -> None:
        raise OSError("the disk of the templates")

    monkeypatch.setattr(BaseHandler, "template_namespace", property(away))

    answer = await (await served.browser()).get("/hub/fails/400")

    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert FAILURES[400].advice in answer.text
    (failure_id,) = re.findall(r": ([0-9a-f]{8})\n", answer.text)
    assert f"Failure {failure_id}: its page could not be made" in caplog.text


@pytest.mark.parametrize("path", ["/hub/dsportal/static/nothing.js", "/hub/static/nothing.js"])
async def test_a_file_that_is_not_there_is_words_too(
    served: ServedHub, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await (await served.browser()).get(path)

    assert answer.status_code == 404
    assert answer.text.startswith("There is nothing here.")
    assert re.search(r"Failure [0-9a-f]{8}: 404", caplog.text)


async def test_a_body_that_is_refused_before_it_is_read_is_refused_in_words(
    served: ServedHub, caplog: pytest.LogCaptureFixture
) -> None:
    port = int(served.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /hub/login HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (intake.BODY_MAX + 1))
    answer = (await reader.read()).decode()
    writer.close()

    assert answer.startswith("HTTP/1.1 413 ")
    assert FAILURES[413].advice in answer
    (failure_id,) = re.findall(r": ([0-9a-f]{8})\n", answer)
    assert f"Failure {failure_id}: 413" in caplog.text


@pytest.mark.parametrize("path", ["/hub/login", "/hub/api/", "/hub/none"])
async def test_more_cookies_than_a_browser_keeps_are_not_read(served: ServedHub, path: str) -> None:
    """Reading thousands takes as long as ten pages, and whoever reaches the portal can send them."""
    program = await served.browser()

    def cookies(count: int) -> dict[str, str]:
        return {"Cookie": ";".join(f"{number}=" for number in range(count))}

    at_most = await program.get(path, headers=cookies(intake.COOKIES_MOST))
    more = await program.get(path, headers=cookies(intake.COOKIES_MOST + 1))

    assert at_most.status_code == (404 if path == "/hub/none" else 200)
    assert (more.status_code, FAILURES[431].advice in more.text) == (431, True)
    assert (await program.get("/hub/login")).status_code == 200


async def test_more_lines_of_headers_than_anybody_sends_are_not_read(served: ServedHub) -> None:
    """At the hub's own port, which the nodes reach: before it they meet the proxy's bounds."""
    program = await served.browser()

    async def status(count: int, size: int = 1) -> int:
        lines = {f"X-{number}": size * "1" for number in range(count)}
        try:
            return (await program.get("/hub/login", headers=lines)).status_code
        except httpx.HTTPError:
            return 0

    own = len(program.headers) + 1  # and Host
    assert await status(intake.LINES_MOST - own) == 200
    assert await status(intake.LINES_MOST - own + 1) == 431
    assert await status(100, 190) == 200
    assert await status(100, 220) == 0, "the connection ends"


STARTS = [
    (SlurmUnavailable("Slurm does not answer.", detail="squeue: timed out"), 503, NOBODYS, "squeue: timed out"),
    (SubmitRefused("Slurm did not accept the session:\nno <b>such</b> account"), 503, YOURS, "no <b>such</b> account"),
    (AccountGone("Your account is gone.", detail="no account"), 503, ADMINISTRATORS, "no account"),
]


@pytest.mark.parametrize(("error", "status", "turn", "logged"), STARTS)
async def test_a_start_that_came_to_nothing_says_whose_turn_it_is_in_the_form_and_afterwards(
    served: ServedHub,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: PortalError,
    status: int,
    turn: str,
    logged: str,
) -> None:
    browser = await served.browser("alice")

    async def refuse(_spawner: Any) -> str:
        raise StartRefused(error, status_code=status)

    served.hub.tornado_application.settings["slow_spawn_timeout"] = 10  # the answer comes after the refusal
    monkeypatch.setattr(served.hub.spawner_class, "start", refuse)
    form = await started(browser)
    later = await browser.get("/hub/spawn-pending/alice")

    for answer in (form, later):
        assert answer.status_code == status
        assert error.message.split("\n")[0] in text_of(answer.text)
        assert turn in text_of(answer.text)
        assert "<b>such" not in answer.text
        assert re.search(f"Failure {id_of(answer.text)}: {status} .*{logged.split(chr(10))[0]}", caplog.text, re.DOTALL)


async def test_a_start_that_is_over_soon_is_told_without_a_page_that_waits(
    served: ServedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = await served.browser("alice")
    over = asyncio.Event()

    async def refuse(_spawner: Any) -> str:
        await over.wait()
        raise StartRefused(SlurmUnavailable("Slurm does not answer."), status_code=503)

    served.hub.tornado_application.settings["slow_spawn_timeout"] = 60
    monkeypatch.setattr(served.hub.spawner_class, "start", refuse)
    asyncio.get_running_loop().call_later(1.2, over.set)  # JupyterHub itself answers the form after one second
    answer = await started(browser)

    assert answer.url.path == "/hub/spawn-pending/alice"
    assert answer.status_code == 503
    assert "Slurm does not answer." in text_of(answer.text)


async def test_a_start_that_fails_in_a_way_that_nobody_thought_of_is_the_administrators_turn(
    served: ServedHub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    browser = await served.browser("alice")

    async def fail(_spawner: Any) -> str:
        raise KeyError("the inside of the hub")

    served.hub.tornado_application.settings["slow_spawn_timeout"] = 10  # the answer comes after the refusal
    monkeypatch.setattr(served.hub.spawner_class, "start", fail)
    form = await started(browser)
    later = await browser.get("/hub/spawn-pending/alice")

    for answer in (form, later):
        assert answer.status_code == 500
        assert FAILURES[500].happened in text_of(answer.text)
        assert ADMINISTRATORS in text_of(answer.text)
        assert "Internal Server Error" not in answer.text
        assert "the inside" not in answer.text
        (record,) = [one for one in caplog.records if id_of(answer.text) in one.getMessage()]
        assert record.exc_info
        assert isinstance(record.exc_info[1], KeyError)


@pytest.mark.parametrize(
    ("error", "status", "words", "turn"),
    [
        (KeyError("the inside of the hub"), 500, FAILURES[500].happened, ADMINISTRATORS),
        (StartRefused(SlurmUnavailable("Slurm does not answer."), status_code=503), 503, "Slurm does not", NOBODYS),
        (web.HTTPError(403, "Your quota is full."), 403, "Your quota is full.", YOURS),  # a site's own hook
    ],
)
async def test_the_page_that_follows_a_start_is_told_all_of_its_failure(
    served: ServedHub,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    status: int,
    words: str,
    turn: str,
) -> None:
    browser = await served.browser("alice")
    fails = asyncio.Event()

    async def fail(_spawner: Any) -> str:
        await fails.wait()
        raise error

    monkeypatch.setattr(served.hub.spawner_class, "start", fail)
    monkeypatch.setattr(served.hub.spawner_class, "progress", _no_words)
    assert "Your session is starting" in (await started(browser)).text
    headers = {"Authorization": f"token {served.token('alice')}"}

    async with browser.stream("GET", "/hub/api/users/alice/server/progress", headers=headers) as stream:
        fails.set()
        lines = [line async for line in stream.aiter_lines() if line.startswith("data:")]

    told = json.loads(lines[-1].removeprefix("data:"))
    assert told["failed"]
    assert told["message"].startswith(f"Spawn failed: {words}")
    assert told["turn"] == turn
    assert f"Failure {told['id']}: {status} GET /hub/api/users/alice/server/progress" in caplog.text
    assert words in text_of((await browser.get("/hub/spawn-pending/alice")).text)


@pytest.mark.parametrize("who", ["alice", "carol"])
async def test_the_log_of_a_start_that_failed_is_its_persons_and_names_no_secret(
    served: ServedHub, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    """Who administers hears why it failed."""
    alice, asking = await served.browser("alice"), await served.browser(who)
    database = served.hub.db
    roles.grant_role(database, orm.User.find(database, "carol") or orm.User.find(database, who), "admin")
    lines = "cannot log in\nMY_DB_PASSWORD=hunter2\na line of hers"
    fails = asyncio.Event()

    async def fail(_spawner: Any) -> str:
        await fails.wait()
        raise StartRefused(SessionEnded("JupyterLab ended."), status_code=502, lines=lines)

    monkeypatch.setattr(served.hub.spawner_class, "start", fail)
    await started(alice)
    headers = {"Authorization": f"token {served.token(who)}"}
    async with asking.stream("GET", "/hub/api/users/alice/server/progress", headers=headers) as stream:
        fails.set()
        told = [line async for line in stream.aiter_lines() if line.startswith("data:")]
    pages = [json.loads(told[-1].removeprefix("data:"))["message"], (await asking.get("/hub/spawn-pending/alice")).text]

    for text in pages:
        assert "JupyterLab ended." in text
        assert ("a line of hers" in text) == (who == "alice")
        assert "hunter2" not in text


async def _no_words(_spawner: Any) -> AsyncIterator[dict[str, object]]:
    yield {"progress": 5, "message": "Asked for."}
    await asyncio.Event().wait()


async def test_a_choice_that_is_not_possible_stands_at_its_field_and_is_no_failure(served: ServedHub) -> None:
    browser = await served.browser("alice")
    fields = {"_xsrf": browser.cookies["_xsrf"], "partition": "sxm2", "gpus": "99", "hours": "1"}

    answer = await browser.post("/hub/spawn", data=fields)

    assert answer.status_code == 400
    assert not ID.findall(answer.text)
    assert "is not possible here" in text_of(answer.text)


async def started(browser: Any) -> Any:
    """The answer to a press on Start."""
    fields = {"_xsrf": browser.cookies["_xsrf"], "partition": "sxm2", "gpus": "0", "hours": "1"}
    return await browser.post("/hub/spawn", data=fields)


def test_no_words_are_missing_and_none_names_a_number() -> None:
    for failure in (*FAILURES.values(), failures.SESSION_SILENT, failures.OTHER):
        assert all((failure.title, failure.happened, failure.advice))
        assert failure.turn in (YOURS, ADMINISTRATORS, NOBODYS)
    assert failures.failure_of(507) == FAILURES[500]
    assert failures.failure_of(451) == failures.OTHER


# -- what the log says of a refusal ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ("form", "hours: 999 is not possible here"),
        ("link", "hours: 999 is not possible here"),
        ("right link", WORDS_OF_A_LINK),
        ("slurm", "Slurm did not accept the session"),
    ],
)
async def test_a_refusal_that_is_the_persons_to_mend_is_one_plain_line_of_the_log(
    served: ServedHub, caplog: pytest.LogCaptureFixture, how: str, what: str
) -> None:
    browser = await served.browser("alice")
    caplog.clear()
    served.hub.tornado_application.settings["slow_spawn_timeout"] = 10  # the answer comes after the refusal
    if how == "slurm":
        served.slurm.outage = SbatchRefuses()

    if "link" in how:
        await browser.get("/hub/spawn", params={"opt-hours": "2" if "right" in how else "999"})
    else:
        hours = "999" if how == "form" else "2"
        await browser.post("/hub/spawn", data={"hours": hours, "_xsrf": browser.cookies["_xsrf"]})

    (line,) = [one for one in caplog.records if one.getMessage().startswith("Not started for alice: ")]
    assert what in line.getMessage()
    assert "\n" not in line.getMessage()
    assert line.levelname == "INFO"
    assert [one.getMessage() for one in caplog.records if one.exc_info] == []


async def test_what_rest_refuses_leaves_no_traceback_in_the_log(
    served: ServedHub, caplog: pytest.LogCaptureFixture
) -> None:
    browser = await served.browser("alice")
    headers = {"Authorization": f"token {served.token('alice')}"}
    spawner = served.hub.users[orm.User.find(served.hub.db, "alice")].spawner
    spawner.log = served.hub.log  # as where one hub is the whole process

    answer = await browser.post("/hub/api/users/alice/server", headers=headers, json={"hours": 999})

    assert answer.status_code == 400
    assert "user_options for alice: hours: 999 is not possible here" in caplog.text
    assert [one.getMessage() for one in caplog.records if one.exc_info] == []


async def test_a_start_that_is_not_the_persons_fault_keeps_its_traceback(
    served: ServedHub, caplog: pytest.LogCaptureFixture
) -> None:
    browser = await served.browser("alice")
    served.slurm.outage = SlurmSilent()
    served.hub.tornado_application.settings["slow_spawn_timeout"] = 10  # the answer comes after the refusal

    await browser.post("/hub/spawn", data={"hours": "2", "_xsrf": browser.cookies["_xsrf"]})

    traced = [one.exc_info[1] for one in caplog.records if one.exc_info]
    assert any(isinstance(error, StartRefused) for error in traced)


class _Starting:
    """In the place of JupyterHub's: its start is stopped while somebody waits for it."""

    async def spawn_single_user(self) -> None:
        raise asyncio.CancelledError


class _ToldStart(Told, _Starting):
    pass


async def test_a_start_that_is_stopped_is_told_to_who_waits_for_it_still() -> None:
    handler = _ToldStart()
    handler._finished = False
    with pytest.raises(web.HTTPError) as refused:
        await handler.spawn_single_user()
    assert refused.value.status_code == 409

    handler._finished = True  # the page that waits was answered: it follows the start by itself
    await handler.spawn_single_user()


class _Failing:
    """In the place of JupyterHub's: its start fails."""

    async def spawn_single_user(self) -> None:
        raise StartRefused(PortalError("the job has ended"), status_code=502)


class _ToldFailure(Told, _Failing):
    pass


async def test_a_start_that_fails_is_told_to_who_waits_for_it_still() -> None:
    handler = _ToldFailure()
    handler._finished = False
    with pytest.raises(StartRefused):
        await handler.spawn_single_user()

    handler._finished = True  # an error that nobody reads is written by Python itself, with its traceback
    await handler.spawn_single_user()
