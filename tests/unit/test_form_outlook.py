"""What the form says of now: free GPUs, when each choice would start, and the hours that it may have."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from traitlets.config import Config

from portal.forecasts import words
from portal.forecasts.form_outlook import FormOutlook, form_outlook
from portal.forecasts.picture import NOTHING
from portal.forecasts.shared_look import FRESH_S, SharedLook
from portal.forecasts.starts import StartState
from portal.hub.context import context_of
from portal.request import SessionRequest
from portal.site import Identity, Site, parse
from portal.slurm.cluster import Cluster
from portal.slurm.runner import Result
from portal.testing.behaviours import PendingForever
from portal.testing.cluster_parts import FakeReservation
from portal.testing.fake_slurm import FakeSlurm
from portal.testing.outages import ControllerDown
from spawners import form
from spawners.errors import StartRefused
from spawners.slurm import SlurmSessionSpawner
from tests.unit.test_form import Page
from tests.unit.test_session_environment import spawner_with

ROOT = Path(__file__).parents[2]
HOUR = timedelta(hours=1)
FULL = {"partition": "sxm2", "gres": "gpu:4", "cpus-per-task": "32", "mem": "196608M", "time": "120"}


@pytest.fixture(autouse=True)
def _templates_of_this_checkout(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The form of this checkout, whichever one is installed beside the Python that runs the tests."""
    monkeypatch.setattr(form, "folder", ROOT.joinpath)
    form._template.cache_clear()
    yield
    form._template.cache_clear()


@pytest.fixture
def slurm() -> FakeSlurm:
    """The demo's cluster."""
    return FakeSlurm()


def look_at(slurm: FakeSlurm) -> SharedLook:
    cluster = Cluster("/opt/portal-launch", run=slurm, clock=slurm.clock)
    return SharedLook(cluster, now=lambda: slurm.now.astimezone(), within_s=5)


async def told(
    slurm: FakeSlurm, site: Site, person: Identity, request: SessionRequest, settings: Site | None = None
) -> FormOutlook:
    """What somebody's form says."""
    look = look_at(slurm)
    offered = site.offered_to(person)
    picture = await look.picture()
    chosen = form.offered(request, site, offered)
    return form_outlook(site, settings or site, offered, chosen, picture, look.clock(), look.now())


def fill(slurm: FakeSlurm, nodes: int = 3) -> None:
    """Jobs with all GPUs of the first nodes; FakeSlurm itself starts each on the first node of its partition."""
    for name in slurm.partitions["sxm2"].nodes[:nodes]:
        job = slurm.take("bob", FULL)
        job.partition = replace(job.partition, nodes=(name,))


def shown(site: Site, person: Identity, outlook: FormOutlook) -> Page:
    return Page(form.render(site, person, saved=outlook.request, outlook=outlook))


async def test_the_form_shows_what_is_free_and_when_each_number_of_gpus_would_start(
    slurm: FakeSlurm, site: Site, alice: Identity
) -> None:
    fill(slurm, nodes=2)
    third = slurm.take("bob", FULL | {"gres": "gpu:2", "cpus-per-task": "16", "mem": "98304M"})
    third.partition = replace(third.partition, nodes=("gpu03",))
    outlook = await told(slurm, site, alice, SessionRequest("sxm2", 4, 8))
    page = shown(site, alice, outlook)

    assert "2 of 12 GPUs free" in page.words
    assert "0–2 GPUs starts now" in page.words
    assert "3–4 GPUs about" in page.words
    assert "As of 0 s ago." in page.words
    assert "An estimate from the picture of the queue" in page.words
    assert "4 GPUs for 8 h in sxm2: about" in page.words
    assert "2 GPUs in sxm2 would start now. Choose 2 GPUs" in page.words
    links = [attrs["href"] for tag, attrs in page.tags if tag == "a"]
    assert links == ["?opt-partition=sxm2&opt-gpus=2&opt-hours=8"]


async def test_a_smaller_number_is_told_only_where_the_choice_waits_and_fewer_would_not(
    slurm: FakeSlurm, site: Site, alice: Identity
) -> None:
    assert (await told(slurm, site, alice, SessionRequest("sxm2", 4, 8))).fewer == 0
    fill(slurm)
    full = await told(slurm, site, alice, SessionRequest("sxm2", 4, 8))

    assert full.chosen.state is StartState.AT
    assert full.fewer == 0  # a session without a GPU is none with fewer GPUs
    assert "hidden" in next(attrs for _, attrs in shown(site, alice, full).tags if attrs.get("id") == "outlook-fewer")


async def test_what_waits_already_is_ahead(slurm: FakeSlurm, site: Site, alice: Identity) -> None:
    slurm.next_job(PendingForever())
    slurm.take("bob", {"partition": "hipri", "time": "60"})  # on the same nodes
    outlook = await told(slurm, site, alice, SessionRequest("sxm2", 1, 8))

    assert words.start(outlook.chosen) == ("room now, 1 job ahead",)


async def test_a_kind_has_a_row_of_its_own_and_a_form_without_gpus_says_nothing_of_them(
    slurm: FakeSlurm, tables: dict[str, Any], alice: Identity
) -> None:
    tables["gpu"].append({"name": "a100", "title": "NVIDIA A100", "gres": "gpu:a100"})
    tables["gpu"].append({"name": "part", "title": "A part", "gres": "shard"})
    tables["partition"] = [
        {"name": "sxm2", "gpu": ["v100", "a100", "part"]},
        {"name": "iq", "gpus_max": 0},
        {"name": "gone"},
    ]
    outlook = await told(slurm, parse(tables), alice, SessionRequest("sxm2", 1, 4))
    page = shown(parse(tables), alice, outlook)

    assert (
        outlook.free_in("sxm2") == "NVIDIA V100-SXM2: 12 of 12 free · NVIDIA A100: 0 of 0 free · A part: free not known"
    )
    assert outlook.free_in("iq") == ""
    assert outlook.free_in("gone") == "free GPUs not known"
    states = {(row.partition, row.kind): [start.state.value for start in row.starts][:2] for row in outlook.rows}
    assert states[("sxm2", "a100")] == ["now", "never"]
    assert states[("sxm2", "part")] == ["now", "unknown"]
    assert states[("gone", "")] == ["unknown", "unknown"]
    assert "sxm2 NVIDIA A100" in page.words


@pytest.mark.parametrize(
    "more",
    [{"reservation": "class"}, {"constraint": "nvlink"}, {"licenses": "matlab:1"}, {"options": ["--nodelist=gpu01"]}],
)
async def test_where_nobody_knows_which_nodes_a_session_may_have_nothing_is_foretold(
    slurm: FakeSlurm, tables: dict[str, Any], alice: Identity, more: dict[str, Any]
) -> None:
    tables["partition"] = [{"name": "sxm2"} | more]
    assert (await told(slurm, parse(tables), alice, SessionRequest("sxm2", 1, 4))).chosen.state is StartState.UNKNOWN
    tables["partition"] = [{"name": "sxm2", "options": ["--mail-user=root"], "constraint": ["", "nvlink"]}]
    site = parse(tables)
    assert (await told(slurm, site, alice, SessionRequest("sxm2", 1, 4))).chosen.state is StartState.NOW
    chosen = SessionRequest("sxm2", 1, 4, constraint="nvlink")
    assert (await told(slurm, site, alice, chosen)).chosen.state is StartState.UNKNOWN


# -- hours ------------------------------------------------------------------------------------------------


def text(parts: Sequence[object]) -> str:
    return "".join("TIME" if isinstance(part, datetime) else str(part) for part in parts)


@pytest.mark.parametrize(
    ("partition", "groups", "expected"),
    [
        ({"name": "sxm2"}, (), "The limit of this portal: 24 h."),
        ({"name": "sxm2", "hours_max": 99}, (), "The limit of this portal: 24 h."),
        ({"name": "sxm2", "hours_max": 12}, (), "The limit of sxm2: 12 h."),
        (
            {"name": "sxm2", "hours_max": 12, "rule": [{"groups": ["class"], "hours_max": 2}]},
            ("class",),
            "Your limit in sxm2: 2 h.",
        ),
        ({"name": "iq", "hours_max": 12}, (), "The limit of iq: 12 h. Slurm itself takes at most 4 h in iq."),
    ],
)
async def test_hours_are_limited_and_it_is_said_what_limits_them(
    slurm: FakeSlurm, tables: dict[str, Any], partition: dict[str, Any], groups: tuple[str, ...], expected: str
) -> None:
    tables["partition"] = [partition]
    settings = parse(tables)
    person = Identity("alice", frozenset(groups))
    personal = settings.with_partitions(settings.offered_to(person))
    outlook = await told(slurm, personal, person, SessionRequest(), settings)

    assert text(outlook.limits[str(partition["name"])].words) == expected
    assert expected in shown(personal, person, outlook).words


@pytest.mark.parametrize(
    ("begins_h", "nodes", "wise", "expected"),
    [
        (6, 3, 5, "To start before the maintenance that begins TIME, at most 5 h in sxm2; a longer session waits"),
        (6, 2, 24, "The limit of sxm2: 24 h."),  # the third node stays open
        (30, 3, 24, "The limit of sxm2: 24 h."),
        (0.5, 3, 0, "In sxm2 no session can end before the maintenance that begins TIME."),
        (-1, 3, 0, "A maintenance closes sxm2 until TIME: sessions wait for its end."),
    ],
)
async def test_the_next_maintenance_limits_the_hours_of_a_session_that_shall_start_now(
    slurm: FakeSlurm, site: Site, alice: Identity, begins_h: float, nodes: int, wise: int, expected: str
) -> None:
    begins = slurm.now + begins_h * HOUR
    names = slurm.partitions["sxm2"].nodes[:nodes]
    slurm.reservations.append(FakeReservation("upgrade", begins, begins + 3 * HOUR, names))
    outlook = await told(slurm, site, alice, SessionRequest("sxm2", 1, 8))
    limit = outlook.limits["sxm2"]

    assert (limit.most, limit.wise) == (24, wise)
    assert expected in text(limit.words)
    if wise == 5:
        assert (await told(slurm, site, alice, SessionRequest("sxm2", 1, wise))).chosen.state is StartState.NOW
        assert outlook.chosen.state is StartState.AFTER


# -- Slurm that is silent, old pictures -------------------------------------------------------------------


async def test_what_slurm_does_not_answer_is_not_known_and_its_age_is_told(
    slurm: FakeSlurm, site: Site, alice: Identity
) -> None:
    look = look_at(slurm)
    offered = site.offered_to(alice)
    request = SessionRequest("sxm2", 1, 8)

    async def now() -> FormOutlook:
        return form_outlook(site, site, offered, request, await look.picture(), look.clock(), look.now())

    assert (await now()).chosen.state is StartState.NOW
    slurm.begin(ControllerDown())
    slurm.advance(60)
    silent = await now()

    assert silent.as_of == "Slurm does not answer; its last answer was 60 s ago."
    assert (silent.chosen.state, silent.free_in("sxm2"), silent.fewer) == (
        StartState.UNKNOWN,
        "free GPUs not known",
        0,
    )
    assert "not known" in shown(site, alice, silent).words
    nothing = form_outlook(site, site, offered, request, NOTHING, 5, datetime.now(UTC))
    assert (nothing.as_of, nothing.age_s) == ("Slurm has not answered yet.", None)
    assert text(nothing.limits["sxm2"].words) == "The limit of sxm2: 24 h."


class HangingSlurm(FakeSlurm):
    """A cluster whose commands do not come back."""

    async def __call__(
        self, argv: Sequence[str], stdin: str = "", env: Mapping[str, str] | None = None, timeout_s: float = 10
    ) -> Result:
        """Nothing, for ever."""
        self.asked.append(tuple(argv))
        await asyncio.Event().wait()
        raise AssertionError


async def test_nobody_waits_for_a_slurm_that_hangs() -> None:
    slurm = HangingSlurm()
    look = SharedLook(Cluster("/opt/portal-launch", run=slurm, clock=slurm.clock))

    async with asyncio.timeout(30):
        pictures = await asyncio.gather(*(look.picture() for _ in range(200)))

    assert set(map(id, pictures)) == {id(NOTHING)}
    assert len(slurm.asked) <= 4


async def test_all_forms_share_one_look(slurm: FakeSlurm) -> None:
    look = look_at(slurm)
    slurm.take("bob", FULL)
    for _ in range(3):
        await asyncio.gather(*(look.picture() for _ in range(300)))
    asked = len(slurm.asked)
    slurm.advance(FRESH_S + 6)
    await asyncio.gather(*(look.picture() for _ in range(300)))  # the last picture, while the next one is made
    assert look._making
    await look._making

    assert asked == 4  # queue, nodes, partitions, reservations
    assert len(slurm.asked) == 5  # the queue alone: nodes are fresh for longer


async def test_a_fault_of_ours_keeps_nobody_from_the_form(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("portal.forecasts.shared_look.picture", lambda *_: 1 / 0)

    assert await look_at(slurm).picture() is NOTHING
    assert "could not be made" in caplog.text


# -- the offer of one person ------------------------------------------------------------------------------


@pytest.fixture
def spawner() -> Iterator[SlurmSessionSpawner]:
    """Alice's spawner, as JupyterHub makes it."""
    for one in spawner_with(Config()):
        one.user.settings["dsportal"].look._within_s = 5
        yield one


def slurm_of(spawner: SlurmSessionSpawner) -> FakeSlurm:
    run: Any = context_of(spawner.user.settings).slurm._run
    look = context_of(spawner.user.settings).look
    look.now = lambda: run.now.astimezone()
    return run  # type: ignore[no-any-return]


async def test_the_last_choice_is_chosen_again_and_the_form_shows_now(spawner: SlurmSessionSpawner) -> None:
    slurm_of(spawner)
    spawner.orm_spawner.user_options = {"partition": "sxm2", "gpus": 3, "hours": 6}
    page = Page(await spawner.get_options_form())

    assert (page.chosen("gpus"), page.fields("hours")[0]["value"]) == ("3", "6")
    assert "3 GPUs for 6 h in sxm2: starts now." in page.words
    assert "12 of 12 GPUs free" in page.words


async def test_hours_that_nobody_has_just_typed_end_before_a_maintenance(spawner: SlurmSessionSpawner) -> None:
    slurm = slurm_of(spawner)
    begins = slurm.now + 4 * HOUR
    slurm.reservations.append(FakeReservation("up", begins, begins + HOUR, slurm.partitions["sxm2"].nodes))
    page = Page(await spawner.get_options_form())
    with pytest.raises(StartRefused):
        await spawner.options_from_query({"hours": ["8"]})
    of_link = Page(await spawner.get_options_form())

    assert page.fields("hours")[0]["value"] == "3"
    assert "1 GPU for 3 h in sxm2: starts now." in page.words
    assert of_link.fields("hours")[0]["value"] == "8"
    assert "1 GPU for 8 h in sxm2: not before the maintenance ends" in of_link.words


async def test_a_link_to_fewer_gpus_keeps_where_the_session_opens(spawner: SlurmSessionSpawner) -> None:
    fill(slurm_of(spawner), nodes=2)
    slurm_of(spawner).take("bob", {"partition": "sxm2", "gres": "gpu:1", "time": "60"}).partition = replace(
        slurm_of(spawner).partitions["sxm2"], nodes=("gpu03",)
    )
    place = "/user/alice/lab/tree/a&b.ipynb"
    spawner.handler = SimpleNamespace(_finished=False, get_query_argument=lambda name, default: place)
    spawner.orm_spawner.user_options = {"partition": "sxm2", "gpus": 4, "hours": 2}
    page = Page(await spawner.get_options_form())

    (link,) = [attrs["href"] for tag, attrs in page.tags if tag == "a"]
    assert link == "?opt-partition=sxm2&opt-gpus=3&opt-hours=2&next=%2Fuser%2Falice%2Flab%2Ftree%2Fa%26b.ipynb"


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", '"><img src=x>', "{{7*7}}", "a\nb", "x" * 5000, "-1"])
async def test_hostile_choices_of_an_outlook_fall_back_to_what_is_offered(
    spawner: SlurmSessionSpawner, text: str
) -> None:
    slurm_of(spawner)
    given = dict.fromkeys(("partition", "gpus", "hours", "gpu", "account", "qos", "constraint", "nonsense"), text)
    outlook = await spawner.offer.outlook(given)

    assert outlook.request.partition == "sxm2"
    assert text not in str(outlook.as_json()["choice"]) or text == "-1"
    assert outlook.chosen.state is StartState.NOW


async def test_a_name_of_the_settings_is_shown_as_text(
    slurm: FakeSlurm, tables: dict[str, Any], alice: Identity
) -> None:
    tables["gpu"] = [{"name": "v100", "title": "<b>V100</b>"}, {"name": "a100", "title": "</span><script>"}]
    tables["partition"] = [{"name": "sxm2", "gpu": ["v100", "a100"]}]
    site = parse(tables)
    html = form.render(site, alice, outlook=await told(slurm, site, alice, SessionRequest()))

    assert "<b>" not in html
    assert "<script" not in html


async def test_a_dead_slurm_slows_the_form_of_one_person_and_no_other(spawner: SlurmSessionSpawner) -> None:
    context = context_of(spawner.user.settings)
    context.slurm._run = HangingSlurm()
    context.look._within_s = 0.08
    async with asyncio.timeout(30):
        await spawner.get_options_form()
        page = Page(await spawner.get_options_form())

    assert "Slurm has not answered yet." in page.words
    assert checked_fields(page) == {"gpus", "hours", "partition"}


def checked_fields(page: Page) -> set[str]:
    return {str(attrs["name"]) for tag, attrs in page.tags if tag == "input"}
