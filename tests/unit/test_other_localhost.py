"""Browsers ask ``localhost`` by IPv6 first: whoever listened there would be given the local mode's password."""

from __future__ import annotations

import argparse
import socket
from pathlib import Path

import pytest

from portal import cli
from portal.errors import PortalError
from portal.hub import variables
from portal.proxy import proxy_process


@pytest.fixture
def port() -> int:
    """A port that is free at both addresses."""
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as listener:
        return int(listener.getsockname()[1])


def start(port: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ``portal up --local`` does before the hub itself."""
    for name in (variables.LOCAL_STATE, variables.LOCAL_PASSWORD, variables.LOCAL_PORT):
        monkeypatch.setenv(name, "")
    monkeypatch.setattr(proxy_process, "absent", lambda _command: "")
    cli._prepare_local(argparse.Namespace(state=str(folder), site="", port=port, files=""))


def test_nobody_else_listens_where_browsers_look_first_and_they_go_on(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(port, tmp_path, monkeypatch)

    with pytest.raises(OSError, match="in use"):
        socket.create_server(("::1", port), family=socket.AF_INET6)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("::1", port))
    with socket.create_server(("127.0.0.1", port)):
        socket.create_connection(("127.0.0.1", port)).close()


def test_no_password_is_told_where_somebody_listens_there_already(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        socket.create_server(("::1", port), family=socket.AF_INET6),
        pytest.raises(PortalError, match=rf"\[::1\]:{port}.*Take another --port"),
    ):
        start(port, tmp_path, monkeypatch)

    assert "Password" not in capsys.readouterr().out
