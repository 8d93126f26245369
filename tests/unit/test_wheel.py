"""What the wheel installs: two import packages, the data, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The files in a wheel built from this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def test_two_packages_are_imported_and_no_other(names: set[str]) -> None:
    tops = {name.split("/")[0] for name in names}

    assert {top for top in tops if not top.endswith((".dist-info", ".data"))} == {"portal", "spawners"}


@pytest.mark.parametrize(
    "data",
    [
        "share/dsportal/templates/job/session.sh",
        "share/dsportal/templates/hub/login.html",
        "share/dsportal/templates/hub/static/logo.svg",
        "share/dsportal/notebooks/tensorflow/mnist.ipynb",
        "share/dsportal/deploy/jupyterhub_config.py",
        "share/dsportal/deploy/site.toml.example",
        "share/dsportal/deploy/proxy_error_page.mjs",
        "share/dsportal/deploy/proxy_domain.mjs",
        "share/dsportal/deploy/proxy_owner.mjs",
        "share/dsportal/deploy/proxy_guard.mjs",
        "share/dsportal/deploy/proxy_answers.mjs",
        "share/dsportal/deploy/proxy_routes.mjs",
        "share/dsportal/deploy/proxy_said.mjs",
        "share/dsportal/deploy/proxy_sockets.mjs",
        "share/dsportal/deploy/proxy_bodies.mjs",
        "share/dsportal/deploy/proxy_headers.mjs",
        "share/dsportal/deploy/proxy_turns.mjs",
        "share/dsportal/deploy/proxy_heads.mjs",
        "share/dsportal/deploy/proxy_pieces.mjs",
        "share/dsportal/deploy/proxy_journal.mjs",
        "share/dsportal/deploy/proxy_log.mjs",
        "share/dsportal/templates/hub/restarting.html",
        "share/dsportal/proxy/package-lock.json",
        "share/jupyter/labextensions/dsportal-lab/package.json",
    ],
)
def test_the_data_is_where_jupyter_and_the_portal_look_for_it(names: set[str], data: str) -> None:
    assert [name for name in names if name.endswith(f".data/data/{data}")]


def test_no_tests_no_benches_and_no_demo_are_shipped(names: set[str]) -> None:
    assert not [
        name for name in names if "tests/" in name or "deploy/demo" in name or "bench" in name or name.endswith(".map")
    ]


def test_the_installed_portal_is_the_one_of_this_distribution() -> None:
    import importlib.metadata

    scripts = {entry.name for entry in importlib.metadata.distribution("dsportal").entry_points}

    assert {"portal", "portal-launch", "dsportal-slurm", "dsportal-profiles", "dsportal-ldap"} <= scripts
