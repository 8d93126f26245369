"""What somebody's last sessions show of a choice: said only where it was measured, and never done by itself."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from sqlalchemy.exc import OperationalError

from portal.databases import ended_sessions as store
from portal.history.advice import LONG_ENOUGH_S, advice
from portal.history.cure import Offered
from portal.history.receipt import Receipt
from portal.history.record import EndedSession
from portal.request import SessionRequest, checked
from portal.site import Identity, Site, parse
from spawners.choosing import advised as above_form
from tests.unit.served_hub import served_hub

NOW = 1_795_195_200
ALICE = Identity("alice")
GIB = 1024
CHOOSES = {"cores_max": 16, "memory_gb_max": 64, "cores_without_gpu": 8, "memory_gb_without_gpu": 32}
ONE_GPU = Receipt(7200, 32, 4, 192 * GIB, 7200.0, 12 * GIB, 97, 9 * GIB)
IDLE = Receipt(7200, 8, 0, 32 * GIB, 720.0, 2 * GIB)


def site_with(**partition: Any) -> Site:
    return parse({"partition": [{"name": "sxm2", **partition}]})


def ended(receipt: Receipt | None, lasted_s: int = 7200, **options: Any) -> EndedSession:
    asked = {"partition": "sxm2", "gpus": 4, "hours": 8, **options}
    return EndedSession("k", NOW, options=asked, started_at=NOW - lasted_s, state="COMPLETED", receipt=receipt)


def told(
    records: Sequence[EndedSession],
    site: Site | None = None,
    request: SessionRequest = SessionRequest("sxm2", 4, 8),  # noqa: B008  a value
) -> list[str]:
    return [one.less for one in advice(request, records, Offered.of(site or site_with(), ALICE))]


def test_who_asked_for_4_gpus_three_times_and_used_one_reads_so() -> None:
    (found,) = advice(SessionRequest("sxm2", 4, 8), [ended(ONE_GPU)] * 3, Offered.of(site_with(), ALICE))

    assert found.fact == (
        "In your last 3 sessions with 4 GPUs, these were together at most 97 % busy (all of them are 400 %); "
        "1 GPU would have done. What they held in their own memory was at most 9.0 GB together."
    )
    assert (found.less, found.options) == ("1 GPU", {"partition": "sxm2", "gpus": 1, "hours": 8})


@pytest.mark.parametrize(
    ("records", "less"),
    [
        ([ended(ONE_GPU)] * 2, []),
        ([ended(ONE_GPU), ended(replace(ONE_GPU, gpu_busy_percent=101)), ended(ONE_GPU)], ["2 GPUs"]),
        ([ended(ONE_GPU), ended(replace(ONE_GPU, gpu_busy_percent=301)), ended(ONE_GPU)], []),
        ([ended(ONE_GPU)] * 3 + [ended(replace(ONE_GPU, gpu_busy_percent=400))], ["1 GPU"]),
        ([ended(None), *[ended(ONE_GPU)] * 3], []),
        ([ended(replace(ONE_GPU, gpu_busy_percent=None)), *[ended(ONE_GPU)] * 3], []),
        ([ended(replace(ONE_GPU, gpu_busy_percent=0))] * 3, []),
        ([ended(replace(ONE_GPU, memory_peak_mib=None))] * 3, []),
        ([ended(replace(ONE_GPU, cpu_s=None))] * 3, []),
        ([ended(replace(ONE_GPU, has_steps=True))] * 3, []),
        ([replace(ended(ONE_GPU), state="OUT_OF_MEMORY"), *[ended(ONE_GPU)] * 3], []),
        ([ended(replace(ONE_GPU, memory_peak_mib=60 * GIB))] * 3, ["2 GPUs"]),
        ([ended(replace(ONE_GPU, memory_peak_mib=140 * GIB))] * 3, []),
        ([ended(replace(ONE_GPU, cpu_s=7200.0 * 9))] * 3, ["3 GPUs"]),
        ([ended(None, LONG_ENOUGH_S - 1), *[ended(ONE_GPU)] * 3], ["1 GPU"]),
        ([replace(ended(None), started_at=0), *[ended(ONE_GPU)] * 3], ["1 GPU"]),
        ([ended(None, gpus=2), ended(None, gpus=0), *[ended(ONE_GPU)] * 3], ["1 GPU"]),
        ([ended(None, hours=1), *[ended(ONE_GPU)] * 3], []),
        ([ended(ONE_GPU, partition="other")] * 3, []),
        ([ended(ONE_GPU, unknown="x")] * 3, []),
    ],
)
def test_it_is_said_only_where_each_of_the_last_sessions_of_this_shape_was_measured(
    records: Sequence[EndedSession], less: list[str]
) -> None:
    assert told(records) == less


def test_what_gpus_held_is_said_to_be_unknown_where_it_is() -> None:
    without = ended(replace(ONE_GPU, gpu_memory_peak_mib=None))

    (found,) = advice(
        SessionRequest("sxm2", 4, 8), [ended(ONE_GPU), ended(ONE_GPU), without], Offered.of(site_with(), ALICE)
    )

    assert found.fact.endswith("What they held in their own memory was not measured.")


CPU = SessionRequest("sxm2", 0, 8)


@pytest.mark.parametrize(
    ("receipt", "partition", "less"),
    [
        (IDLE, CHOOSES, ["3 GB", "1 core"]),
        (IDLE, {}, []),
        (replace(IDLE, memory_peak_mib=None), CHOOSES, ["1 core"]),
        (replace(IDLE, cpu_s=None), CHOOSES, ["3 GB"]),
        (replace(IDLE, memory_peak_mib=11 * GIB, cpu_s=7200 * 1.9), CHOOSES, ["4 cores"]),
        (replace(IDLE, memory_peak_mib=10 * GIB, cpu_s=7200 * 2.1), CHOOSES, ["15 GB"]),
        (replace(IDLE, memory_peak_mib=30 * GIB, cpu_s=7200 * 8.0), CHOOSES, []),
    ],
)
def test_memory_and_cores_are_advised_where_they_may_be_chosen(
    receipt: Receipt, partition: dict[str, Any], less: list[str]
) -> None:
    site = site_with(**partition)
    records = [ended(receipt, gpus=0)] * 3

    assert told(records, site, CPU) == less
    for one in advice(CPU, records, Offered.of(site, ALICE)):
        assert checked(one.options, site, ALICE).as_options() == one.options, "the form takes it"


def test_a_choice_of_memory_that_was_made_is_another_shape_than_the_usual_one() -> None:
    site = site_with(**CHOOSES)

    assert told([ended(IDLE, gpus=0, memory_gb=48)] * 3, site, CPU) == []
    assert told([ended(IDLE, gpus=0, memory_gb=48)] * 3, site, replace(CPU, memory_gb=48)) == ["3 GB", "1 core"]


def test_what_a_profile_fixes_is_not_advised_otherwise() -> None:
    fixed = {"name": "big", "title": "Big", "fixed": {"gpus": 4, "partition": "sxm2"}}
    site = parse({"partition": [{"name": "sxm2"}], "profile": [fixed]})
    request = SessionRequest("sxm2", 4, 8, profile="big")

    assert told([ended(ONE_GPU, profile="big")] * 3, site, request) == []


def test_a_database_that_does_not_answer_leaves_the_form_without_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Mock(spec=logging.Logger)
    monkeypatch.setattr(above_form, "LOG", log)
    gone = Mock(side_effect=OperationalError("SELECT 1", {}, OSError("gone")))

    assert above_form.advised(gone, CPU, site_with(), ALICE, "") == ""
    log.error.assert_called_once()


async def test_the_form_says_it_above_its_fields_with_a_link_that_fills_it_in_and_starts_nothing(
    tmp_path: Path,
) -> None:
    now = int(time.time())
    async with served_hub(tmp_path) as served:
        browser = await served.browser("alice")
        for number in range(3):
            one = replace(ended(ONE_GPU), key=f"{number}", ended_at=now - number, started_at=now - 7200)
            store.keep(served.hub.db, 1, one.key, one.ended_at, one.to_text(), 30)

        of_link = "opt-partition=sxm2&opt-gpus=4&opt-hours=8&next=/user/alice/lab"
        page = (await browser.get(f"/hub/spawn/alice?{of_link}")).text
        none = (await browser.get("/hub/spawn/alice?opt-gpus=2")).text
        found = re.search(r'<a href="(\?[^"]+)">Fill in 1 GPU</a>', page)
        assert found
        filled = (await browser.get(f"/hub/spawn/alice{unescape(found[1])}")).text

    assert "From your last sessions" in page
    assert "at most 97 % busy" in page
    assert "From your last sessions" not in none
    assert re.search(r'id="gpus-1" value="1"[^>]*checked', filled)
    assert "next=%2Fuser%2Falice%2Flab" in found[1], "where the session opens is kept"
    assert served.slurm.jobs == {}
