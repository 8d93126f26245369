"""The callback of a starting session: a port, once, and nothing else."""

from __future__ import annotations

import asyncio

import batchspawner.api
import pytest
from jupyterhub.apihandlers import default_handlers

from portal.session_state import Announcement
from spawners import callback
from spawners.announcements import AnnouncedPort


@pytest.mark.parametrize("port", [1024, 41233, 65535])
def test_a_port_is_read(port: int) -> None:
    assert callback.read_announcement({"port": port}) == Announcement(port)
    assert callback.read_announcement({"port": port, "restarts": 2}) == Announcement(port, 2)


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"port": "41233"},
        {"port": True},
        {"port": 41233.0},
        {"port": 80},
        {"port": 65536},
        {"port": -1},
        {"port": 41233, "exec_prefix": "x"},
        {"ip": "10.0.0.1"},
        {"restarts": 1},
        {"port": 41233, "restarts": "1"},
        {"port": 41233, "restarts": True},
        {"port": 41233, "restarts": -1},
        {"port": 41233, "restarts": 10**9},
    ],
)
def test_anything_else_is_refused(body: object) -> None:
    with pytest.raises(ValueError, match="the body is"):
        callback.read_announcement(body)


def test_only_the_first_port_counts_and_only_while_one_is_expected() -> None:
    port = AnnouncedPort()
    assert not port.accept(Announcement(5000, 0), 1.0)

    port.expect()

    assert port.accept(Announcement(5000, 0), 2.0)
    assert port.accept(Announcement(5000, 0), 3.0), "the answer may have been lost: the same is the same answer"
    assert not port.accept(Announcement(6000, 0), 4.0)
    assert not port.accept(Announcement(6000), 4.0)
    assert (port.number, port.heard_at) == (5000, 2.0)
    port.forget()
    assert not port.accept(Announcement(7000, 0), 5.0)


def test_of_two_servers_the_one_of_the_later_run_counts_whichever_speaks_first() -> None:
    port = AnnouncedPort()
    port.expect()

    assert port.accept(Announcement(5000, 0), 1.0)
    assert port.accept(Announcement(6000, 1), 2.0)
    assert not port.accept(Announcement(5000, 0), 3.0), "it lives on, on a node that Slurm has given up"

    assert (port.number, port.heard_at) == (6000, 2.0)
    port.expect(restarts=2)
    assert not port.accept(Announcement(6000, 1), 4.0)
    assert port.accept(Announcement(7000, 2), 5.0)


async def test_whoever_waits_for_a_port_gets_the_one_of_the_newest_run() -> None:
    port = AnnouncedPort()
    port.expect()
    port.accept(Announcement(5000), 1.0)
    port.expect()  # Slurm has started the job again
    waiting = asyncio.ensure_future(port.announced())
    await asyncio.sleep(0)
    assert not waiting.done()

    port.accept(Announcement(6000), 2.0)
    await asyncio.wait_for(waiting, 1)

    assert port.number == 6000


def test_the_handler_that_sets_any_attribute_is_not_there() -> None:
    callback.install()
    callback.install()

    handlers = [route[1] for route in default_handlers]
    assert batchspawner.api.BatchSpawnerAPIHandler not in handlers
    assert handlers.count(callback.ReadyHandler) == 1
    assert handlers.count(callback.EndingHandler) == 1
