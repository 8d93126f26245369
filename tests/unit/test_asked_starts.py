"""Slurm's own word on a start: asked for a choice that stays, as the person, seldom, and never waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from portal.errors import AccountGone, ActingRefused, SlurmUnavailable
from portal.forecasts import asked_starts, words
from portal.forecasts.asked_starts import COUNTS_S, STAYS_S, AskedStarts, parse_test
from portal.request import SessionRequest
from portal.site import Identity, Site
from portal.slurm.cluster import Cluster
from portal.slurm.submission import Submission, submission
from portal.testing.fake_slurm import FakeSlurm
from portal.testing.outages import ControllerDown, NoOutage, SbatchRefuses
from tests.unit.served_hub import ServedHub, served_hub

KEY = "abcdef0123456789"
ANSWER = "sbatch: Job 7 to start at 1764080400 using 16 processors on nodes gpu01 in partition sxm2"
OF_PAGE = {"Sec-Fetch-Site": "same-origin"}


@pytest.mark.parametrize(
    ("message", "at"),
    [
        (ANSWER, 1764080400),
        (f"sbatch: said by a plugin\n{ANSWER}\nsbatch:   Preempts: 5,6", 1764080400),
        ("allocation failure: Requested node configuration is not available", None),
        (ANSWER.replace("1764080400", "2026-11-25T14:20:00"), None),
        ("", None),
    ],
)
def test_the_answer_of_test_only_is_a_moment_or_nothing(message: str, at: int | None) -> None:
    assert parse_test(message) == (datetime.fromtimestamp(at, UTC) if at else None)


@pytest.fixture
def slurm() -> FakeSlurm:
    """The demo's cluster."""
    return FakeSlurm()


@pytest.fixture
def starts(slurm: FakeSlurm) -> AskedStarts:
    return AskedStarts(Cluster("/opt/portal-launch", run=slurm, clock=slurm.clock))


@pytest.fixture
def made(site: Site, alice: Identity) -> Submission:
    """What one GPU becomes."""
    return submission(SessionRequest("sxm2", 1, 2), site, KEY, {})


async def settled(starts: AskedStarts) -> None:
    """Until nothing is asked any more."""
    await asyncio.sleep(0)
    await asyncio.gather(*(one.asking for one in starts._people.values() if one.asking))


def questions(slurm: FakeSlurm) -> int:
    return sum(command[0] == "sudo" for command in slurm.asked)


async def looked(starts: AskedStarts, slurm: FakeSlurm, choice: Any, made: Submission, person: str = "alice") -> Any:
    """A look, some time after the last one; what was asked is answered before the next."""
    said = starts.of(person, choice, lambda: made)
    await settled(starts)
    slurm.advance(STAYS_S)
    return said


async def test_a_choice_that_stays_is_asked_for_once_and_its_answer_is_there_at_the_next_look(
    slurm: FakeSlurm, starts: AskedStarts, made: Submission
) -> None:
    slurm.would_wait = timedelta(hours=3)

    said = [await looked(starts, slurm, "one GPU", made) for _ in range(5)]

    assert said[:2] == [None, None], "nobody waits for it"
    assert said[2] == said[4] == (slurm.now - 4 * timedelta(seconds=STAYS_S) + slurm.would_wait).astimezone(UTC)
    assert questions(slurm) == 1
    assert slurm.jobs == {}, "no job comes of it"
    assert slurm.environments == {}
    assert slurm.asked[0][slurm.asked[0].index("--user") + 1] == "alice"


async def test_who_changes_the_choice_again_and_again_asks_nothing(
    slurm: FakeSlurm, starts: AskedStarts, made: Submission
) -> None:
    for number in range(20):
        assert await looked(starts, slurm, number, made) is None

    assert questions(slurm) == 0


async def test_an_answer_counts_for_a_while_and_is_asked_for_anew(
    slurm: FakeSlurm, starts: AskedStarts, made: Submission
) -> None:
    for _ in range(3):
        await looked(starts, slurm, "one GPU", made)
    slurm.would_wait = timedelta(hours=1)
    slurm.advance(COUNTS_S)
    before = await looked(starts, slurm, "one GPU", made)

    after = await looked(starts, slurm, "one GPU", made)

    assert after - before > timedelta(minutes=59)
    assert questions(slurm) == 2


async def test_few_are_asked_at_once_and_the_others_at_a_later_look(
    slurm: FakeSlurm, made: Submission, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = asyncio.Event()
    asked: list[str] = []
    cluster = Cluster("/opt/portal-launch", run=slurm, clock=slurm.clock)
    starts = AskedStarts(cluster)

    async def call(person: str, _request: object) -> dict[str, object]:
        asked.append(person)
        await answered.wait()
        return {
            "ok": True,
            "message": ANSWER,
        }

    monkeypatch.setattr(cluster.launcher, "call", call)
    people = [f"person-{number}" for number in range(asked_starts.AT_ONCE + 3)]
    for _ in range(3):
        for person in people:
            starts.of(person, "one GPU", lambda: made)
        await asyncio.sleep(0)
        slurm.advance(STAYS_S)

    assert asked == people[: asked_starts.AT_ONCE]
    assert starts.of(people[0], "another choice", lambda: made) is None
    answered.set()
    await settled(starts)
    assert starts.of(people[1], "one GPU", lambda: made) == datetime.fromtimestamp(1764080400, UTC)


@pytest.mark.parametrize("how", ["slow", "silent"])
async def test_a_refusal_says_nothing_and_a_slurm_in_trouble_is_left_alone(
    slurm: FakeSlurm, starts: AskedStarts, made: Submission, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    slurm.outage = SbatchRefuses()
    assert [await looked(starts, slurm, "one GPU", made) for _ in range(4)] == [None] * 4
    assert questions(slurm) == 1

    async def hangs(_person: str, _request: object) -> dict[str, object]:
        if how == "slow":
            slurm.advance(asked_starts.SLOW_S + 1)
            return {"ok": False, "message": "portal-launch: sbatch timed out after 45 seconds"}
        raise SlurmUnavailable("no answer")

    monkeypatch.setattr(starts._cluster.launcher, "call", call := AsyncMock(side_effect=hangs))
    for choice in ("a", "a", "b", "b", "c", "c"):
        assert await looked(starts, slurm, choice, made, "bob") is None
    assert call.await_count == 1


async def after_trouble_of(
    people: dict[str, SlurmUnavailable],
    starts: AskedStarts,
    slurm: FakeSlurm,
    made: Submission,
    monkeypatch: pytest.MonkeyPatch,
) -> datetime | None:
    """What alice is told when these people had no answer before."""

    async def call(person: str, _request: object) -> dict[str, object]:
        if person in people:
            raise people[person]
        return {"ok": True, "message": ANSWER}

    monkeypatch.setattr(starts._cluster.launcher, "call", call)
    for person in people:
        for _ in range(2):
            await looked(starts, slurm, "one GPU", made, person)
    return [await looked(starts, slurm, "one GPU", made) for _ in range(3)][-1]  # type: ignore[no-any-return]


SILENT = SlurmUnavailable("no answer")


@pytest.mark.parametrize(
    "people",
    [
        {"mallory": SILENT},
        {"mallory": SILENT, "eve": SILENT},
        {"mallory": ActingRefused("not by sudo"), "eve": AccountGone("gone"), "oscar": AccountGone("gone")},
    ],
    ids=["one", "two", "accounts"],
)
async def test_what_one_or_two_people_lack_keeps_slurms_word_from_nobody_else(
    slurm: FakeSlurm,
    starts: AskedStarts,
    made: Submission,
    monkeypatch: pytest.MonkeyPatch,
    people: dict[str, SlurmUnavailable],
) -> None:
    assert await after_trouble_of(people, starts, slurm, made, monkeypatch) is not None


async def test_where_most_of_many_people_have_no_answer_slurm_is_left_alone(
    slurm: FakeSlurm, starts: AskedStarts, made: Submission, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = {f"person-{number}": SILENT for number in range(asked_starts.SEEN_BY)}

    assert await after_trouble_of(many, starts, slurm, made, monkeypatch) is None

    slurm.advance(asked_starts.LEFT_ALONE_S)
    assert [await looked(starts, slurm, "one GPU", made) for _ in range(2)][-1] is not None


async def test_where_more_people_have_an_answer_those_who_have_none_keep_it_from_nobody(
    slurm: FakeSlurm, starts: AskedStarts, made: Submission, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(asked_starts.SEEN_BY):
        for _ in range(2):
            await looked(starts, slurm, "one GPU", made, f"well-{number}")
    many = {f"person-{number}": SILENT for number in range(asked_starts.SEEN_BY)}

    assert await after_trouble_of(many, starts, slurm, made, monkeypatch) is not None


async def test_a_slurm_that_does_not_answer_the_hub_is_asked_for_nobody(
    slurm: FakeSlurm, starts: AskedStarts, made: Submission
) -> None:
    slurm.outage = ControllerDown()
    await starts._cluster.queue(0)
    slurm.outage = NoOutage()

    assert [await looked(starts, slurm, "one GPU", made) for _ in range(3)] == [None] * 3
    assert questions(slurm) == 0

    await starts._cluster.queue(0)
    assert [await looked(starts, slurm, "one GPU", made) for _ in range(2)][-1] is not None


async def test_people_whose_questions_hang_keep_the_places_for_a_moment_only(
    slurm: FakeSlurm, starts: AskedStarts, made: Submission, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = asyncio.Event()

    async def call(person: str, _request: object) -> dict[str, object]:
        if person.startswith("hostile"):
            await goes_on.wait()
        return {"ok": True, "message": ANSWER}

    monkeypatch.setattr(starts._cluster.launcher, "call", call)
    monkeypatch.setattr(asked_starts, "PATIENCE_S", 0.01)
    for _ in range(2):
        for number in range(asked_starts.AT_ONCE):
            starts.of(f"hostile-{number}", "one GPU", lambda: made)
        slurm.advance(STAYS_S)
    said = None
    async with asyncio.timeout(5):
        while said is None:
            said = starts.of("alice", "one GPU", lambda: made)
            slurm.advance(STAYS_S)
            await asyncio.sleep(0.01)

    assert starts._under_way == asked_starts.AT_ONCE
    goes_on.set()
    await settled(starts)
    assert (starts._under_way, starts._places) == (0, 0)


async def test_only_so_many_people_are_remembered(
    slurm: FakeSlurm, starts: AskedStarts, made: Submission, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asked_starts, "PEOPLE_KEPT", 3)
    for number in range(10):
        starts.of(f"person-{number}", "one GPU", lambda: made)

    assert len(starts._people) == 3


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[ServedHub]:
    async with served_hub(tmp_path) as hub:
        yield hub


def test_a_start_of_this_minute_is_now() -> None:
    now = datetime(2026, 11, 25, 14, tzinfo=UTC)

    assert words.of_slurm(now + timedelta(seconds=59), now) == (" Slurm itself says: now.",)
    assert words.of_slurm(now - timedelta(hours=1), now) == (" Slurm itself says: now.",)
    assert words.of_slurm(now + timedelta(hours=1), now)[1] == now + timedelta(hours=1)


async def test_an_open_page_says_which_of_the_two_it_is(served: ServedHub) -> None:
    served.slurm.would_wait = datetime.now() - served.slurm.now + timedelta(hours=3)  # the page has the time of day
    browser = await served.browser("alice")
    asked = {"partition": "sxm2", "gpus": "2", "hours": "2"}
    address = "/hub/api/dsportal/outlook/alice"

    for _ in range(3):
        told = (await browser.get(address, params=asked, headers=OF_PAGE)).json()
        await settled(served.hub.context.asked_starts)
        served.slurm.advance(STAYS_S)
    other = (await browser.get(address, params={**asked, "gpus": "1"}, headers=OF_PAGE)).json()

    said = told["choice"]["words"]
    assert said[0] == "2 GPUs for 2 h in sxm2: "
    assert said[-3:] == [" Slurm itself says: ", {"at": told["choice"]["slurm_at"]}, "."]
    assert other["choice"]["slurm_at"] is None
    assert "Slurm itself" not in str(other["choice"]["words"])
