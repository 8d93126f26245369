"""Is a session there all the time? A thread asks, as its person's browser would. And a hub that looks often."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx

from portal.launcher import ENVIRONMENT_FILE, SESSIONS
from tests.hub.conftest import URL, Person
from tests.inside import home

EVERY_S = 0.25


@dataclass
class Watch:
    """What was seen: how often it answered, and every answer that was none."""

    good: int = 0
    bad: list[str] = field(default_factory=list)


@contextmanager
def watching(person: Person) -> Iterator[Watch]:
    """Meanwhile the session's server is asked through the proxy."""
    watch, end = Watch(), threading.Event()
    http = httpx.Client(base_url=person.http.base_url, cookies=person.http.cookies, timeout=10, trust_env=False)
    thread = threading.Thread(target=_ask, args=(http, f"/user/{person.name}/api/contents", watch, end))
    thread.start()
    try:
        yield watch
    finally:
        end.set()
        thread.join()
        http.close()


def _ask(http: httpx.Client, path: str, watch: Watch, end: threading.Event) -> None:
    while not end.wait(EVERY_S):
        try:
            status = str(http.get(path).status_code)
        except httpx.HTTPError as error:
            status = repr(error)
        if status == "200":
            watch.good += 1
        else:
            watch.bad.append(f"{time.strftime('%T')} {status}")


def token_of(person: Person) -> str:
    """The token of a person's running session."""
    (file,) = (home(person.name) / SESSIONS).rglob(ENVIRONMENT_FILE)
    return str(json.loads(file.read_text())["JUPYTERHUB_API_TOKEN"])


def hurry(token: str) -> None:
    """What a session says at its end: the hub then asks for the queue every second for a moment."""
    headers = {"Authorization": f"token {token}"}
    httpx.post(f"{URL}/hub/api/dsportal/ending", json={}, headers=headers, trust_env=False).raise_for_status()
