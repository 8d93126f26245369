"""The hub's event loop waits for nothing outside: whatever is silent costs the person concerned, and nobody else."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager

import pytest

from deploy.demo.services import SERVICES, pid_of
from tests import loop_watch
from tests.hub.conftest import Hub, Person
from tests.inside import eventually

OTHERS_WITHIN_S = 4.0  # a page of somebody else's, whatever is silent


def test_from_the_login_to_the_stop_the_loop_waits_for_nothing_outside(hub: Hub, alice: Person) -> None:
    assert alice.http.get("/hub/spawn").status_code == 200
    assert alice.spawn(gpus="0").status_code == 200
    told = list(alice.progress())
    eventually(alice.is_ready, "the session is ready", within_s=60)
    assert alice.http.get("/hub/home").status_code == 200
    alice.stop()

    assert "ready" in told[-1]
    waited_for = hub.waited_for()
    assert not waited_for, loop_watch.shown(waited_for)


@contextmanager
def silent_name_service() -> Iterator[None]:
    """Who asks for an account waits; meanwhile sudo does."""
    daemon = pid_of(SERVICES["nslcd"])
    assert daemon
    os.kill(daemon, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(daemon, signal.SIGCONT)


@contextmanager
def silent_sudo() -> Iterator[None]:
    """Alice's launcher never answers, as in a home that is away.

    It is stopped once it is hers: sudo, stopped while it asks for her account, hears in the end that there is none.
    """
    hers = ("--full", "--euid", "alice", "portal-launch")
    with ThreadPoolExecutor(1) as pool:
        frozen = pool.submit(eventually, lambda: not subprocess.call(["pkill", "-STOP", *hers]), "it runs", every_s=0)
        try:
            yield
            frozen.result()
        finally:
            # More than once, and sudo as well: it stops when it sees that its child was stopped.
            eventually(lambda: subprocess.call(["pkill", "-CONT", "--full", "portal-launch"]), "it goes on to its end")


@pytest.mark.parametrize("silence", [silent_name_service, silent_sudo])
def test_what_is_silent_at_a_start_is_told_to_that_person_and_holds_nobody_else_up(
    hub: Hub, people: dict[str, Person], silence: Callable[[], AbstractContextManager[None]]
) -> None:
    alice, bob = people["alice"], people["bob"]
    with silence():
        alice.spawn(gpus="0")
        with ThreadPoolExecutor(1) as pool:
            told = pool.submit(next, (words for words in alice.progress() if "slow to answer" in words), "")
            answered_in_s = [seconds_of(bob)]
            while not told.done():
                answered_in_s.append(seconds_of(bob))
        assert alice.server()["pending"] == "spawn"

    assert "your home, or the cluster's list of accounts" in told.result()
    assert max(answered_in_s) < OTHERS_WITHIN_S
    eventually(alice.is_ready, "the session starts after all", within_s=60)
    waited_for = hub.waited_for()
    assert not waited_for, loop_watch.shown(waited_for)


def seconds_of(person: Person) -> float:
    """How long the server page takes."""
    began = time.monotonic()
    assert person.http.get("/hub/home").status_code == 200
    return time.monotonic() - began
