"""A portal with a quota, Alice's browser on it, and five gigabytes on her disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.conftest import context, page, pytest_runtest_makereport, pytest_runtest_setup
from tests.hub.conftest import FOLDER, PORT, Hub, Person
from tests.inside import CHROMIUM, CHROMIUM_ARGUMENTS, eventually, has_no_job, home, sh

__all__ = ["context", "page", "pytest_runtest_makereport", "pytest_runtest_setup"]

SIZE = int(float(os.environ.get("DSPORTAL_LARGE_GB", "5")) * 1e9)
PIECE = 2**25  # bytes
QUOTA = "#!/bin/sh\necho 96636764160 107374182400\n"


@pytest.fixture(scope="session")
def hub() -> Iterator[Hub]:
    """A portal of its own, whose site says how full homes are."""
    ours = Hub(FOLDER.with_name("test-large-files"), PORT + 900)
    ours.prepare()
    command = ours.folder / "quota"
    command.write_text(QUOTA)
    command.chmod(0o755)
    ours.site_file.write_text(f'{ours.site_file.read_text()}\n[quota]\ncommand = ["{command}", "{{user}}"]\n')
    ours.start()
    yield ours
    sh("scancel", "--user=alice")
    eventually(partial(has_no_job, "alice"), "no job is left")
    ours.stop()


@pytest.fixture(scope="session")
def address(hub: Hub) -> str:
    """Where the portal is."""
    return hub.url


@pytest.fixture(scope="session")
def disk() -> Iterator[Path]:
    """A folder of the machine that the browser runs on; what was uploaded goes with it."""
    folder = FOLDER.with_name("test-large-files-laptop")
    for made in (folder, home("alice") / "large"):
        shutil.rmtree(made, ignore_errors=True)
    folder.mkdir()
    sh("mkdir", str(home("alice") / "large"), user="alice")
    yield folder
    for made in (folder, home("alice") / "large"):
        shutil.rmtree(made)


@pytest.fixture(scope="session")
def chromium(disk: Path) -> Iterator[Browser]:
    """Chromium, whose downloads are on that disk."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=CHROMIUM_ARGUMENTS, downloads_path=disk / "downloads"
        )
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def big(disk: Path) -> Path:
    """The file."""
    file = disk / "five gigabytes.bin"
    with file.open("wb") as stream:
        for offset in range(0, SIZE, PIECE):
            stream.write(os.urandom(min(PIECE, SIZE - offset)))
    return file


@pytest.fixture(scope="session")
def alice(hub: Hub) -> Iterator[Person]:
    """Alice, with a session."""
    person = Person("alice", hub.url)
    person.http.timeout = 600
    assert person.login().status_code == 200
    person.start()
    yield person
    person.http.close()
