"""What lies beside a kernelspec is shown, and is no page of the session."""

from __future__ import annotations

import asyncio
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_server.auth.authorizer import AllowAllAuthorizer
from tornado.httpclient import AsyncHTTPClient, HTTPResponse
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application

from portal.downloads.kernel_files import ADDRESS, KernelFileHandler
from portal.kernels.manager import PortalKernelSpecManager
from portal.session_settings import SessionSettings
from portal.session_usage.pages import OwnJob
from portal.singleuser import extension
from portal.tensorboard.boards import Boards
from portal.tensorboard.folders import Folders
from tests.unit.test_own_files_read import AT_ONCE_S, lease

SCRIPT = '<svg xmlns="http://www.w3.org/2000/svg"><script>top.own = 1</script></svg>'


class KernelPage(KernelFileHandler):
    """The same, for whoever asks."""

    current_user = "alice"

    async def prepare(self) -> None:  # type: ignore[override]
        """None."""

    def check_xsrf_cookie(self) -> None:
        """None."""


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """A kernelspec as somebody else has given it."""
    spec = tmp_path / "kernels" / "theirs"
    spec.mkdir(parents=True)
    (spec / "kernel.json").write_text(json.dumps({"argv": ["x"], "display_name": "x", "language": "x"}))
    for name in ("logo-svg.svg", "page.html"):
        (spec / name).write_text(SCRIPT)
    return spec


async def shown(spec: Path, name: str) -> HTTPResponse:
    """The answer for a file beside it."""
    found = KernelSpecManager(kernel_dirs=[str(spec.parent)])
    settings: dict[str, Any] = {"kernel_spec_manager": found, "base_url": "/", "authorizer": AllowAllAuthorizer()}
    server = HTTPServer(Application([(f"/{ADDRESS}", KernelPage)], **settings))
    listener, port = bind_unused_port()
    server.add_socket(listener)
    try:
        address = f"http://127.0.0.1:{port}/kernelspecs/{spec.name}/{name}"
        return await AsyncHTTPClient().fetch(address, raise_error=False)
    finally:
        server.stop()


@pytest.mark.parametrize("name", ["logo-svg.svg", "page.html"])
async def test_a_picture_or_page_of_a_kernelspec_has_none_of_the_rights_of_the_sessions_pages(
    beside: Path, name: str
) -> None:
    answer = await shown(beside, name)

    assert (answer.code, answer.body.decode()) == (200, SCRIPT)
    assert "sandbox" in [part.strip() for part in answer.headers["Content-Security-Policy"].split(";")]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_nobody_waits_for_who_keeps_a_logo_from_being_opened(beside: Path) -> None:
    with lease(beside / "logo-svg.svg", "long"):
        answer = await asyncio.wait_for(shown(beside, "logo-svg.svg"), AT_ONCE_S)
    assert answer.code == 423


def test_nobody_waits_for_who_keeps_a_kernelspec_from_being_opened(
    beside: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ours = beside.parent / "ours"
    shutil.copytree(beside, ours)
    manager = PortalKernelSpecManager(kernel_dirs=[str(beside.parent)], ensure_native_kernel=False)

    with lease(beside / "kernel.json", "long"), ThreadPoolExecutor() as pool:
        found = pool.submit(manager.get_all_specs).result(AT_ONCE_S)

    assert found.keys() == {"ours"}
    assert "The kernel theirs cannot be read" in caplog.text
    assert manager.get_all_specs().keys() == {"ours", "theirs"}


def test_a_session_shows_them_so(tmp_path: Path) -> None:
    application = Application([], base_url="/user/alice/")

    extension._mount(application, Boards(tmp_path), Folders(tmp_path), SessionSettings(), OwnJob(may_extend=False))

    rules = [rule for group in application.default_router.rules for rule in getattr(group.target, "rules", [])]
    targets = {rule.matcher.regex.pattern: rule.target for rule in rules if hasattr(rule.matcher, "regex")}
    assert targets[f"/user/alice/{ADDRESS}$"] is KernelFileHandler
