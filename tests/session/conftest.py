"""A person's home, modules, kernels, a running server and a browser, for the tests of a session."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from portal.catalogue.specs import sync
from portal.kernels.modules import ModuleSystem
from portal.singleuser.home import prepare_home
from portal.site import Site, load, parse
from portal.trials import record
from portal.trials.trial import FrameworkTrial, Trial
from tests import pictures
from tests.inside import CHROMIUM, CHROMIUM_ARGUMENTS, NOTHING_AHEAD, SITE_FILE
from tests.lessons import lesson, write
from tests.session.session_server import (
    ARTEFACTS,
    DEADLINE_S,
    TOKEN,
    Server,
    answers,
    launch,
    wait_for,
    write_module,
    write_scalars,
)
from tests.wheels import wheel

PART = os.environ.get("DSPORTAL_PART", "")  # `make test` runs two at the same time
SECOND_PART = {  # each takes about half of the time; jobs are in one part alone: some tests count those of a person
    "test_dropped_files.py",
    "test_lab.py",
    "test_large_files.py",
    "test_launcher_row.py",
    "test_module_environments.py",
    "test_news.py",
    "test_own_environments.py",
    "test_session_tensorboard.py",
    "test_time_left.py",
    "test_web_tools.py",
}


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out what is of the other part; None where others may decide."""
    part = "12"[collection_path.name in SECOND_PART]
    return True if collection_path.match("test_*.py") and PART not in ("", part) else None


@pytest.fixture(scope="session")
def module_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Modulefiles in the shape of a Bright cluster's, with this environment's Python as their software."""
    tree = tmp_path_factory.mktemp("modulefiles")
    write_module(tree / "shared/jupyter/1.0", f"prepend-path PATH {Path(sys.executable).parent}")
    write_module(tree / "shared/jupyter/2.0", "setenv JUPYTER_MODULE two")
    write_module(tree / "shared/jupyter/.version", 'set ModulesVersion "1.0"')
    write_module(
        tree / "shared/tensorflow/2.21",
        "conflict shared/pytorch",
        "module load shared/jupyter",
        "setenv TENSORFLOW_MODULE 2.21",
        "append-path LD_LIBRARY_PATH /opt/tensorflow/lib",
    )
    write_module(tree / "shared/pytorch/2.13", "conflict shared/tensorflow", "setenv PYTORCH_MODULE 2.13")
    write_module(tree / "shared/lines/1.0", 'setenv LINES "one \\"two\\"\nit\'s three"')
    return tree


@pytest.fixture(scope="session")
def module_system(module_tree: Path) -> ModuleSystem:
    """The module system of this machine, on the modules of these tests."""
    return ModuleSystem(ModuleSystem().find_command(os.environ), (str(module_tree),))


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, module_system: ModuleSystem) -> Site:
    """A site with kernels from modules, one of which loses its module after the sync."""
    kernel = {"language": "python", "modules": ("shared/tensorflow",)}
    kernels = {
        "folder": str(tmp_path_factory.mktemp("jupyter")),
        "module_path": module_system.path,
        "module_command": module_system.command,
    }
    gone = Path(module_system.path[0], "shared/soon-gone/1.0")
    write_module(gone, f"prepend-path PATH {Path(sys.executable).parent}")
    site = parse(
        {
            "kernels": kernels,
            "kernel": [
                kernel | {"name": "tensorflow", "title": "TensorFlow"},
                kernel | {"name": "gone", "title": "Gone", "modules": ("shared/soon-gone",)},
                {"name": "plain", "title": "Python 3", "python": sys.executable},
            ],
        }
    )
    assert [result.state for result in sync(site)] == ["written"] * 3
    gone.unlink()
    keep_tests(Path(site.kernels.folder))
    return site


def keep_tests(folder: Path) -> None:
    """What `portal kernels test` found of two of these kernels in a job with two GPUs."""
    tensorflow = FrameworkTrial("TensorFlow", "2.21.0", 0, "TensorFlow sees 0 of 2 GPUs.", is_fault=True)
    at = int(datetime(2026, 11, 25, tzinfo=UTC).timestamp())
    trials = {
        "plain": Trial(at, 0.94, "Python 3.11.2", 2, "gpu", note="it has none of them"),
        "tensorflow": Trial(at, 1.21, "Python 3.11.2", 2, "gpu", frameworks=(tensorflow,)),
    }
    record.keep(folder, trials, {name: record.fingerprint(folder / "kernels" / name) for name in trials})


@pytest.fixture(scope="session")
def start_server(tmp_path_factory: pytest.TempPathFactory, site: Site) -> Iterator[Callable[..., Server]]:
    """Starts servers; those that are left at the end are ended."""
    started: list[Server] = []

    def start(**environment: str) -> Server:
        server = launch(tmp_path_factory.mktemp("person"), site, **environment)
        started.append(server)
        wait_for("server", lambda: answers(server))
        return server

    yield start
    for server in started:
        server.process.kill()
        server.process.wait()
        shutil.rmtree(server.runtime, ignore_errors=True)


@pytest.fixture(scope="session")
def server(start_server: Callable[..., Server]) -> Server:
    """One server for all tests that leave it as it was."""
    server = start_server()
    write_scalars(server.home / "logs" / "train")
    for folder in ("empty", "projects/first run"):
        (server.home / folder).mkdir(parents=True)
    write(server.home.parent / "catalogue/tensorflow/first.ipynb", lesson("import helper", kernel="plain"))
    write(server.home.parent / "catalogue/tensorflow/helper.py", "h = 1\n")
    write(server.home.parent / "catalogue/mxnet/old.ipynb", lesson("1", kernel="mxnet"))
    assert prepare_home(server.home, [server.home.parent / "catalogue"], [], {"plain"}) == []
    (server.home / "notes.txt").write_text("a file")
    return server


@pytest.fixture(scope="session")
def cluster_server(start_server: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A session that knows the module tree of the cluster; its pip finds one package and nothing else."""
    kernels = load(str(SITE_FILE)).kernels
    told = {"module_path": kernels.module_path, "module_command": kernels.module_command}
    server = start_server(DSPORTAL_SESSION=json.dumps({"title": "Test Portal", **told}))
    wheels = wheel(tmp_path_factory.mktemp("package"))
    config = server.home / ".config/pip/pip.conf"
    config.parent.mkdir(parents=True)
    config.write_text(f"[global]\nno-index = true\nfind-links = {wheels}\n")
    return server


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Headless Chromium, for one file: Playwright's event loop and those of asynchronous tests exclude each other."""
    expect.set_options(timeout=DEADLINE_S * 1000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def window(browser: Browser, server: Server) -> Iterator[Page]:
    """A person's browser window, logged in to a server."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(DEADLINE_S * 1000)
    context.add_init_script(NOTHING_AHEAD)
    page = context.new_page()
    page.goto(f"{server.url}login?token={TOKEN}")
    yield page
    context.close()


@pytest.fixture
def page(browser: Browser, server: Server) -> Iterator[Page]:
    """A window on the server of all tests."""
    with window(browser, server) as opened:
        yield opened


@pytest.fixture
def picture(request: pytest.FixtureRequest) -> Callable[[Page, str], None]:
    """Keeps a screenshot as an artefact of the test."""

    def take(page: Page, name: str) -> None:
        test = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_")).strip("-")
        pictures.keep(page, ARTEFACTS / f"{test}-{name}.png")

    return take
