"""The instance options as a page shows them, and as a page sends them back."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest

from portal.errors import RequestError
from portal.request import SessionRequest, checked
from portal.site import Identity, Site, parse
from spawners import form, options

BOB = Identity("bob", frozenset({"jupyter", "hipri"}))


class Page(HTMLParser):
    """The tags and the words of a form."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words = " ".join([*self.words.split(), *data.split()])

    def fields(self, name: str) -> list[dict[str, str | None]]:
        return [attrs for tag, attrs in self.tags if tag == "input" and attrs.get("name") == name]

    def chosen(self, name: str) -> str | None:
        return next(field["value"] for field in self.fields(name) if "checked" in field)

    def sent(self) -> dict[str, list[str]]:
        """What a browser sends when the person changes nothing."""
        hours = self.fields("hours")[0]["value"]
        return {"gpus": [self.chosen("gpus")], "hours": [hours], "partition": [self.chosen("partition")]}  # type: ignore[list-item]


def show(site: Site, person: Identity, *args: Any) -> Page:
    return Page(form.render(site, person, *args))


def test_beside_each_number_of_gpus_stand_the_cores_and_memory_that_come_with_it(site: Site, alice: Identity) -> None:
    page = show(site, alice)

    assert [field["value"] for field in page.fields("gpus")] == ["0", "1", "2", "3", "4"]
    assert "0 GPUs 2 cores 8 GB" in page.words
    assert "1 GPU 8 cores 48 GB" in page.words
    assert "4 GPUs 32 cores 192 GB" in page.words


def test_only_the_partitions_open_to_this_person_are_offered_each_with_its_limits(site: Site, alice: Identity) -> None:
    assert [field["value"] for field in show(site, alice).fields("partition")] == ["sxm2"]
    bob = show(site, BOB)
    assert [field["value"] for field in bob.fields("partition")] == ["sxm2", "hipri"]
    assert "sxm2 Four V100 with NVLink · NVIDIA V100-SXM2 up to 24 h, 4 GPUs" in bob.words
    assert "hipri up to 12 h, 4 GPUs" in bob.words


def test_an_untouched_form_asks_for_the_sites_defaults(site: Site, alice: Identity) -> None:
    asked = options.from_form(show(site, alice).sent())

    assert checked(asked, site, alice) == checked({}, site, alice) == SessionRequest("sxm2", 1, 8)


def test_the_last_choices_are_chosen_again(site: Site) -> None:
    last = SessionRequest("hipri", 3, 5)

    assert checked(options.from_form(show(site, BOB, last).sent()), site, BOB) == last


def test_last_choices_that_are_no_longer_offered_fall_back_one_by_one(site: Site, alice: Identity) -> None:
    page = show(site, alice, SessionRequest("hipri", 99, 1000))

    assert checked(options.from_form(page.sent()), site, alice) == SessionRequest("sxm2", 4, 8)


def test_a_partition_without_gpus_and_with_short_sessions_has_a_form_that_can_be_sent(
    tables: dict[str, Any],
) -> None:
    tables["partition"] = [{"name": "cpu", "gpus_max": 0, "hours_max": 2}]
    site, alice = parse(tables), Identity("alice")
    page = show(site, alice)

    assert "cpu up to 2 h, no GPU" in page.words
    assert checked(options.from_form(page.sent()), site, alice) == SessionRequest("cpu", 0, 2)


def test_who_may_use_no_partition_reads_whom_to_ask_and_gets_no_fields(tables: dict[str, Any]) -> None:
    tables["partition"] = [{"name": "iq", "groups": ["iq"]}]
    page = show(parse(tables), Identity("alice"))

    assert "No partition of Example cluster is open to you. Ask its administrator" in page.words
    assert not page.fields("gpus")


def test_a_refused_value_stands_in_its_field_with_what_is_allowed(site: Site, alice: Identity) -> None:
    error = RequestError("hours", "-1", "a whole number from 1 to 24")
    page = show(site, alice, None, error)
    hours = page.fields("hours")[0]

    assert hours["value"] == "-1"
    assert hours["aria-invalid"] == "true"
    assert (hours["aria-describedby"] or "").split() == ["hours-problem", "hours-hint"]
    assert "-1 is not possible here. Allowed: a whole number from 1 to 24." in page.words


@pytest.mark.parametrize("field", ["gpus", "partition"])
def test_a_refused_choice_is_said_at_its_group(site: Site, alice: Identity, field: str) -> None:
    page = show(site, alice, None, RequestError(field, "nonsense", "something else"))

    groups = [attrs for tag, attrs in page.tags if tag == "fieldset" and attrs.get("aria-invalid") == "true"]
    assert [(group["aria-describedby"] or "").split()[0] for group in groups] == [f"{field}-problem"]
    assert "nonsense is not possible here. Allowed: something else." in page.words


@pytest.mark.parametrize("text", ['"><script>alert(1)</script>', "'; DROP", "{{7*7}}", "a\nb", "x" * 5000])
def test_hostile_text_is_shown_as_text_and_never_in_full_length(site: Site, alice: Identity, text: str) -> None:
    html = form.render(site, alice, None, RequestError("hours", text, "<b>numbers</b>"))

    assert "<script" not in html
    assert "<b>" not in html
    assert "49" not in html
    assert len(html) < len(form.render(site, alice)) + 1000


def test_every_field_has_a_label_or_a_legend(site: Site) -> None:
    page = show(site, BOB)
    labelled = {attrs["for"] for tag, attrs in page.tags if tag == "label"}

    inputs = [attrs for tag, attrs in page.tags if tag == "input"]
    assert inputs
    assert {attrs["id"] for attrs in inputs} == labelled
    assert sum(tag == "legend" for tag, _ in page.tags) == sum(tag == "fieldset" for tag, _ in page.tags) == 2


def test_the_form_needs_no_script_and_loads_nothing(site: Site) -> None:
    page = show(site, BOB)

    assert not {tag for tag, _ in page.tags} & {"script", "style", "link", "img", "iframe"}
    handlers = [name for _, attrs in page.tags for name in attrs if name.startswith("on") or name == "style"]
    assert not handlers


def test_form_data_becomes_options_word_by_word() -> None:
    data = {"gpus": ["2"], "hours": ["8"], "partition": ["sxm2"], "_xsrf": ["secret"]}

    assert options.from_form(data) == {"gpus": "2", "hours": "8", "partition": "sxm2"}


@pytest.mark.parametrize("name", ["qos", "prologue", "gpus_file", "", "gpus[]", "Gpus"])
def test_an_unknown_field_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(RequestError, match="only the fields partition, gpus, hours") as refused:
        options.from_form({"gpus": ["1"], name: ["x"]})

    assert refused.value.given == name


@pytest.mark.parametrize("values", [["1", "4"], []])
def test_a_field_that_comes_twice_or_empty_handed_is_refused(values: list[str]) -> None:
    with pytest.raises(RequestError, match="one value") as refused:
        options.from_form({"gpus": values})

    assert refused.value.field == "gpus"


def test_what_can_be_read_of_a_refused_form_is_kept() -> None:
    data: dict[str, list[object]] = {
        "gpus": ["3"],
        "hours": ["many"],
        "partition": ["iq"],
        "qos": ["vip"],
        "x_file": [{"body": b""}],
    }

    assert options.entered(data) == SessionRequest("iq", 3, 0)
    assert options.entered({}) == SessionRequest()


@pytest.mark.parametrize("kept", [{}, {"gpus": [1]}, {"gpus": None, "hours": True}, {"partition": 7}, {"x": 1}])
def test_options_kept_from_an_older_portal_never_stop_the_form(
    site: Site, alice: Identity, kept: dict[str, object]
) -> None:
    page = show(site, alice, options.remembered(kept))

    assert checked(options.from_form(page.sent()), site, alice) == SessionRequest("sxm2", 1, 8)
