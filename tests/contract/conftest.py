"""What the contract's tests are given."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from portal.site import Site, load
from tests.contract.stages import FakeStage, RealStage, Stage
from tests.inside import SITE_FILE, eventually, jobs_of, sh


@pytest.fixture(scope="module")
def site() -> Site:
    """The settings of the cluster the tests run in."""
    return load(str(SITE_FILE))


@pytest.fixture(params=["fake", "real"])
def slurm(request: pytest.FixtureRequest, site: Site) -> Iterator[Stage]:
    """One of the two Slurms; nothing of alice's is left in the real one."""
    if request.param == "fake":
        yield FakeStage(site.portal.launcher)
        return
    stage = RealStage(site.portal.launcher)
    yield stage
    stage.repair()
    sh("scancel", "--user=alice")
    eventually(lambda: not jobs_of("alice"), "no job is left")


@pytest.fixture
def key() -> Iterator[str]:
    """A new session key; whatever carries it is cancelled at the end."""
    made = secrets.token_hex(8)
    yield made
    sh("scancel", f"--name=dsportal-{made}", "--signal=KILL", check=False)
    sh("scancel", f"--name=dsportal-{made}", check=False)
