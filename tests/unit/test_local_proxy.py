"""The proxy of the local mode, which ends with its hub; and what a start does where a hub was killed."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub.httpclient import JupyterHubHTTPClient
from jupyterhub.proxy import ConfigurableHTTPProxy
from traitlets.config import Config
from traitlets.utils.importstring import import_item

from portal.hub import config, variables
from portal.proxy import proxy_process
from portal.site import Site

SOMEBODY_ELSE = 65534
SLEEPS = ("sleep", "60")


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """JupyterHub's settings of a local mode whose state is in a folder of this test."""
    monkeypatch.setattr(config, "default_handlers", [])
    with socket.create_server(("127.0.0.1", 0)) as free:
        monkeypatch.setenv(variables.LOCAL_PORT, str(free.getsockname()[1]))
    c = Config()
    config.configure_local(c, Site(), str(tmp_path), "of this start")
    return c


def proxy(c: Config) -> Any:
    """The proxy as the next start has it."""
    kind = c.JupyterHub.get("proxy_class", ConfigurableHTTPProxy)
    hub = SimpleNamespace(url="http://127.0.0.1:1/hub/", host="http://127.0.0.1:1", routespec="/")
    app = SimpleNamespace(hub=hub, base_url="/", subdomain_host="", internal_ssl=False)
    made = import_item(kind) if isinstance(kind, str) else kind
    return made(app=app, hub=hub, public_url=c.JupyterHub.bind_url, config=c, log=logging.getLogger("hub"))


@contextmanager
def running(*argv: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is there meanwhile."""
    with subprocess.Popen(argv, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def leave(state: Path, pid: int, **noted: object) -> None:
    """What a hub that was killed has left."""
    (state / proxy_process.PID_FILE).write_text(str(pid))
    if noted:
        known = {"pid": pid, "place": str(state.resolve()), "parts": {}, **noted}
        proxy_process.write(state / proxy_process.FOLDER / proxy_process.RUNNING_FILE, json.dumps(known))


@pytest.mark.parametrize("noted", [{}, {"began": "1"}], ids=["by a version before", "by this one"])
def test_a_process_that_has_got_the_number_meanwhile_is_left_alone(
    tmp_path: Path, local: Config, noted: dict[str, str]
) -> None:
    with running(*SLEEPS) as process:
        leave(tmp_path, process.pid, **noted)

        proxy(local)._check_previous_process()

        assert process.poll() is None
        assert not (tmp_path / proxy_process.PID_FILE).exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="starts a process of somebody else")
def test_nor_is_a_proxy_of_somebody_elses(tmp_path: Path, local: Config) -> None:
    """It could not be ended: the start would fail."""
    argv = ("sh", "-c", "sleep 60; true", proxy_process.PROGRAM.decode())
    with running(*argv, user=SOMEBODY_ELSE, start_new_session=True) as process:
        leave(tmp_path, process.pid)

        assert proxy_process.running_in(tmp_path) is None
        proxy(local)._check_previous_process()

        assert process.poll() is None
        os.killpg(process.pid, 9)


async def test_the_proxy_of_a_hub_that_was_killed_is_ended_and_a_new_one_ends_with_its_hub(
    tmp_path: Path, local: Config
) -> None:
    killed = proxy(local)
    await killed.start()
    killed._check_running_callback.stop()
    first = proxy_process.running_in(tmp_path)

    again = proxy(local)
    await again.start()
    second = proxy_process.running_in(tmp_path)

    assert first
    assert second
    assert killed.proxy_process.wait(5) is not None
    assert (second.pid, second.lives) == (again.proxy_process.pid, True)
    again.stop()
    again.proxy_process.wait(5)
    assert proxy_process.running_in(tmp_path) is None
    await JupyterHubHTTPClient.loop_instance().close()
