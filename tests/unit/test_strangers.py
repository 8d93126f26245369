"""What people without a login leave in a session's server is bounded, however often they come."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from jupyter_server.base.handlers import FileFindHandler
from jupyterhub.services.auth import HubOAuth

from portal.journal import Plain
from portal.session_pages import strangers
from portal.session_pages.askers import ASKER, Asker
from portal.session_pages.strangers import LINE_LONGEST, LOG_AT_ONCE, LOG_BYTES_S, LogBound


@pytest.fixture(autouse=True)
def _last_resort_as_before() -> Iterator[None]:
    """What nothing else writes is written as before."""
    last = logging.lastResort
    assert last
    before = last.filters[:]
    yield
    last.filters[:] = before


@pytest.fixture
def log() -> logging.Logger:
    """A server's logger."""
    return logging.Logger("server")


@pytest.fixture
def hub_auth(log: logging.Logger, monkeypatch: pytest.MonkeyPatch) -> Any:
    """JupyterHub's own, after a session has bounded it."""
    monkeypatch.setattr(FileFindHandler, "_static_paths", {})
    auth = HubOAuth(
        api_token="own", api_url="http://127.0.0.1:1/hub/api", oauth_client_id="jupyterhub-user-alice",
        access_scopes={"access:servers"}, base_url="/user/alice/",
    )  # fmt: skip
    strangers.bound(auth)
    return auth


def test_logins_that_never_come_back_are_forgotten_when_there_are_many(
    hub_auth: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub_auth._oauth_states._most = 100
    states = [hub_auth.generate_state(f"/user/alice/lab?{number}") for number in range(300)]

    assert len(hub_auth._oauth_states) == len(hub_auth._oauth_states.timestamps) == 100
    assert hub_auth.get_next_url(states[-1]) == "/user/alice/lab?299"
    assert hub_auth.get_next_url(states[0]) == "/user/alice/", "it leads to the session"


def test_a_login_keeps_no_address_that_is_very_long(hub_auth: Any) -> None:
    state = hub_auth.generate_state("/user/alice/lab?" + 16_000 * "x", code_verifier="v")

    assert (hub_auth.get_next_url(state), hub_auth.get_code_verifier(state)) == ("/user/alice/", "v")


def test_answers_about_made_up_tokens_are_few(hub_auth: Any) -> None:
    for number in range(strangers.ANSWERS_MOST + 50):
        hub_auth.cache[f"token::{number}"] = None
    assert len(hub_auth.cache) == strangers.ANSWERS_MOST
    assert hub_auth.cache.max_age == hub_auth.cache_max_age


def test_made_up_tokens_take_no_place_of_answers_about_logins(hub_auth: Any) -> None:
    hub_auth.cache["token::hers"] = {"name": "alice"}
    for number in range(strangers.ANSWERS_MOST + 50):
        hub_auth.cache[f"token::{number}"] = None
    assert hub_auth.cache.get("token::hers") == {"name": "alice"}
    assert "token::0" not in hub_auth.cache
    for number in range(strangers.ANSWERS_MOST + 50):
        hub_auth.cache[f"token::good{number}"] = {"name": "alice"}
    assert len(hub_auth.cache) == strangers.ANSWERS_MOST
    assert "token::hers" not in hub_auth.cache


def test_ways_to_a_file_that_mean_the_same_are_not_kept_for_ever(hub_auth: Any) -> None:
    places = FileFindHandler._static_paths
    for number in range(strangers.PLACES_MOST + 50):
        places[f"{number}/../style.css"] = "/share/style.css"
    places["./" * 5000 + "style.css"] = "/share/style.css"
    assert len(places) == strangers.PLACES_MOST
    assert max(map(len, places)) < 100


class Kept(logging.Handler):
    """Keeps lines as they are written."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def test_a_log_grows_so_much_at_once_then_slowly_and_says_what_is_missing(log: logging.Logger) -> None:
    clock = SimpleNamespace(now=0.0)
    handler = Kept()
    handler.addFilter(LogBound(lambda: clock.now))
    log.addHandler(handler)

    for _ in range(3000):
        log.warning("302 GET %s", "x" * 16_000)

    assert sum(map(len, handler.lines)) <= LOG_AT_ONCE
    assert max(map(len, handler.lines)) < LINE_LONGEST + 10
    missing = 3000 - len(handler.lines)
    clock.now += 1000 / LOG_BYTES_S
    log.warning("Kernel started: %s", "k1")
    assert handler.lines[-1] == f"(left out before this line, as they were too many: {missing}) Kernel started: k1"
    clock.now += 86_400
    before = len(handler.lines)
    log.warning("Kernel started: %s", "k2")
    assert handler.lines[before:] == ["Kernel started: k2"]


def test_a_line_that_fits_nothing_is_logging_s_to_tell(log: logging.Logger) -> None:
    record = logging.LogRecord("x", logging.INFO, __file__, 1, "%s %s", ("one",), None)
    assert LogBound().filter(record)


def test_lines_of_strangers_take_no_room_of_a_fault(log: logging.Logger) -> None:
    handler = Kept()
    log.addHandler(handler)
    handler.addFilter(LogBound(lambda: 0.0))
    for number in range(2 * LOG_AT_ONCE // 1000):
        log.warning("%d %s", number, 1000 * "x")
    before = len(handler.lines)
    log.warning("one more %s", 1000 * "x")
    assert len(handler.lines) == before, "there is no room left"

    try:
        raise RuntimeError
    except RuntimeError:
        log.exception("It fails")
    assert handler.lines[before].endswith("It fails")


def test_faults_of_requests_without_a_login_take_no_room_of_the_session_s_own(log: logging.Logger) -> None:
    handler = Kept()
    log.addHandler(handler)
    handler.addFilter(LogBound(lambda: 0.0))
    asker, her = Asker(), Asker()
    her.asks(lambda: True, 0.0)

    def fails(words: str, sender: Asker | None) -> None:
        token = ASKER.set(sender)
        log.error(words, exc_info=ValueError("no"))
        ASKER.reset(token)

    for _ in range(strangers.FAULTS_AT_ONCE // 4000 + 2):
        fails("of a stranger", asker)
    count = len(handler.lines)
    fails("one more", asker)
    assert len(handler.lines) == count, "there is no room left"
    for sender in (None, her):
        fails("It fails", sender)
        assert handler.lines[-1].endswith("It fails")


def test_what_is_too_long_to_be_a_token_is_not_kept(hub_auth: Any) -> None:
    hub_auth.cache[f"token::{1000 * 'x'}"] = None
    assert not hub_auth.cache.values


def test_each_handler_of_all_the_loggers_is_bounded_once(log: logging.Logger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FileFindHandler, "_static_paths", {})
    of_server, of_lab, lab = Kept(), Kept(), logging.Logger("lab")
    log.addHandler(of_server)
    lab.addHandler(of_server)
    lab.addHandler(of_lab)

    strangers.bound(None)
    strangers.bound_logs([log, lab])

    assert [type(one) for one in of_server.filters] == [LogBound, Plain]
    assert of_lab.filters == of_server.filters, "they write the same file"


def test_what_strangers_send_steers_no_terminal_that_shows_the_log(log: logging.Logger) -> None:
    handler = Kept()
    log.addHandler(handler)
    strangers.bound_logs([log])

    log.warning("404 GET %s", "/x\r\x9b2J\u202e\x1b[31m")
    log.info("Jupyter Server is running at:\n    http://localhost")

    assert handler.lines == [
        r"404 GET /x\r\x9b2J\u202e\x1b[31m",
        "Jupyter Server is running at:\n    http://localhost",
    ]


@pytest.fixture
def _others_as_before() -> Iterator[None]:
    """Python tells its warnings itself again, and the portal's words go where they did."""
    others = [logging.getLogger(name) for name in ("py.warnings", "portal", "asyncio")]
    before = [(one.handlers[:], one.propagate) for one in others]
    yield
    logging.captureWarnings(False)
    for one, (handlers, propagates) in zip(others, before, strict=True):
        one.handlers[:] = handlers
        one.propagate = propagates


@pytest.mark.usefixtures("_others_as_before")
def test_warnings_of_what_somebody_opens_take_the_room_of_the_log(
    log: logging.Logger, capfd: pytest.CaptureFixture[str]
) -> None:
    handler = Kept()
    log.addHandler(handler)
    strangers.bound_logs([log])
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        strangers.bound_others(log)
        for number in range(2 * LOG_AT_ONCE // 1000):
            warnings.warn(f"{number} {1000 * 'x'}", stacklevel=1)
        logging.captureWarnings(False)

    assert "UserWarning: 0 xxx" in handler.lines[0]
    assert LOG_AT_ONCE // 2 < sum(map(len, handler.lines)) <= LOG_AT_ONCE + 10 * LOG_BYTES_S
    assert capfd.readouterr().err == ""


@pytest.mark.usefixtures("_others_as_before")
@pytest.mark.parametrize("name", ["portal.exports.apart", "asyncio"])
def test_what_is_said_beside_the_server_takes_the_room_of_its_log(
    log: logging.Logger, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    handler = Kept()
    log.addHandler(handler)
    strangers.bound_logs([log])
    strangers.bound_others(log)
    for number in range(2 * LOG_AT_ONCE // 1000):
        logging.getLogger(name).warning("%s %s", number, 1000 * "x")

    assert "0 xxx" in handler.lines[0]
    assert LOG_AT_ONCE // 2 < sum(map(len, handler.lines)) <= LOG_AT_ONCE + 10 * LOG_BYTES_S
    assert capfd.readouterr().err == ""


def test_lines_that_nothing_writes_but_standard_error_are_as_few(
    log: logging.Logger, capfd: pytest.CaptureFixture[str]
) -> None:
    alone = logging.Logger("alone")
    log.addHandler(Kept())
    strangers.bound_logs([log])
    for number in range(2 * LOG_AT_ONCE // 1000):
        alone.warning("%s %s", number, 1000 * "x")

    assert LOG_AT_ONCE // 2 < len(capfd.readouterr().err) <= LOG_AT_ONCE + 10 * LOG_BYTES_S
