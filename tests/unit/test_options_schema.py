"""The options of a session are declared once: schema, check, form and reference say the same."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from portal.errors import RequestError
from portal.options import profiles
from portal.options.declared import Shape
from portal.options.schema import schema
from portal.request import CHOICES, OPTIONS, USUAL, checked, fields_of
from portal.settings.profile_tables import FixedTable
from portal.settings.session_tables import PartitionTable, RuleTable
from portal.site import Identity, Site, parse
from tests.unit.served_hub import ServedHub, served_hub

ROOT = Path(__file__).parents[2]
NUMBERS = [name for name, option in OPTIONS.items() if option.shape is Shape.NUMBER]
STAFF = Identity("carol", frozenset({"staff"}))
SITES = {
    "plain": [{"name": "gpu"}],
    "cpu": [{"name": "cpu", "gpus_max": 0, "hours_max": 2, "cores_max": 16, "memory_gb_max": 64}],
    "rich": [
        {
            "name": "gpu",
            "gpu": ["v100", "a100"],
            "hours_max": 12,
            "account": ["ai", "ml"],
            "qos": ["normal", "long"],
            "reservation": ["", "class"],
            "constraint": ["nvlink", "pcie"],
            "licenses": ["", "matlab:1"],
            "mail_type": ["", "BEGIN,END", "FAIL"],
            "cores_max": 16,
            "memory_gb_max": 64,
        },
        {"name": "long", "gpus_max": 0, "account": "all", "cores_max": 8},
        {"name": "one", "gpu": "a100", "gpus_max": 3},
        {"name": "staff", "groups": ["staff"], "qos": ["vip"]},
    ],
    "none": [{"name": "closed", "groups": ["nobody"]}],
}


PROFILES = [
    {"name": "small", "title": "Small", "fixed": {"partition": "gpu", "gpus": 1, "gpu": "a100", "account": "ml"}},
    {"name": "cpu", "title": "Much memory", "fixed": {"gpus": 0, "memory_gb": 64}},
    {"name": "short", "title": "Short", "fixed": {"hours": 2, "reservation": "class"}},
    {"name": "free", "title": "All free"},
    {"name": "staff", "title": "Staff", "groups": ["staff"], "fixed": {"partition": "staff"}},
    {"name": "too-much", "title": "More than there is", "fixed": {"gpus": 9}},
]


def site_of(tables: dict[str, Any], name: str) -> Site:
    tables["gpu"] = [
        {"name": "v100", "title": "V100", "gres": "gpu:v100"},
        {"name": "a100", "title": "A100", "gres": "gpu:a100", "gpus_max": 2},
    ]
    tables["partition"] = SITES[name.removesuffix("-profiles")]
    tables["profile"] = PROFILES if name.endswith("-profiles") else []
    return parse(tables)


def possible(site: Site) -> dict[str, list[object]]:
    """For each option what is near its limits, what another partition has, and what is nonsense."""
    names = [name for partition in site.partitions for key in CHOICES for name in partition.offers(key)]
    texts = [
        *names,
        *(p.name for p in site.partitions),
        "v100",
        "a100",
        "small",
        "cpu",
        "short",
        "free",
        "staff",
        "too-much",
        USUAL,
        "",
        "h100",
        "x\n",
        "$(id)",
    ]
    others = [None, True, [1], {"a": 1}, 1.5, 2.0, float("nan")]
    numbers = [-1, 0, 1, 2, 3, 4, 5, 8, 9, 12, 13, 16, 17, 24, 25, 64, 65, 10**12, "2", "-0", "007", "9" * 10, ""]
    return {name: [*(numbers if name in NUMBERS else texts), *others] for name in OPTIONS} | {"cmd": ["id", 1]}


def as_json(given: dict[str, object], known: tuple[str, ...]) -> dict[str, object]:
    """What was given, as a program says it: no empty text for what was not chosen, and numbers as numbers."""
    said = {}
    for name, value in given.items():
        if value == "" and name in known and (OPTIONS[name].usual or OPTIONS[name].default == ""):
            continue
        is_number = name in NUMBERS and isinstance(value, str) and value.lstrip("-").isdigit() and len(value) < 10
        said[name] = int(str(value)) if is_number else value
    return said


def is_let_through(given: dict[str, object], site: Site, person: Identity) -> bool:
    try:
        checked(given, site, person)
    except RequestError:
        return False
    return True


def near(told: dict[str, Any], name: str, draw: random.Random) -> object:
    """A value that an option may have in some partition."""
    one = told.get("properties", {}).get(name, {"enum": [""]})
    return draw.choice(one["enum"]) if "enum" in one else draw.randint(one["minimum"], one["maximum"])


@pytest.mark.parametrize("person", [Identity("alice"), STAFF], ids=lambda person: person.name)
@pytest.mark.parametrize("name", [*SITES, "rich-profiles"])
def test_the_schema_allows_what_the_check_lets_through_and_nothing_else(
    tables: dict[str, Any], name: str, person: Identity
) -> None:
    site = site_of(tables, name)
    told: dict[str, Any] = schema(site, person)
    Draft202012Validator.check_schema(told)
    validator = Draft202012Validator(told)
    values, known = possible(site), fields_of(site, person)
    draw = random.Random(f"{name} {person.name}")  # noqa: S311
    passed = 0
    asked: list[dict[str, object]] = [{option: value} for option in values for value in values[option]]
    for _ in range(800):
        keys = draw.sample(list(told.get("properties", values)), min(3, draw.randrange(5)))
        likely = {key: near(told, key, draw) if draw.random() < 0.8 else draw.choice(values[key]) for key in keys}
        if "profile" in told.get("properties", {}) and draw.random() < 0.7:
            likely["profile"] = near(told, "profile", draw)
        asked.append(likely | ({"gpus": 0} if draw.random() < 0.3 else {}))
    for given in asked:
        is_good = is_let_through(given, site, person)
        passed += is_good
        assert validator.is_valid(as_json(given, known)) == is_good, given

    assert passed > 50 or name == "none"
    assert passed < len(asked) - 100


@pytest.mark.parametrize("name", ["plain", "rich"])
def test_what_is_left_out_becomes_the_default_of_the_schema(tables: dict[str, Any], name: str) -> None:
    site = site_of(tables, name)
    told: Any = schema(site, STAFF)["properties"]
    usual = checked({}, site, STAFF)

    assert {key: one["default"] for key, one in told.items() if key in ("partition", "gpus", "hours")} == {
        "partition": usual.partition,
        "gpus": usual.gpus,
        "hours": usual.hours,
    }
    assert checked({key: one["default"] for key, one in told.items()}, site, STAFF) == usual


def test_the_schema_has_the_fields_of_the_form_with_the_same_labels(tables: dict[str, Any]) -> None:
    site = site_of(tables, "rich")
    told: Any = schema(site, STAFF)

    assert tuple(told["properties"]) == fields_of(site, STAFF) == tuple(name for name in OPTIONS if name != "profile")
    assert [one["title"] for one in told["properties"].values()] == [OPTIONS[name].label for name in told["properties"]]
    assert told["properties"]["partition"]["enum"] == ["gpu", "long", "one", "staff", USUAL]
    assert "staff" not in json.dumps(schema(site, Identity("alice")))


def test_what_a_profile_may_fix_are_the_declared_options() -> None:
    assert tuple(FixedTable.model_fields) == tuple(name for name in OPTIONS if name != "profile")
    assert profiles.LISTED == CHOICES


def test_what_a_site_lists_has_a_key_of_each_declared_name() -> None:
    for table in (PartitionTable, RuleTable):
        assert set(CHOICES) <= set(table.model_fields)


def test_the_reference_has_the_declared_options_in_their_words() -> None:
    text = (ROOT / "docs/reference/http.md").read_text()
    section = text.partition("### The options of a session\n")[2].partition("\n### ")[0]

    assert [line for line in section.splitlines() if line.startswith("| `")] == [
        f"| `{name}` | {'whole number' if name in NUMBERS else 'text'} | {option.meaning} |"
        for name, option in OPTIONS.items()
    ]


# -- the address ------------------------------------------------------------------------------------------


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[ServedHub]:
    async with served_hub(tmp_path) as hub:
        yield hub


async def test_a_login_or_a_token_reads_the_schema_of_its_own_person(served: ServedHub) -> None:
    browser = await served.browser("alice")
    stranger = await served.browser("bob")
    address = "/hub/api/dsportal/options/alice"

    told = await browser.get(address)
    by_token = await (await served.browser()).get(address, headers={"Authorization": f"token {served.token('alice')}"})

    assert told.status_code == 200
    assert told.headers["Content-Type"] == "application/schema+json"
    assert told.json()["properties"]["partition"]["enum"] == ["sxm2", USUAL]
    assert by_token.json() == told.json()
    assert (await stranger.get(address)).status_code == 404
    assert (await (await served.browser()).get(address)).status_code == 403
