"""The callback of a starting session: a port, once, and nothing else."""

from __future__ import annotations

import asyncio

import batchspawner.api
import pytest
from jupyterhub.apihandlers import default_handlers

from spawners import callback
from spawners.startup import AnnouncedPort


@pytest.mark.parametrize("port", [1024, 41233, 65535])
def test_a_port_is_read(port: int) -> None:
    assert callback.read_port({"port": port}) == port


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
    ],
)
def test_anything_else_is_refused(body: object) -> None:
    with pytest.raises(ValueError, match="the body is"):
        callback.read_port(body)


def test_only_the_first_port_counts_and_only_while_one_is_expected() -> None:
    port = AnnouncedPort()
    assert not port.accept(5000)

    port.expect()

    assert port.accept(5000)
    assert port.accept(5000), "the answer may have been lost: the same announcement again is the same answer"
    assert not port.accept(6000)
    assert port.number == 5000
    port.forget()
    assert not port.accept(7000)


def test_where_a_session_listens_already_is_no_news_and_anything_else_is_refused() -> None:
    port = AnnouncedPort()

    assert port.accept(5000, current=5000)
    assert not port.accept(6000, current=5000)
    assert port.number == 0


async def test_whoever_waits_for_a_port_gets_the_one_of_the_newest_run() -> None:
    port = AnnouncedPort()
    port.expect()
    port.accept(5000)
    port.expect()  # Slurm has started the job again
    waiting = asyncio.ensure_future(port.announced())
    await asyncio.sleep(0)
    assert not waiting.done()

    port.accept(6000)
    await asyncio.wait_for(waiting, 1)

    assert port.number == 6000


def test_the_handler_that_sets_any_attribute_is_not_there() -> None:
    callback.install()
    callback.install()

    handlers = [route[1] for route in default_handlers]
    assert batchspawner.api.BatchSpawnerAPIHandler not in handlers
    assert handlers.count(callback.ReadyHandler) == 1
    assert handlers.count(callback.EndingHandler) == 1
