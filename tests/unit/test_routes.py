"""The proxy of a hub that comes back."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import time
from pathlib import Path

import pytest

from portal.hub import routes


@pytest.mark.parametrize(("program", "ends"), [("configurable-http-proxy", True), ("somebody-elses", False)])
def test_only_a_proxy_is_ended_that_a_killed_hub_left(tmp_path: Path, program: str, ends: bool) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", program]) as process:
        (tmp_path / "proxy.pid").write_text(f"{process.pid}\n")
        while not Path(f"/proc/{process.pid}/cmdline").read_bytes():
            time.sleep(0.01)  # the kernel has not begun with it
        routes.end_proxy_of_before(str(tmp_path / "proxy.pid"))
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

    routes.end_proxy_of_before(str(tmp_path / "proxy.pid"))
    routes.end_proxy_of_before(str(tmp_path / "missing"))
    routes.end_proxy_of_before("")


@pytest.mark.parametrize(
    ("fails_with", "logged"),
    [(None, "3 sessions were looked at"), (OSError("no sudo"), "Not all sessions could be looked at")],
)
async def test_the_routes_are_brought_back_although_the_proxy_or_a_session_fails(
    fails_with: OSError | None, logged: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "EVERY_S", 0.01)
    sessions: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    if fails_with:
        sessions.set_exception(fails_with)
    else:
        sessions.set_result(3)
    answers = iter([ConnectionError("the proxy is not there yet"), None])

    async def check_routes() -> None:
        if error := next(answers):
            raise error

    with caplog.at_level(logging.INFO):
        await routes.bring_back(check_routes, sessions, logging.getLogger("hub"))

    first, last = caplog.records
    assert first.getMessage() == "The routes of the sessions: tried again"
    assert last.getMessage() == logged
    assert (last.exc_info[1] if last.exc_info else None) is fails_with
