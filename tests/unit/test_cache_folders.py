"""Caches of compiled code: in sessions, kernels and jobs below the home, not under a known name in /tmp."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.kernelspec import KernelSpec

from portal.homes import cache_folders, private_folder
from portal.jobs import environment
from portal.kernels.provisioner import ModuleProvisioner
from portal.session_settings import SessionSettings
from portal.singleuser import server, spare_home

NAMES = ("TORCHINDUCTOR_CACHE_DIR", "CUTE_DSL_CACHE_DIR", "QUACK_CACHE_DIR", "TFHUB_CACHE_DIR")


@pytest.mark.parametrize("caches", ["", "relative"])
def test_compiled_code_is_kept_below_the_home(caches: str) -> None:
    found = cache_folders.with_own({"HOME": "/home/alice", "XDG_CACHE_HOME": caches})
    assert found["TORCHINDUCTOR_CACHE_DIR"] == "/home/alice/.cache/torchinductor"
    assert all(found[name].startswith("/home/alice/.cache/") for name in NAMES)


@pytest.mark.parametrize(
    ("name", "off", "on"),
    [
        ("TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS", "0", "1"),  # PyTorch 2.13, _inductor/codecache.py
        ("NODE_DISABLE_COMPILE_CACHE", "1", ""),  # Node's module.enableCompileCache()
    ],
)
def test_what_would_be_kept_in_tmp_whatever_folder_is_set_is_not_kept(name: str, off: str, on: str) -> None:
    assert cache_folders.with_own({"HOME": "/home/alice"})[name] == off
    assert cache_folders.with_own({"HOME": "/home/alice", name: on})[name] == on


def test_it_lies_with_the_persons_other_caches() -> None:
    found = cache_folders.with_own({"HOME": "/home/alice", "XDG_CACHE_HOME": "/scratch/alice"})
    assert found["TORCHINDUCTOR_CACHE_DIR"] == "/scratch/alice/torchinductor"


def test_what_somebody_has_set_stays() -> None:
    given = dict.fromkeys(NAMES, "/scratch/alice/kept")
    assert cache_folders.with_own(given).items() >= given.items()


def test_jobs_have_it() -> None:
    found = environment.of_job({"HOME": "/home/alice", "PATH": "/bin", "TFHUB_CACHE_DIR": "/scratch/models"})
    assert found["TORCHINDUCTOR_CACHE_DIR"] == "/home/alice/.cache/torchinductor"
    assert found["TFHUB_CACHE_DIR"] == "/scratch/models"


def test_kernels_have_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provisioner: Any = ModuleProvisioner()
    provisioner.kernel_spec = KernelSpec(language="julia")
    monkeypatch.setattr("portal.kernels.other_starts.PREPARED", {})
    started = asyncio.run(provisioner._private(["julia"], {"HOME": "/home/alice", "PATH": "/bin"}, str(tmp_path)))
    assert started["env"]["TORCHINDUCTOR_CACHE_DIR"] == "/home/alice/.cache/torchinductor"


def test_sessions_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"HOME": "/home/alice"}
    monkeypatch.setattr(spare_home, "take", lambda settings, _: settings)
    server.place(SessionSettings(), environ)
    assert environ["TORCHINDUCTOR_CACHE_DIR"] == "/home/alice/.cache/torchinductor"


def test_where_the_home_does_not_work_keras_looks_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads its settings in /tmp/.keras where the home cannot be written (Keras 3, backend/config.py)."""
    monkeypatch.setenv("HOME", str(tmp_path / "missing"))
    environ = {private_folder.VARIABLE: str(tmp_path / "private")}
    server.place(SessionSettings(), environ)
    assert environ["KERAS_HOME"] == str(tmp_path / "private/cache/keras")
    assert environ["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "private/cache/torchinductor")
