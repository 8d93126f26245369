"""The instance options as a page shows them, and as a page sends them back."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest

from portal.errors import RequestError
from portal.request import OPTIONS, SessionRequest, checked
from portal.site import Identity, Site, parse
from portal.slurm.submission import submission
from spawners import form, options
from spawners.choosing import profile_cards

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


@pytest.mark.parametrize("name", ["prolog", "prologue", "gpus_file", "", "gpus[]", "Gpus"])
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
        "prolog": ["vip"],
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


# -- fields that only some sites have ---------------------------------------------------------------------

EVERYTHING = {
    "name": "gpu",
    "gpu": ["v100", "a100"],
    "account": ["ai", "ml"],
    "qos": ["normal", "long"],
    "reservation": ["", "class"],
    "constraint": ["nvlink", "pcie"],
    "licenses": ["", "matlab:1"],
    "mail_type": ["", "BEGIN,END"],
    "cores_max": 16,
    "memory_gb_max": 64,
}


@pytest.fixture
def rich(tables: dict[str, Any]) -> Site:
    """A site with every field, in one of its two partitions."""
    tables["gpu"].append({"name": "a100", "title": "NVIDIA A100", "gres": "gpu:a100", "cores_per_gpu": 16})
    tables["partition"] = [EVERYTHING, {"name": "long", "account": "all"}]
    return parse(tables)


def selected(page: Page, name: str) -> str | None:
    """The value of a list of choices that is sent unless somebody changes it."""
    inside = False
    for tag, attrs in page.tags:
        if tag == "select":
            inside = attrs.get("name") == name
        if tag == "option" and inside and "selected" in attrs:
            return attrs["value"]
    return None


def test_a_field_is_there_only_where_there_is_a_choice(site: Site, rich: Site, alice: Identity) -> None:
    names = {attrs.get("name") for tag, attrs in show(site, alice).tags if tag in ("input", "select")}
    rich_names = {attrs.get("name") for tag, attrs in show(rich, alice).tags if tag in ("input", "select")}

    assert names == {"gpus", "hours", "partition"}
    assert rich_names == set(OPTIONS) - {"profile"}


def test_an_untouched_form_with_every_field_can_be_sent_and_changes_nothing(rich: Site, alice: Identity) -> None:
    page = show(rich, alice)
    lists = {
        str(attrs["name"]): [selected(page, str(attrs["name"])) or ""] for tag, attrs in page.tags if tag == "select"
    }
    sent = page.sent() | lists | {"cores": [""], "memory_gb": [""]}

    assert set(lists) == {"gpu", "account", "qos", "reservation", "constraint", "licenses", "mail_type"}
    assert checked(options.from_form(sent), rich, alice) == checked({}, rich, alice)
    assert checked(options.from_form(sent | {"partition": ["long"]}), rich, alice).partition == "long"


def test_choices_are_kept_and_shown_again(rich: Site, alice: Identity) -> None:
    asked = {"partition": "gpu", "gpus": "0", "hours": "2", "account": "ml", "reservation": "class", "cores": "12"}
    chosen = checked(asked, rich, alice)
    page = show(rich, alice, options.remembered(chosen.as_options()))

    assert (selected(page, "account"), selected(page, "reservation"), selected(page, "qos")) == ("ml", "class", "-")
    assert page.fields("cores")[0]["value"] == "12"
    assert chosen.as_options() == {
        "partition": "gpu",
        "gpus": 0,
        "hours": 2,
        "cores": 12,
        "account": "ml",
        "reservation": "class",
    }


def test_where_partitions_or_kinds_are_not_alike_each_says_what_comes_with_a_gpu(rich: Site, alice: Identity) -> None:
    page = show(rich, alice)

    assert "NVIDIA V100-SXM2: 8 cores and 48 GB each; NVIDIA A100: 16 cores and 48 GB each" in page.words
    assert "4 GPUs 32 cores" not in page.words
    assert "ai (in gpu)" in page.words


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"account": "root"}, "account: 'root' is not possible here. Allowed: one of ai, ml."),
        ({"partition": "long", "account": "ai"}, "Allowed: one of all."),
        ({"partition": "long", "qos": "long"}, "Allowed: nothing: long has no choice of it."),
        ({"reservation": "other"}, "Allowed: one of none, class."),
        ({"gpu": "h100"}, "gpu: 'h100' is not possible here. Allowed: one of v100, a100."),
        ({"gpus": 0, "cores": 17}, "cores: 17 is not possible here. Allowed: a whole number from 1 to 16."),
        ({"gpus": 1, "cores": 4}, "Allowed: nothing: they come with the GPUs."),
        ({"gpus": 0, "memory_gb": -1}, "Allowed: a whole number from 1 to 64."),
        ({"partition": "long", "gpus": 0, "cores": 4}, "Allowed: nothing: they are fixed in long."),
        ({"account": ["ai"]}, "Allowed: a name, as text."),
        ({"qos": "normal\n--wrap=id"}, "Allowed: one of normal, long."),
        (
            {"comment": "x"},
            "options: 'comment' is not possible here. Allowed: only the keys partition, gpus, hours, gpu",
        ),
    ],
)
def test_what_is_not_offered_is_refused_behind_every_door(
    rich: Site, alice: Identity, asked: dict[str, object], words: str
) -> None:
    with pytest.raises(RequestError) as refused:
        checked(asked, rich, alice)

    assert words in refused.value.message


def test_a_site_without_choices_knows_no_such_key(site: Site, alice: Identity) -> None:
    for key in ("account", "qos", "gpu", "cores"):
        with pytest.raises(RequestError, match=r"only the keys partition, gpus, hours\."):
            checked({key: "1"}, site, alice)


def test_an_e_mail_is_offered_in_words_and_becomes_one_argument(rich: Site, alice: Identity) -> None:
    page = show(rich, alice)
    request = checked({"partition": "gpu", "mail_type": "BEGIN,END"}, rich, alice)

    assert "no e-mail (in gpu) when it starts, when it ends (in gpu)" in page.words
    assert "--mail-type=BEGIN,END" in submission(request, rich, "a" * 16, {}).options
    assert not [one for one in submission(checked({}, rich, alice), rich, "a" * 16, {}).options if "mail" in one]
    assert profile_cards.words(rich, {"mail_type": "TIME_LIMIT_90"}) == "E-mail: when 90 % of its time are over"


def test_the_form_says_whom_slurm_writes_to(rich: Site, alice: Identity) -> None:
    assert rich.ldap
    of_directory = rich.ldap.model_copy(update={"mail_attribute": "mail"})
    told = [show(site, alice).words for site in (rich, rich.model_copy(update={"ldap": of_directory}))]

    assert ["Slurm writes to your account." in words for words in told] == [True, False]
    assert ["Slurm writes to your address in the directory." in words for words in told] == [False, True]


def test_what_is_chosen_no_longer_falls_back(rich: Site, alice: Identity) -> None:
    old = SessionRequest("gpu", 0, 2, gpu="h100", cores=99, account="gone", reservation="gone")
    page = show(rich, alice, old)

    assert (selected(page, "account"), selected(page, "gpu"), page.fields("cores")[0]["value"]) == ("-", "-", "")


def test_a_list_of_which_one_is_left_is_no_field_and_may_be_named_all_the_same(
    tables: dict[str, Any], alice: Identity
) -> None:
    tables["partition"] = [{"name": "gpu", "account": ["ai"]}]
    site = parse(tables)

    assert selected(show(site, alice), "account") is None
    assert checked({"account": "ai"}, site, alice).chosen("account", site.partitions[0]) == "ai"
