"""The hub itself: what it does before JupyterHub's own start."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from portal.hub import app
from portal.hub.app import PortalHub


def hub_with(pid_file: Path | str) -> Any:
    return SimpleNamespace(proxy=SimpleNamespace(pid_file=str(pid_file)))


@pytest.mark.parametrize(("program", "ends"), [("configurable-http-proxy", True), ("somebody-elses", False)])
def test_only_a_proxy_is_ended_that_a_killed_hub_left(tmp_path: Path, program: str, ends: bool) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", program]) as process:
        (tmp_path / "proxy.pid").write_text(f"{process.pid}\n")
        while not Path(f"/proc/{process.pid}/cmdline").read_bytes():
            time.sleep(0.01)  # the kernel has not begun with it
        PortalHub._end_proxy_of_before(hub_with(tmp_path / "proxy.pid"))
        try:
            process.wait(timeout=2 if ends else 0.2)
        except subprocess.TimeoutExpired:
            assert not ends
        else:
            assert ends
        process.kill()


@pytest.mark.parametrize("content", ["", "no number", "999999999"])
def test_a_pid_file_that_names_nobody_is_left_to_jupyterhub(tmp_path: Path, content: str) -> None:
    (tmp_path / "proxy.pid").write_text(content)

    PortalHub._end_proxy_of_before(hub_with(tmp_path / "proxy.pid"))
    PortalHub._end_proxy_of_before(hub_with(tmp_path / "missing"))


@pytest.mark.parametrize(
    ("fails_with", "said"),
    [(None, "3 sessions were looked at"), (OSError("no sudo"), "Not all sessions could be looked at")],
)
async def test_the_routes_are_brought_back_although_the_proxy_or_a_look_fails(
    fails_with: OSError | None, said: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "ROUTES_EVERY_S", 0.01)
    looked = asyncio.get_running_loop().create_future()
    if fails_with:
        looked.set_exception(fails_with)
    else:
        looked.set_result(3)
    answers = iter([ConnectionError("the proxy is not there yet"), None])

    async def check_routes(users: Any, services: Any) -> None:
        if error := next(answers):
            raise error

    hub: Any = SimpleNamespace(
        proxy=SimpleNamespace(check_routes=check_routes),
        users={},
        _service_map={},
        _looked=looked,
        log=logging.getLogger("hub"),
    )
    with caplog.at_level(logging.INFO):
        await PortalHub._route(hub)

    first, last = caplog.records
    assert first.getMessage() == "The routes of the sessions: tried again"
    assert last.getMessage() == said
    assert (last.exc_info[1] if last.exc_info else None) is fails_with
