"""What a person asks for: one check behind every door."""

from __future__ import annotations

import pytest

from portal.errors import RequestError
from portal.request import SessionRequest, checked
from portal.site import Identity, Site

HOSTILE = [
    '"; rm -rf',
    "sxm2\n#SBATCH --account=vip",
    "$(id)",
    "`id`",
    "--uid=0",
    "sxm2\0",
    "{{7*7}}",
    "\u2028",
    "x" * 10000,
]


def test_nothing_said_means_one_gpu_for_the_default_hours_in_the_default_partition(site: Site, alice: Identity) -> None:
    assert checked({}, site, alice) == SessionRequest("sxm2", 1, 8)


def test_numbers_may_come_as_text_and_zero_gpus_are_possible(site: Site, alice: Identity) -> None:
    asked = {"gpus": "0", "hours": "24", "partition": "sxm2"}

    assert checked(asked, site, alice) == SessionRequest("sxm2", 0, 24)
    assert checked(SessionRequest("sxm2", 2, 3).as_options(), site, alice) == SessionRequest("sxm2", 2, 3)


def test_the_default_hours_shrink_to_what_a_short_partition_allows(site: Site) -> None:
    short = site.model_copy(update={"partitions": (site.partitions[0].model_copy(update={"hours_max": 4}),)})

    assert checked({}, short, Identity("alice")).hours == 4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gpus": 5}, "gpus: 5 is not possible here. Allowed: a whole number from 0 to 4."),
        ({"gpus": -1}, "gpus: -1 is not possible here. Allowed: a whole number from 0 to 4."),
        ({"hours": -1}, "hours: -1 is not possible here. Allowed: a whole number from 1 to 24."),
        ({"hours": 0}, "hours: 0 is not possible here."),
        ({"hours": 25}, "hours: 25 is not possible here. Allowed: a whole number from 1 to 24."),
        ({"hours": [8]}, "hours: [8] is not possible here. Allowed: a whole number."),
        ({"hours": 8.5}, "hours: 8.5 is not possible"),
        ({"hours": None}, "hours: None is not possible"),
        ({"gpus": True}, "gpus: True is not possible"),
        ({"gpus": "2\n"}, "gpus: '2\\n' is not possible"),
        ({"gpus": "٣"}, "gpus: '٣' is not possible"),
        ({"gpus": "9" * 400}, "gpus: '999"),
        ({"partition": {"a": 1}}, "partition: {'a': 1} is not possible here."),
        ({"partition": "hipri"}, "partition: 'hipri' is not possible here. Allowed: one of sxm2."),
        ({"cmd": "id"}, "options: 'cmd' is not possible here. Allowed: only the keys partition, gpus, hours."),
    ],
)  # fmt: skip
def test_what_is_not_allowed_is_refused_with_field_value_and_range(
    site: Site, alice: Identity, options: dict[str, object], words: str
) -> None:
    with pytest.raises(RequestError) as raised:
        checked(options, site, alice)

    assert raised.value.message.startswith(words)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("field", ["partition", "gpus", "hours", "prologue"])
def test_hostile_text_is_refused_in_every_field_and_shown_short(
    site: Site, alice: Identity, field: str, text: str
) -> None:
    with pytest.raises(RequestError) as raised:
        checked({field: text}, site, alice)

    assert len(raised.value.message) < 250


def test_a_site_that_offers_nothing_says_so(site: Site, alice: Identity) -> None:
    with pytest.raises(RequestError, match="none \\(ask your administrator\\)"):
        checked({}, site.model_copy(update={"partitions": ()}), alice)
