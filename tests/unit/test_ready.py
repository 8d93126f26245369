"""The callback of a starting session: a port, once, and nothing else."""

from __future__ import annotations

import batchspawner.api
import pytest
from jupyterhub.apihandlers import default_handlers

from spawners import ready


@pytest.mark.parametrize("port", [1024, 41233, 65535])
def test_a_port_is_read(port: int) -> None:
    assert ready.read_port({"port": port}) == port


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
        ready.read_port(body)


async def test_only_the_first_port_counts_and_only_while_one_is_waited_for() -> None:
    session = ready.AwaitsPort()
    assert not session.accept_port(5000)

    port = session.expect_port()

    assert session.accept_port(5000)
    assert session.accept_port(5000), "the answer may have been lost: the same word again is the same answer"
    assert not session.accept_port(6000)
    assert port.result() == 5000
    session.forget_port()
    assert not session.accept_port(7000)


def test_the_handler_that_sets_any_attribute_is_not_there() -> None:
    ready.install()

    handlers = [route[1] for route in default_handlers]
    assert batchspawner.api.BatchSpawnerAPIHandler not in handlers
    assert handlers.count(ready.ReadyHandler) == 1
