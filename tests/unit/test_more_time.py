"""The hub's side of more time: one check behind session and REST, in words, and the session's own page of it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from tornado import web

from portal.errors import AccountGone, SlurmUnavailable
from portal.extending import words
from portal.extending.words import ExtensionRefused
from portal.internal_tls.session_files import connect
from portal.language.texts import speak
from portal.session_hub.calls import HubCalls
from portal.session_state import SessionState
from portal.settings.extend_table import ExtendTable
from portal.site import Site, parse
from portal.slurm.snapshot import QueueSnapshot
from spawners.ends import extended

KEY = "0123456789abcdef"
ANSWER = {"ok": True, "minutes": 240, "bound": "hours", "times_left": 2, "limit_min": 480, "ends_at": 1764080400}
Asked = Callable[[], Coroutine[Any, Any, words.MoreTime]]
RULE = ExtendTable(times=2, hours_total_max=20)


class Extender:
    """Stands for portal-extend through sudo."""

    def __init__(self, answer: Mapping[str, object] | Exception) -> None:
        self.answer = answer
        self.asked: list[tuple[str, Mapping[str, object]]] = []

    async def call(self, account: str, request: Mapping[str, object]) -> Mapping[str, object]:
        self.asked.append((account, request))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Spawner(extended.Extended):
    """A session that runs."""

    def __init__(self, site: Site, extender: Extender, groups: tuple[str, ...] = ()) -> None:
        async def queue(_max_age_s: float) -> QueueSnapshot:
            return QueueSnapshot()

        self.ready = True
        self.log = logging.getLogger("test")
        self.user = SimpleNamespace(name="alice", admin=False, groups=[SimpleNamespace(name=name) for name in groups])
        self.looked = 0
        self.now = 1000.0
        self.own = SimpleNamespace(
            site=site, person="alice", log_name="alice", state=SessionState(key=KEY, job_id="42"),
            cluster=SimpleNamespace(extender=extender, queue=queue, now=lambda: self.now, pause=self._pause),
            look=self._look,
        )  # fmt: skip

    @property
    def session(self) -> Any:
        return self.own

    async def _pause(self, seconds: float) -> None:
        self.now += seconds

    def _look(self, _queue: object) -> None:
        self.looked += 1


@pytest.fixture(autouse=True)
def nobody_has_asked() -> Iterator[None]:
    """For each test."""
    extended._next_at.clear()
    yield
    extended._next_at.clear()


def site(**extend: object) -> Site:
    return parse({"partition": [{"name": "gpu"}], "extend": {"times": 2, "hours_total_max": 20, **extend}})


async def test_the_hub_hands_on_who_and_which_job_and_follows_the_new_end(caplog: pytest.LogCaptureFixture) -> None:
    extender = Extender(ANSWER)
    spawner = Spawner(site(account="operator"), extender)

    with caplog.at_level("INFO"):
        given = await spawner.extend(60, "alice")

    ours = {"person": "alice", "key": KEY, "job_id": "42"}
    assert extender.asked == [("operator", {"verb": "extend", **ours, "minutes": 60})]
    assert (given.ends_at, given.times_left, spawner.looked) == (1764080400, 2, 1)
    assert "Job 42 of alice got 60 min more, asked for by alice; times left: 2" in caplog.text
    assert (await spawner.more_time()).minutes == 240, "a look is no request: it may come at once"
    assert extender.asked[-1] == ("operator", {"verb": "look", **ours})


@pytest.mark.parametrize(
    ("extend", "groups", "is_allowed"),
    [
        ({}, (), True),
        ({"times": 0}, (), False),
        ({"groups": ["staff"]}, ("staff",), True),
        ({"groups": ["staff"]}, ("students",), False),
        ({"people": ["alice"]}, (), True),
        ({"people": ["bob"]}, (), False),
    ],
)
async def test_who_is_not_meant_is_refused_before_anything_is_asked(
    extend: dict[str, object], groups: tuple[str, ...], is_allowed: bool
) -> None:
    extender = Extender(ANSWER)
    spawner = Spawner(site(**extend), extender, groups)
    assert spawner.may_extend is is_allowed
    if not is_allowed:
        with pytest.raises(ExtensionRefused, match="gives this session no more time") as refused:
            await spawner.extend(60, "alice")
        assert refused.value.status == 403
        assert not extender.asked


async def test_a_session_that_does_not_run_and_one_that_is_being_given_time_are_refused() -> None:
    spawner = Spawner(site(), Extender(ANSWER))
    spawner.ready = False
    with pytest.raises(ExtensionRefused, match="does not run"):
        await spawner.more_time()
    spawner.ready = True
    extended._asking.update([("alice", "look"), ("alice", "extend")])
    try:
        for question in (spawner.extend(60, "alice"), spawner.more_time()):
            with pytest.raises(ExtensionRefused, match="already") as refused:
                await question
            assert refused.value.status == 429
    finally:
        extended._asking.clear()
    assert not spawner.session.cluster.extender.asked, "however many ask at once, Slurm is asked for one"


async def test_one_person_has_slurm_asked_seldom_however_often_they_ask() -> None:
    extender = Extender(ANSWER)
    spawner = Spawner(site(), extender)
    other = Spawner(site(), extender)
    other.own.person = "bob"
    began = spawner.now

    for _ in range(4):
        await spawner.more_time()
        assert (await spawner.extend(60, "alice")).minutes == 240

    assert spawner.now - began == pytest.approx(3 * extended.APART_S), "a look and a request each time"
    assert len(extender.asked) == 8
    await other.more_time()
    assert other.now == began, "others wait for nobody"
    spawner.now += 10 * extended.APART_S
    assert extended.wait_s("carol", "look", spawner.now) == 0
    assert set(extended._next_at) == {("carol", "look")}, "nothing is kept of who asked long ago"


@pytest.mark.parametrize("verb", ["look", "extend"])
async def test_beside_a_question_that_waits_for_its_turn_no_other_one_of_its_kind_waits(verb: str) -> None:
    spawner = Spawner(site(), Extender(ANSWER))
    kinds: list[Asked] = [spawner.more_time, partial(spawner.extend, 60, "alice")]
    question, other = kinds if verb == "look" else reversed(kinds)
    await question()
    waits = asyncio.Event()

    async def pause(_seconds: float) -> None:
        await waits.wait()

    spawner.own.cluster.pause = pause
    first = asyncio.create_task(question())
    await asyncio.sleep(0)
    with pytest.raises(ExtensionRefused, match="Look again in a moment") as refused:
        await question()
    assert refused.value.status == 429
    assert (await other()).minutes == 240, "however often a session or a program looks, a request comes through"
    waits.set()
    assert (await first).minutes == 240
    assert not extended._asking


@pytest.mark.parametrize("answer", [AccountGone("The portal is not allowed to start…"), {"ok": False, "message": "x"}])
async def test_a_step_that_does_not_work_is_told_as_that(answer: Any) -> None:
    spawner = Spawner(site(), Extender(answer))
    with pytest.raises(SlurmUnavailable, match="Tell your administrator") as error:
        await spawner.extend(60, "alice")
    assert error.value.detail
    assert not extended._asking


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        ({"refused": "asked", "minutes": 90}, 400, "4 h more are not possible now. Allowed: up to 1 h 30 min more."),
        ({"refused": "times", "bound": "times"}, 409, r"as often as this site allows \(2 times\). Save your work"),
        ({"refused": "total", "bound": "total"}, 409, r"extensions included \(20 h\). Save your work"),
        ({"refused": "partition", "bound": "partition"}, 409, "that its Slurm partition gives a job. Save"),
        ({"refused": "reservation", "bound": "reservation", "taken_at": 1764080400}, 409, "from 2025-11-25 .* on"),
        ({"refused": "ended"}, 409, "does not run"),
        ({"refused": "other"}, 409, "does not run"),
        ({"refused": "off"}, 403, "no more time while it runs"),
    ],
)
def test_what_is_refused_says_what_is_allowed_and_what_to_do(answer: dict[str, object], status: int, said: str) -> None:
    error = words.refused(answer, RULE, asked_min=240)
    assert error.status == status
    with pytest.raises(ExtensionRefused, match=said):
        raise error


@pytest.mark.parametrize(
    "body",
    [None, [], {}, {"minutes": 0}, {"minutes": "60"}, {"minutes": True}, {"minutes": 1.5}, {"minutes": 60, "job": 1}],
)
def test_a_body_that_says_something_else_is_refused(body: object) -> None:
    with pytest.raises(web.HTTPError, match="the body is"):
        extended.minutes_of(body)
    assert extended.minutes_of({"minutes": 60}) == 60


async def test_a_site_with_another_spawner_has_no_such_address() -> None:
    with pytest.raises(web.HTTPError, match="404"):
        await extended.answer(SimpleNamespace(), object(), 60)


# -- what the session asks ------------------------------------------------------------------------------


class _Hub(BaseHTTPRequestHandler):
    answer: tuple[int, bytes] = (200, b"{}")
    heard: tuple[str, str, str | None, bytes]
    language: str | None = None

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        type(self).language = self.headers["Accept-Language"]
        type(self).heard = (self.command, self.path, self.headers["Authorization"], self.rfile.read(length))
        self.send_response(self.answer[0])
        self.end_headers()
        self.wfile.write(self.answer[1])

    do_GET = do_POST

    def log_message(self, *_: Any) -> None:
        """Silence."""


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((200, b'{"minutes": 3}'), (200, {"minutes": 3})),
        ((409, b'{"message": "no"}'), (409, {"message": "no"})),
        ((200, b"<html>"), (503, None)),
        ((200, b"[1]"), (503, None)),
    ],
)
async def test_a_session_asks_with_its_own_token_and_hands_the_answer_on(
    answer: tuple[int, bytes], expected: tuple[int, Any]
) -> None:
    hub = HTTPServer(("127.0.0.1", 0), _Hub)
    _Hub.answer = answer
    Thread(target=hub.handle_request, daemon=True).start()
    calls = HubCalls(connect, lambda: "secret", {"JUPYTERHUB_API_URL": f"http://127.0.0.1:{hub.server_port}/hub/api"})

    status, told = await calls.ask("POST", "extend", {"minutes": 60})

    hub.server_close()
    assert _Hub.heard == ("POST", "/hub/api/dsportal/extend", "token secret", json.dumps({"minutes": 60}).encode())
    assert status == expected[0]
    assert told == expected[1] or ("does not answer" in told["message"] and expected[1] is None)


async def test_a_hub_that_is_away_is_told_in_words() -> None:
    def away(*_: Any) -> Any:
        raise ConnectionRefusedError

    status, told = await HubCalls(away, lambda: "", {}).ask("GET", "extend")
    assert (status, "does not answer" in told["message"]) == (503, True)


async def test_a_session_asks_in_the_language_of_the_page_that_asks() -> None:
    hub = HTTPServer(("127.0.0.1", 0), _Hub)
    Thread(target=hub.handle_request, daemon=True).start()
    environ = {"JUPYTERHUB_API_URL": f"http://127.0.0.1:{hub.server_port}/hub/api"}

    speak("de")
    await HubCalls(connect, lambda: "secret", environ).ask("GET", "extend")
    hub.server_close()
    _, told = await HubCalls(connect, lambda: "secret", environ).ask("GET", "extend")

    assert _Hub.language == "de"
    assert "antwortet nicht" in told["message"]
