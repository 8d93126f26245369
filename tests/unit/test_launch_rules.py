"""portal-launch goes by root's own settings file: every option of sbatch is one that it says."""

from __future__ import annotations

import json
import os
import random
import string
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from portal import launch_rules, launcher
from portal.doctor import launch_checks
from portal.errors import PortalError
from portal.request import CHOICES, SessionRequest, checked
from portal.settings.session_tables import SessionTable
from portal.site import Identity, Site, parse
from portal.slurm.submission import submission

KEY = "0123456789abcdef"
SETTINGS = """
[cluster]
slurm_path = "/opt/slurm/bin"
slurm_conf = "/etc/slurm/other.conf"

[session]
hours_max = 48

[[gpu]]
name = "v100"
title = "V100"
gres = "gpu:v100"

[[gpu]]
name = "slice"
title = "A seventh of an A100"
gres = "gpu:a100_1g.5gb"
gpus_max = 1
cores_per_gpu = 3
memory_gb_per_gpu = 12

[[gpu]]
name = "shared"
title = "A shared GPU"
gres = "shard"

[[partition]]
name = "gpu"
gpu = ["v100", "slice"]
hours_max = 24
account = ["ai", "*"]
qos = ["normal", "long"]
reservation = ["", "class"]
constraint = "nvlink&a100"
licenses = "matlab:1"
mail_type = "FAIL"
comment = "portal, $(id) `id`"
exclusive = "user"
options = ["--switches=1@10:00", "--nice=100"]

[[partition.rule]]
people = ["carol"]
qos = ["vip"]
hours_max = 48

[[partition.rule]]
groups = ["staff"]
account = "staff"

[[partition]]
name = "cpu"
gpus_max = 0
cores_without_gpu = 4
memory_gb_without_gpu = 16
cores_max = 16
memory_gb_max = 64

[[partition]]
name = "whole"
gpu = "v100"
exclusive = "node"

[[partition]]
name = "shards"
gpu = "shared"
"""
CAROL = Identity("carol", frozenset())
STAFF = Identity("dave", frozenset({"staff"}))
ALICE = Identity("alice")
ENDS = ("\n", " ", ";id", ",b", "\0", "0", ":1", "=x")


@pytest.fixture
def tables() -> launch_rules.Tables:
    return tomllib.loads(SETTINGS)


@pytest.fixture
def site(tables: launch_rules.Tables) -> Site:
    return parse(tables)


def fault(options: Sequence[str], tables: launch_rules.Tables | None, person: str = "alice") -> str:
    """What the launcher says of options that it is sent; ``""`` when it takes them."""
    request = {"verb": "submit", "key": KEY, "options": list(options), "environment": {}}
    try:
        launcher.parse_request(request, launch_rules.own_options(tables))
    except launcher.RequestRefused as error:
        return str(error)
    return launch_rules.fault(options, launch_rules.Settings(tables, "" if tables else "there is none"), person)


def offered(site: Site, person: Identity) -> list[SessionRequest]:
    """Many requests of somebody: what the portal's one check lets through."""
    asked = [
        {"partition": partition.name, "gpus": gpus, "hours": hours, **more}
        for partition in site.partitions
        for gpus in (0, 1, 2, 4)
        for hours in (1, 24, 48)
        for more in (
            {},
            {"gpu": "slice"},
            {"cores": 7, "memory_gb": 20},
            {"account": "ai", "qos": "long", "reservation": "class"},
            {"qos": "vip"},
        )
    ]
    found = []
    for options in asked:
        try:
            found.append(checked(options, site, person))
        except PortalError:
            continue
    return found


@pytest.mark.parametrize("person", [ALICE, CAROL, STAFF], ids=lambda person: person.name)
def test_the_launcher_takes_whatever_the_portal_offers(
    site: Site, tables: launch_rules.Tables, person: Identity
) -> None:
    for_person = site.with_partitions(site.offered_to(person))
    requests = offered(for_person, person)

    refused = {
        options: said
        for request in requests
        if (said := fault(options := submission(request, for_person, KEY, {}).options, tables, person.name))
    }

    assert refused == {}
    assert len(requests) > 40


def good(site: Site) -> tuple[str, ...]:
    """A request of alice's with all that there is."""
    person = site.with_partitions(site.offered_to(ALICE))
    request = checked({"partition": "gpu", "gpus": 2, "hours": 3, "account": "ai", "qos": "long"}, person, ALICE)
    return submission(request, person, KEY, {}).options


def test_what_a_site_sets_becomes_one_argument_each_and_nothing_of_it_is_a_script(site: Site) -> None:
    assert good(site)[6:] == (
        "--gres=gpu:v100:2",
        "--time=180",
        "--requeue",
        "--open-mode=append",
        "--export=ALL",
        "--account=ai",
        "--qos=long",
        "--constraint=nvlink&a100",
        "--licenses=matlab:1",
        "--mail-type=FAIL",
        "--comment=portal, $(id) `id`",
        "--exclusive=user",
        "--switches=1@10:00",
        "--nice=100",
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("--partition=gpu", "--partition=hidden"),
        ("--time=180", "--time=1441"),
        ("--time=180", "--time=0"),
        ("--cpus-per-task=16", "--cpus-per-task=17"),
        ("--mem=98304M", "--mem=98305M"),
        ("--mem=98304M", "--mem=0M"),
        ("--gres=gpu:v100:2", "--gres=gpu:v100:5"),
        ("--gres=gpu:v100:2", "--gres=gpu:h100:2"),
        ("--gres=gpu:v100:2", "--gres=shard:2"),
        ("--qos=long", "--qos=vip"),
        ("--constraint=nvlink&a100", "--constraint=nvlink"),
        ("--licenses=matlab:1", "--licenses=matlab:9"),
        ("--mail-type=FAIL", "--mail-type=ALL"),
        ("--mail-type=FAIL", "--mail_type=FAIL"),
        ("--nice=100", "--mail-user=boss@example.org"),
        ("--comment=portal, $(id) `id`", "--comment=mine"),
        ("--exclusive=user", "--exclusive"),
        ("--switches=1@10:00", "--switches=2"),
        ("--nice=100", "--nice=-100"),
        ("--nice=100", "--wrap=id"),
        ("--nice=100", "--qos=long"),
        ("--nice=100", "--time=180"),
        ("--nice=100", "--uid=0"),
        ("--nice=100", "--export=NONE"),
        ("--nice=100", "--reservation=other"),
    ],
)
def test_an_option_that_roots_file_does_not_say_is_refused(
    site: Site, tables: launch_rules.Tables, before: str, after: str
) -> None:
    options = good(site)
    assert fault(options, tables) == ""

    said = fault([after if option == before else option for option in options], tables)

    assert said.startswith("option"), f"{before} as {after}"


def test_an_address_is_taken_where_the_file_names_the_directorys_attribute(
    site: Site, tables: launch_rules.Tables
) -> None:
    options = [*good(site), "--mail-user=alice@cluster.example"]
    without_type = [option for option in options if option != "--mail-type=FAIL"]

    assert fault(options, tables | {"ldap": {"mail_attribute": "mail"}}) == ""
    for ldap in ({}, {"mail_attribute": ""}):
        assert "--mail-user=" in fault(options, tables | {"ldap": ldap})
    del tables["partition"][0]["mail_type"]
    assert "--mail-user=" in fault(without_type, tables | {"ldap": {"mail_attribute": "mail"}}), "Slurm does not write"


def test_what_the_file_asks_of_every_session_may_not_be_left_out(site: Site, tables: launch_rules.Tables) -> None:
    options = good(site)
    said = {one: fault([option for option in options if option != one], tables) for one in options}

    free = {one for one, words in said.items() if not words}
    assert free == {"--requeue", "--open-mode=append", "--export=ALL", "--account=ai"}, "an account is Slurm's to know"
    assert said["--time=180"] == "option '--time' is missing, which the settings file asks for in this partition"


def test_a_job_is_called_after_its_own_session(site: Site, tables: launch_rules.Tables) -> None:
    options = [option.replace(KEY, "f" * 16) for option in good(site)]

    assert fault(options, tables) == "the job's name is that of its session"


def test_a_rule_for_somebody_else_is_not_for_the_hub_to_claim(site: Site, tables: launch_rules.Tables) -> None:
    options = [option.replace("--qos=long", "--qos=vip") for option in good(site)]

    assert fault(options, tables, "carol") == ""
    assert fault(options, tables, "alice") == "option '--qos=vip' is not what the settings file says for this partition"


def test_mutated_requests_never_get_more_than_the_file_says(site: Site, tables: launch_rules.Tables) -> None:
    dice = random.Random(14)  # noqa: S311
    options = list(good(site))
    own = launch_rules.own_options(tables)
    names = [*launch_rules._PLAIN, *CHOICES, "comment", "exclusive", "wrap", "uid", "chdir", "output", "gid", "array"]
    allowed = {option for person in (ALICE, STAFF) for option in all_options(site, person)} | own
    taken = 0
    for _ in range(20_000):
        mutated = list(options)
        for _ in range(dice.randint(1, 3)):
            place = dice.randrange(len(mutated))
            mutated[place] = mutation(dice, mutated[place], names)
        if not fault(mutated, tables):
            taken += 1
            strange = [option for option in mutated if option not in allowed and not is_within(option)]
            assert not strange, mutated
    assert taken, "some mutations change one right value into another"


def all_options(site: Site, person: Identity) -> set[str]:
    """Every option that the portal makes of any request of somebody."""
    own = site.with_partitions(site.offered_to(person))
    return {option for request in offered(own, person) for option in submission(request, own, KEY, {}).options}


def is_within(option: str) -> bool:
    """Whether it is a value inside a range, or an account, which ``"*"`` leaves to Slurm's associations."""
    name, _, value = option.partition("=")
    ranges = {"--time": 2880, "--gres": 4}
    number = value.rpartition(":")[2]
    if name == "--job-name":
        return launcher._OPTION.match(option) is not None
    if name == "--account":
        return launch_rules._EVERY_NAME.match(value) is not None
    return name in ranges and number.isdecimal() and 1 <= int(number) <= ranges[name]


def mutation(dice: random.Random, option: str, names: Sequence[str]) -> str:
    """One option changed by chance: a character, a name, a value, something behind it."""
    name, _, value = option.partition("=")
    some = "".join(dice.choice(string.printable) for _ in range(dice.randint(0, 4)))
    place = dice.randrange(len(option))
    return dice.choice(
        [
            option[:place] + dice.choice(string.printable) + option[place + 1 :],
            option[:place] + some + option[place:],
            f"--{dice.choice(names)}={value}",
            f"--{dice.choice(names)}",
            f"{name}={some}",
            f"{name}={value}" + dice.choice(ENDS),
            f"{name}={dice.randint(-5, 5000)}",
            option.upper(),
            option[1:],
        ]
    )


# -- where the file is, and whether it is believed -------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one place of the settings file, in a folder of this account, which stands for root here."""
    monkeypatch.setattr(launch_rules, "PLACES", (str(tmp_path / "etc" / "site.toml"),))
    monkeypatch.setattr(launch_rules, "ROOT", os.getuid())
    (tmp_path / "etc").mkdir(mode=0o755)
    return tmp_path / "etc" / "site.toml"


def test_a_file_that_root_alone_can_change_is_read(place: Path) -> None:
    place.write_text(SETTINGS)
    place.chmod(0o644)

    assert launch_rules.read() == launch_rules.Settings(tomllib.loads(SETTINGS), place=str(place))


@pytest.mark.parametrize(
    "how", ["group may write", "everybody may write", "folder is open", "another's", "no TOML", "no tables", "missing"]
)
def test_any_other_file_says_nothing_and_only_the_options_of_every_site_are_left(
    place: Path, monkeypatch: pytest.MonkeyPatch, site: Site, how: str
) -> None:
    place.write_text({"no TOML": "[[", "no tables": "partition = 3"}.get(how, SETTINGS))
    place.chmod({"group may write": 0o664, "everybody may write": 0o646}.get(how, 0o644))
    if how == "folder is open":
        place.parent.chmod(0o777)
    if how == "another's":
        monkeypatch.setattr(launch_rules, "ROOT", os.getuid() + 1)
    if how == "missing":
        place.unlink()

    settings = launch_rules.read()

    assert settings.tables is None
    assert settings.why_not
    plain = [option for option in good(site) if option.partition("=")[0][2:] in launch_rules._PLAIN]
    assert launch_rules.fault(plain, settings, "alice") == ""
    said = launch_rules.fault([*plain, "--account=ai"], settings, "alice")
    assert said == f"option '--account' needs the settings file: {settings.why_not}"


@pytest.mark.parametrize("way", ["above it", "behind a link", "above a link on the way"])
def test_a_folder_above_it_that_others_can_change_is_as_open_as_its_own(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Who can rename a folder can put another one, with another file in it, in its place."""
    deep = tmp_path / "above" / "portal" / "site.toml"
    deep.parent.mkdir(parents=True, mode=0o755)
    deep.write_text(SETTINGS)
    deep.chmod(0o644)
    (tmp_path / "links").mkdir(mode=0o755)
    (tmp_path / "links" / "portal").symlink_to(deep.parent)
    if way == "above a link on the way":
        place.symlink_to(tmp_path / "links" / "portal" / "site.toml")
    elif way == "behind a link":
        place.symlink_to(deep)
    else:
        monkeypatch.setattr(launch_rules, "PLACES", (str(deep),))
    assert launch_rules.read().tables == tomllib.loads(SETTINGS)
    loose = tmp_path / ("links" if way == "above a link on the way" else "above")

    loose.chmod(0o775)

    assert launch_rules.read().tables is None
    assert f"{loose} above it is not root's alone" in launch_rules.read().why_not
    loose.chmod(0o1777)  # as /tmp is: what root has put there stays root's
    assert launch_rules.read().tables == tomllib.loads(SETTINGS)


def test_nor_is_its_own_folder_one_in_which_everybody_puts_something(place: Path) -> None:
    place.write_text(SETTINGS)
    place.chmod(0o644)
    place.parent.chmod(0o1777)

    assert launch_rules.read().tables is None


@pytest.mark.skipif(os.getuid() != 0, reason="a link of somebody else's takes root to make")
def test_no_link_of_somebody_elses_leads_to_it(place: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o755)
    (tmp_path / "real" / "site.toml").write_text(SETTINGS)
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "portal").symlink_to(tmp_path / "real")
    place.symlink_to(shared / "portal" / "site.toml")
    assert launch_rules.read().tables == tomllib.loads(SETTINGS)

    os.lchown(shared / "portal", 65533, 65533)

    assert launch_rules.read().tables is None
    assert f"{shared}/portal above it is not root's alone" in launch_rules.read().why_not


def test_values_of_the_wrong_kind_are_refused_in_words_and_never_a_crash(site: Site) -> None:
    broken = tomllib.loads(SETTINGS.replace("hours_max = 24", 'hours_max = "24"'))

    assert "portal config check" in fault(good(site), broken)


def test_neither_the_request_nor_the_environment_names_the_file(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = place.parent.parent / "evil.toml"
    evil.write_text('[[partition]]\nname = "gpu"\noptions = ["--wrap=id"]\n')
    for name in ("DSPORTAL_SITE", "SITE", "HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(evil))

    assert launch_rules.read().tables is None
    assert [Path(place).name for place in launch_rules.PLACES] == ["site.toml"]


def test_slurms_commands_are_those_of_roots_file(place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place.write_text(SETTINGS)
    place.chmod(0o644)
    seen: list[dict[str, str]] = []

    def run(argv: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        seen.append(environment)
        return subprocess.CompletedProcess(argv, 0, "42\n", "")

    monkeypatch.setattr(launcher, "_slurm", run)
    monkeypatch.setattr(launcher, "_home", lambda: str(tmp_path))

    assert launcher.handle({"verb": "finish", "key": KEY, "job_id": "42"})["ok"]

    assert seen[0]["PATH"].startswith("/opt/slurm/bin:")
    assert seen[0]["SLURM_CONF"] == "/etc/slurm/other.conf"


def test_the_defaults_of_the_launcher_are_those_of_the_settings() -> None:
    assert {key: getattr(SessionTable(), key) for key in launch_rules._SESSION} == launch_rules._SESSION
    assert launch_rules.CHOICES == CHOICES


def test_the_launcher_needs_the_standard_library_alone() -> None:
    program = "import sys, json, portal.launcher; print(json.dumps(sorted(sys.modules)))"
    path = f"import sys; sys.path.insert(0, {str(Path(launcher.__file__).parents[1])!r})"
    argv = [sys.executable, "-I", "-S", "-c", f"{path}; {program}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)

    found = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert found <= set(sys.stdlib_module_names) | {"portal", "__main__"}
    assert not found & {"tomllib", "dataclasses", "asyncio", "typing_extensions"}, "they are a third of its start"


# -- what the doctor says of it --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "result", "words"),
    [
        ("nothing", "ok", "says the same as the hub's settings"),
        ("missing", "failed", "does not go by the settings: there is no "),
        ("private", "warning", "people, as whom the launcher runs, cannot read "),
        ("other hours", "failed", "says otherwise than the hub's settings: partitions"),
    ],
)
def test_the_doctor_sees_the_file_as_the_launcher_does(
    place: Path, monkeypatch: pytest.MonkeyPatch, site: Site, change: str, result: str, words: str
) -> None:
    monkeypatch.setattr(launch_rules, "places", lambda prefix: launch_rules.PLACES)
    monkeypatch.setattr(launch_checks, "closed_on_the_way", lambda path: "")
    place.write_text(SETTINGS.replace("hours_max = 24", "hours_max = 12") if change == "other hours" else SETTINGS)
    place.chmod(0o600 if change == "private" else 0o644)
    if change == "missing":
        place.unlink()

    (check,) = launch_checks.settings(site)

    assert (check.result, words in check.found) == (result, True), check
