"""Thousands of inputs through the four doors: nothing that is typed reaches Slurm but as the value that was checked."""

from __future__ import annotations

import inspect
import json
import logging
import random
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from jupyterhub import orm
from jupyterhub.objects import Hub
from jupyterhub.user import User
from traitlets.config import Config

from portal import launch_rules, launcher
from portal.errors import SessionEnded
from portal.hub.context import SETTING, HubContext
from portal.request import OPTIONS, USUAL, WORDS_OF_A_LINK
from portal.slurm.cluster import Cluster
from portal.slurm.runner import Result
from portal.testing.cluster_parts import FakePartition
from portal.testing.fake_slurm import FakeSlurm
from spawners import form
from spawners.errors import StartRefused
from spawners.session import Session
from spawners.slurm import SlurmSessionSpawner
from tests.forms import LONG

ROOT = Path(__file__).parents[2]
INPUTS_PER_DOOR = 2500 if LONG else 500
MARK = "zq7"  # in what no site offers
SETTINGS = """
gpu = [{ name = "v100", title = "V100", gres = "gpu:v100" }, { name = "a100", title = "A100", gres = "gpu:a100" }]

[[partition]]
name = "gpu"
gpu = ["v100", "a100"]
account = ["ai", "ml"]
qos = ["normal", "long"]
reservation = ["", "class"]
constraint = ["nvlink&hbm", "pcie"]
licenses = ["", "matlab:1"]
mail_type = ["", "BEGIN,END"]

[[partition]]
name = "cpu"
gpus_max = 0
cores_max = 16
memory_gb_max = 64

[[profile]]
name = "small"
title = "Small"
fixed = { partition = "gpu", gpus = 1, account = "ml", hours = 8 }

[[profile]]
name = "staff"
title = "Not for everybody"
groups = ["nobody"]

[[partition]]
name = "hidden"
groups = ["nobody"]
account = ["vip"]
"""
MAY_STAND: Mapping[str, set[str]] = {  # of this site, for a person without groups: every word that Slurm may be told
    "partition": {"gpu", "cpu"},
    "nodes": {"1"},
    "ntasks": {"1"},
    "cpus-per-task": {str(cores) for cores in (*range(1, 17), 24, 32)},
    "mem": {f"{gb * 1024}M" for gb in (*range(1, 65), 96, 144, 192)},
    "gres": {f"gpu:{kind}:{gpus}" for kind in ("v100", "a100") for gpus in range(1, 5)},
    "time": {str(hours * 60) for hours in range(1, 25)},
    "requeue": {""},
    "open-mode": {"append"},
    "export": {"ALL"},
    "account": {"ai", "ml"},
    "qos": {"normal", "long"},
    "reservation": {"class"},
    "constraint": {"nvlink&hbm", "pcie"},
    "licenses": {"matlab:1"},
    "mail-type": {"BEGIN,END"},
}
LIKELY: Mapping[str, Sequence[Any]] = {
    "partition": ("gpu", "gpu", "cpu", USUAL, ""),
    "gpus": (0, 0, 1, 2, 4),
    "hours": (1, 8, 24),
    "gpu": ("v100", "a100", USUAL),
    "cores": (0, 4, 16),
    "memory_gb": (0, 8, 64),
    "account": ("ai", "ml", USUAL),
    "qos": ("normal", "long", USUAL),
    "reservation": ("", "class", USUAL),
    "constraint": ("nvlink&hbm", "pcie", USUAL),
    "licenses": ("", "matlab:1", USUAL),
    "mail_type": ("", "BEGIN,END", USUAL),
    "profile": ("small", "", USUAL),
}
ENDS = (
    *(";id", "\n", "\r\n#SBATCH --account=vip", "\0", " ", "\t", " --wrap=id", ",hidden", "`id`", "$(id)", "${IFS}id"),
    *("|id", "&&id", "'", '"', "\\", "{{7*7}}", "{% x %}", "<script>", "%0a", "\u2028", "\u202e", "\ud83d\ude00"),
    *("../..", ":99", "=x"),
)  # fmt: skip
BEGINNINGS = ("--uid=0", "-M", "--", "@", "#", "~", "!", "/etc/", "hidden", "vip", "root", "*", "", "x" * 5000)
NO_NUMBERS = (
    "٣",
    "４",
    "1e1",
    "0x1",
    "1_0",
    "+1",
    " 1",
    "1 ",
    "1\n",
    "1.0",
    "1.5",
    "--1",
    "9" * 30,
    "NaN",
    "True",
    "1,4",
)
NO_TEXTS: tuple[Any, ...] = (
    None, True, False, 1.5, -1, 10**30, float("inf"), float("nan"), [], ["gpu"], [1, 4], {}, {"a": {"b": []}}, b"gpu",
)  # fmt: skip
KEYS = (
    "cmd",
    "prologue",
    "comment",
    "exclusive",
    "options",
    "req_options",
    "wrap",
    "__class__",
    "gpus_file",
    "Gpus",
    "",
)
Door = Callable[[Any, dict[str, Any]], Awaitable[None]]


class Recording(FakeSlurm):
    """A cluster that keeps what is sent to it, and no job longer than it takes."""

    def __init__(self) -> None:
        nodes = ("gpu01", "gpu02")
        super().__init__([FakePartition(name, nodes) for name in ("gpu", "cpu", "hidden")])
        self.sent: list[tuple[tuple[str, ...], str]] = []

    async def __call__(
        self, argv: Sequence[str], stdin: str = "", env: Mapping[str, str] | None = None, timeout_s: float = 10
    ) -> Result:
        """Answer, and keep what was sent."""
        self.sent.append((tuple(argv), stdin))
        answer = await super().__call__(argv, stdin, env, timeout_s)
        self.lose_state()
        return answer

    def submissions(self) -> list[list[str]]:
        """The options of ``sbatch`` of each session, as the launcher is sent them."""
        requests = [json.loads(stdin) for argv, stdin in self.sent if argv[0] == "sudo"]
        return [request["options"] for request in requests if request["verb"] == "submit"]


@pytest.fixture
async def spawner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    """Alice's spawner, as JupyterHub makes it; of each start no more than the submission happens."""

    async def submitted(self: Session, first_answer: object) -> None:
        raise SessionEnded("It was submitted, and that is all.")

    logging.disable(logging.CRITICAL)  # thousands of refusals, each with its traceback
    monkeypatch.setattr(Session, "wait_until_ready", submitted)
    monkeypatch.setattr(form, "folder", ROOT.joinpath)
    form._template.cache_clear()
    c = Config()
    c.SlurmSessionSpawner.site_file = str(tmp_path / "site.toml")
    (tmp_path / "site.toml").write_text(SETTINGS)
    db = orm.new_session_factory("sqlite:///:memory:")()
    db.add(orm.User(name="alice"))
    db.commit()
    monkeypatch.setattr(db, "commit", lambda: None)  # a third of the time, for what nobody reads here
    slurm = Recording()
    context = HubContext("abc123", Cluster("/opt/portal-launch", run=slurm, clock=slurm.clock, pause=slurm.pause))
    settings = {"config": c, "spawner_class": SlurmSessionSpawner, "hub": Hub(), SETTING: context}
    yield User(db.query(orm.User).one(), settings, db).spawner
    db.close()
    logging.disable(logging.NOTSET)
    form._template.cache_clear()


# -- what comes in ----------------------------------------------------------------------------------------


def a_value(draw: random.Random, name: str, texts_only: bool) -> Any:
    """Something likely, something near it, or something that only means harm."""
    if name in LIKELY and draw.random() < 0.75:
        return draw.choice(LIKELY[name])
    if draw.random() < 0.3:
        return draw.choice(NO_NUMBERS)
    if not texts_only and draw.random() < 0.3:
        return draw.choice(NO_TEXTS)
    begins = draw.choice((*BEGINNINGS, *map(str, LIKELY.get(name, ()))))
    return f"{begins}{draw.choice(ENDS)}{MARK}{draw.choice(ENDS)}"


def an_input(draw: random.Random, texts_only: bool) -> dict[str, Any]:
    """Some options of one person; those of a session without a GPU are more rarely possible, so they are helped."""
    kind = draw.random()
    if kind < 0.3:
        names = ["partition", "gpus", "cores", "memory_gb", "hours"]
        found: dict[str, Any] = {"partition": "cpu", "gpus": 0}
    else:
        names = [name for name in OPTIONS if name not in ("cores", "memory_gb")] if kind < 0.9 else list(OPTIONS)
        found = {"partition": "gpu"}
    found |= {name: a_value(draw, name, texts_only) for name in draw.sample(names, draw.randint(0, 3))}
    if draw.random() < 0.05:
        found[draw.choice(KEYS)] = a_value(draw, "", texts_only)
    return found


def as_form(draw: random.Random, given: dict[str, Any]) -> dict[str, list[str]]:
    """As a browser sends it: texts, one or more of each."""
    return {
        name: [str(value)] * (2 if draw.random() < 0.01 else 1)
        for name, value in given.items()
        if not str(value).isspace() or value
    }


# -- the doors --------------------------------------------------------------------------------------------


async def start(spawner: Any, given: Any) -> None:
    """What JupyterHub does with the options of a start, from whichever door (user.py of 6.1)."""
    spawner.clear_state()
    spawner.user_options = given
    await spawner._run_apply_user_options(given)
    await spawner.start()


async def by_form(spawner: Any, given: dict[str, Any]) -> None:
    found = spawner.run_options_from_form(given)
    await start(spawner, await found if inspect.isawaitable(found) else found)


async def by_link(spawner: Any, given: dict[str, Any]) -> None:
    """A link starts nothing; the form that it fills in is sent as it is."""
    with pytest.raises(StartRefused) as told:
        await spawner.options_from_query(given)
    assert (told.value.status_code == 200) == (told.value.jupyterhub_message == WORDS_OF_A_LINK)
    if told.value.status_code != 200:
        raise told.value
    await send_untouched(spawner)


async def by_rest(spawner: Any, given: dict[str, Any]) -> None:
    await start(spawner, given)


async def by_saved(spawner: Any, given: dict[str, Any]) -> None:
    """Options of an earlier session: a start that says nothing takes them, and the form shows them."""
    spawner.orm_spawner.user_options = given
    try:
        await start(spawner, given)
    except StartRefused as refused:
        if refused.status_code != 400 or len(str(given)) % 5:
            raise
        await send_untouched(spawner)


async def send_untouched(spawner: Any) -> None:
    """The form as it is shown is sent, which is never refused: whatever filled it in, it shows what may be chosen."""
    with pytest.raises(StartRefused) as told:
        await by_form(spawner, Sent(await spawner.get_options_form()).fields)
    assert told.value.status_code == 502, told.value.jupyterhub_message
    raise told.value


class Sent(HTMLParser):
    """What a browser sends of a form in which nobody changes anything."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.fields: dict[str, list[str]] = {}
        self._list = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what is checked, selected or written."""
        given = dict(attrs)
        if tag == "select":
            self._list = given["name"] or ""
        is_sent = tag == "input" and (given.get("type") != "radio" or "checked" in given)
        if is_sent or (tag == "option" and "selected" in given):
            self.fields[given.get("name") or self._list] = [given.get("value") or ""]


# -- what Slurm is told -----------------------------------------------------------------------------------


def assert_is_the_sites(options: Sequence[str], tables: launch_rules.Tables) -> None:
    """Every option is one of the site's own words; and the launcher, which trusts nobody, says so too."""
    name, *rest = options
    assert launcher._OPTION.match(name)
    assert name.startswith("--job-name=dsportal-abc123")
    for option in rest:
        key, _, value = option.removeprefix("--").partition("=")
        assert value in MAY_STAND[key], option
    assert launch_rules.fault(options, launch_rules.Settings(tables), "alice") == ""


def assert_is_what_was_asked(options: Sequence[str], given: Mapping[str, Any]) -> None:
    """What was let through is in the job as it was given, and nothing is left out."""
    told = {option.removeprefix("--").partition("=")[0]: option.partition("=")[2] for option in options}
    asked = {key: value[0] if isinstance(value, list) else value for key, value in given.items()}
    asked = {key: str(value) for key, value in asked.items() if str(value) not in ("", USUAL)}
    if asked.get("profile") == "small":
        asked |= {"partition": "gpu", "gpus": "1", "account": "ml", "hours": "8"}
    expected: dict[str, Any] = {
        key: asked[key]
        for key in ("partition", "account", "qos", "reservation", "constraint", "licenses")
        if key in asked
    }
    if "mail_type" in asked:
        expected["mail-type"] = asked["mail_type"]
    if "hours" in asked:
        expected["time"] = str(int(float(asked["hours"])) * 60)
    assert {key: told.get(key) for key in expected} == expected
    gpus = int(float(asked.get("gpus", "1")))
    assert told.get("gres", ":0").rpartition(":")[2] == str(gpus)


@pytest.mark.parametrize(
    ("door", "texts_only"),
    [(by_form, True), (by_link, True), (by_rest, False), (by_saved, False)],
    ids=["form", "link", "REST", "saved"],
)
async def test_nothing_that_is_typed_reaches_slurm_but_as_the_value_that_was_checked(
    spawner: Any, door: Door, texts_only: bool
) -> None:
    slurm: Recording = spawner.cluster._run
    tables = tomllib.loads(SETTINGS)
    draw = random.Random(door.__name__)  # noqa: S311
    outcomes = {502: 0, 400: 0, 200: 0}
    for _ in range(INPUTS_PER_DOOR):
        made = an_input(draw, texts_only)
        given: dict[str, Any] = as_form(draw, made) if texts_only else made
        slurm.sent.clear()
        with pytest.raises(StartRefused) as told:
            await door(spawner, given)
        outcomes[told.value.status_code] += 1

        submitted = slurm.submissions()
        assert len(submitted) == (told.value.status_code == 502), given
        for options in submitted:
            assert_is_the_sites(options, tables)
            assert_is_what_was_asked(options, spawner.user_options if door is by_saved else given)  # or what was left
        assert MARK not in str(slurm.sent)
        assert {argv[:5] for argv, _ in slurm.sent if argv[0] == "sudo"} <= {
            ("sudo", "--non-interactive", "--set-home", "--user", "alice")
        }

    assert outcomes[502] > INPUTS_PER_DOOR / 5, outcomes
    assert outcomes[400] > INPUTS_PER_DOOR / 5, outcomes
