"""JupyterHub's own fixtures, on the portal's hub and spawner; and the tests that are known to differ.

A test in :data:`DIFFERENCES` counts as passed when it fails with the words of its line, and fails when it does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from jupyterhub.handlers import default_handlers
from jupyterhub.proxy import ConfigurableHTTPProxy

from portal.history.pages import HANDLERS
from tests.upstream.differences import DIFFERENCES, fault
from tests.upstream.portal_parts import HubOnFakeSlurm, SpawnerOnFakeSlurm, end_all

pytest.register_assert_rewrite("jupyterhub.tests")
with (
    mock.patch("jupyterhub.app.JupyterHub", HubOnFakeSlurm),
    mock.patch("jupyterhub.spawner.SimpleLocalProcessSpawner", SpawnerOnFakeSlurm),
):
    from jupyterhub.tests import mocking, test_api, test_spawner  # noqa: F401  imported while ours are in their places
    from jupyterhub.tests.conftest import *  # noqa: F403
mocking.SlowSpawner.delay = 4  # of 5 s, what is to be seen meanwhile is seen on a busy machine too

INI = Path(__file__).with_name("pytest.ini")
THEIRS = ("test_api.py", "test_spawner.py")
SEEN = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[SEEN] = []
    if config.inipath != INI:
        raise pytest.UsageError(
            f"tests/upstream has settings of its own, and this run has those of {config.inipath}: "
            "run it alone, with `tests/run.py upstream` or `pytest tests/upstream`"
        )
    ConfigurableHTTPProxy.stop = _stop_and_wait


_stop = ConfigurableHTTPProxy.stop


def _stop_and_wait(proxy: Any) -> None:
    """JupyterHub (6.1) ends the proxy's process and forgets it; Python calls that a fault when the hub is freed."""
    process = proxy.proxy_process
    _stop(proxy)
    if process:
        process.wait(10)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A line about a test that JupyterHub does not have (any more) is a fault."""
    if any("::" in argument for argument in config.args):
        return
    found = {item.nodeid for item in items}
    files = {name.partition("::")[0] for name in found}
    gone = [name for name in DIFFERENCES if name.partition("::")[0] in files and name not in found]
    if gone:
        raise pytest.UsageError(f"tests/upstream/differences.py names tests that JupyterHub does not have: {gone}")


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Run a test; one that is listed must fail, and with the words of its line."""
    known = DIFFERENCES.get(pyfuncitem.nodeid)
    if known is None:
        return (yield)
    error: BaseException | None = None
    try:
        yield
    except (Exception, pytest.fail.Exception) as raised:
        error = raised
    if told := fault(known, error):
        raise AssertionError(told) from error
    pyfuncitem.config.stash[SEEN].append(pyfuncitem.nodeid)
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what differed."""
    seen = config.stash[SEEN]
    passed = [one for one in terminalreporter.stats.get("passed", []) if one.nodeid.startswith(THEIRS)]
    terminalreporter.section("JupyterHub's own tests on the portal's spawner")
    for name in seen:
        terminalreporter.write_line(f"differs: {name}: {DIFFERENCES[name].reason}")
    terminalreporter.write_line(f"{len(passed) - len(seen)} pass as they are, {len(seen)} differ as listed")


@pytest.fixture
def no_patience(app: HubOnFakeSlurm) -> Iterator[None]:
    """JupyterHub's own waits 0.1 s for a start: on a busy machine it has not begun by then, and on a quiet one
    FakeSlurm's is over. Here it always has begun, and is not over; a bad one's comes to nothing later than 0.5 s.
    """
    fails = mocking.SlowBadSpawner.start

    async def fails_later(spawner: Any) -> None:
        await asyncio.sleep(2)
        await fails(spawner)

    timeouts = {"slow_spawn_timeout": 0.3, "slow_stop_timeout": 0.1}
    with (
        mock.patch.dict(app.tornado_settings, timeouts),
        mock.patch.object(SpawnerOnFakeSlurm, "takes_s", 1.0),
        mock.patch.object(mocking.SlowBadSpawner, "start", fails_later),
    ):
        yield


@pytest.fixture(scope="module", autouse=True)
def servers() -> Iterator[None]:
    """A hub that has ended leaves no server behind."""
    yield
    assert end_all() == []


@pytest.fixture(scope="module")
def our_pages() -> Iterator[None]:
    """The portal's own of sessions, as portal.hub.config puts them there; before the hub of this module is made."""
    before = list(default_handlers)
    ours = {address for address, _ in HANDLERS}
    default_handlers[:] = [route for route in before if route[0] not in ours] + list(HANDLERS)
    yield
    default_handlers[:] = before
