"""More time for a session that runs: root's rule and Slurm decide, whoever asks; everything else is refused."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from portal.extending import program, rules
from portal.extending.program import Done
from portal.launch_rules import Settings
from portal.settings.extend_table import ExtendTable

KEY = "0123456789abcdef"
ME = pwd.getpwuid(os.getuid()).pw_name
RULE: dict[str, object] = {"times": 2, "hours": 4, "hours_total_max": 20, "account": "slurm"}
LOOK = {"verb": "look", "person": ME, "key": KEY, "job_id": "42"}
NONE = "No reservations in the system\n"
PARTITION = (
    "PartitionName=gpu AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL Default=YES Hidden=NO MaxTime={limit} "
    "State=UP TotalNodes=2\n"
)


@dataclass
class OneJob:
    """Slurm with one job, as portal-extend asks for it."""

    uid: int = field(default_factory=os.getuid)
    name: str = f"dsportal-{KEY}"
    state: str = "RUNNING"
    limit_min: int = 480
    started_at: int = field(default_factory=lambda: int(time.time()) - 3600)
    comment: str = ""
    reservation: str = "(null)"
    partition_limit: str = "UNLIMITED"
    reservations: str = NONE
    asked: list[Sequence[str]] = field(default_factory=list)
    before_update: Any = None

    def __call__(self, argv: Sequence[str]) -> Done:
        self.asked.append(argv)
        if argv[0] == "squeue" and "--jobs=42" not in argv:
            return Done(1, "", "slurm_load_jobs error: Invalid job id specified\n")
        if any(word.startswith("--Format=") for word in argv):
            if "--Format=admin_comment:400" not in argv:  # its name in 22.05 to 26.05
                return Done(0, "\n", "squeue: error: Invalid job format specification\n")
            return Done(0, f"{self.comment or '(null)':<400}\n", "")
        if argv[0] == "squeue":
            return Done(0, self._line(), "")
        if "partition" in argv:
            return Done(0, PARTITION.format(limit=self.partition_limit), "")
        if "reservation" in argv:
            return Done(0, self.reservations, "")
        return self._update(argv)

    @property
    def ends_at(self) -> int:
        return self.started_at + self.limit_min * 60

    def _line(self) -> str:
        hours, minutes = divmod(self.limit_min, 60)
        limit = f"{hours}:{minutes:02}:00"
        return f"{self.uid}|{self.state}|gpu|gn01|{limit}|{self.ends_at}|{self.reservation}|{self.name}\n"

    def _update(self, argv: Sequence[str]) -> Done:
        if self.before_update:
            then, self.before_update = self.before_update, None
            then()
        assert argv[:3] == ["scontrol", "update", "JobId=42"]
        self.limit_min = int(argv[3].removeprefix("TimeLimit="))
        self.comment = argv[4].removeprefix("AdminComment=")
        return Done(0, "", "")

    @property
    def updates(self) -> list[Sequence[str]]:
        return [argv for argv in self.asked if "update" in argv]


def reserved(name: str, starts_at: int, ends_at: int, nodes: str = "gn[01-02]") -> str:
    return f"ReservationName={name} StartTime={starts_at} EndTime={ends_at} Nodes={nodes} NodeCnt=2 Flags=MAINT\n"


def settings(**changed: object) -> Settings:
    return Settings({"extend": {**RULE, **changed}, "partition": [{"name": "gpu"}, {"name": "iq"}]})


def ask(
    slurm: OneJob, minutes: int = 0, account: str = "slurm", given: Any = None, **rule: object
) -> dict[str, object]:
    request = given or {**LOOK, **({"verb": "extend", "minutes": minutes} if minutes else {})}
    return program.answer_to(request, settings(**rule), account, slurm)


@pytest.fixture(autouse=True)
def journal(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the system's log gets."""
    lines: list[str] = []
    monkeypatch.setattr(program, "_note", lines.append)
    return lines


def test_a_comment_that_squeue_does_not_show_is_not_taken_for_none() -> None:
    def without_column(argv: Sequence[str]) -> Done:
        is_comment = any(word.startswith("--Format=") for word in argv)
        return Done(0, "\n", "squeue: error: Invalid job format specification\n") if is_comment else slurm(argv)

    slurm = OneJob()
    with pytest.raises(ValueError, match="Invalid job format"):
        program.answer_to({**LOOK, "verb": "extend", "minutes": 60}, settings(), "slurm", without_column)
    assert slurm.updates == []


# -- what is given --------------------------------------------------------------------------------------


def test_a_session_gets_more_time_and_the_log_and_slurm_know_it(journal: list[str]) -> None:
    slurm = OneJob(comment="of the site")
    end = slurm.ends_at

    answer = ask(slurm, minutes=120)

    assert slurm.updates == [
        ["scontrol", "update", "JobId=42", "TimeLimit=600", "AdminComment=of the site dsportal-extended=1"]
    ]
    assert (answer["ok"], answer["ends_at"], answer["times_left"]) == (True, end + 7200, 1)
    assert journal == [f"extended job 42 (dsportal-{KEY}) of {ME}: 480 min, now 600; 1 of 2"]


def test_a_look_changes_nothing_and_says_what_may_be_given() -> None:
    slurm = OneJob()
    answer = ask(slurm)
    assert (answer["minutes"], answer["bound"], answer["times_left"]) == (240, "hours", 2)
    assert not slurm.updates


def test_as_often_as_the_rule_says_and_then_no_more(journal: list[str]) -> None:
    slurm = OneJob()
    assert ask(slurm, minutes=60)["ok"]
    assert ask(slurm, minutes=60)["ok"]

    answer = ask(slurm, minutes=60)

    assert (answer["ok"], answer["refused"], slurm.limit_min) == (False, "times", 600)
    assert "refused 60 min for job 42" in journal[-1]
    assert ask(slurm)["bound"] == "times"


def test_two_that_come_at_once_are_one() -> None:
    slurm = OneJob()
    slurm.before_update = lambda: ask(slurm, minutes=60)

    answer = ask(slurm, minutes=60)

    assert answer["ok"]
    assert len(slurm.updates) == 2
    assert (slurm.limit_min, rules.count_of(slurm.comment)) == (540, 1)


@pytest.mark.parametrize(
    ("changed", "bound", "minutes"),
    [
        ({}, "hours", 240),
        ({"limit_min": 1100}, "total", 100),
        ({"limit_min": 1200}, "total", 0),
        ({"limit_min": 1300}, "total", 0),
        ({"partition_limit": "10:00:00"}, "partition", 120),
        ({"partition_limit": "08:00:00"}, "partition", 0),
        ({"partition_limit": "1-00:00:00"}, "hours", 240),
    ],
)
def test_the_narrowest_bound_counts(changed: dict[str, Any], bound: str, minutes: int) -> None:
    answer = ask(OneJob(**changed))
    assert (answer["bound"], answer["minutes"]) == (bound, minutes)


def test_more_than_that_is_refused_and_nothing_is_done() -> None:
    slurm = OneJob()
    answer = ask(slurm, minutes=241)
    assert (answer["ok"], answer["refused"], answer["minutes"]) == (False, "asked", 240)
    assert not slurm.updates


def test_a_reservation_of_the_node_is_a_bound_and_one_of_other_nodes_or_of_the_past_is_none() -> None:
    slurm = OneJob()
    now = int(time.time())
    slurm.reservations = reserved("other", slurm.ends_at + 60, slurm.ends_at + 3600, nodes="gn[03-08]")
    slurm.reservations += reserved("past", now - 7200, now - 60)
    assert ask(slurm)["bound"] == "hours"

    slurm.reservations += reserved("maintenance", slurm.ends_at + 3600, slurm.ends_at + 7200)
    answer = ask(slurm)
    assert (answer["bound"], answer["minutes"], answer["taken_at"]) == ("reservation", 60, slurm.ends_at + 3600)

    slurm.reservations = reserved("maintenance", slurm.ends_at - 60, slurm.ends_at + 7200)
    assert ask(slurm, minutes=5)["refused"] == "reservation"


def test_a_job_in_a_reservation_ends_with_it() -> None:
    slurm = OneJob(reservation="class")
    slurm.reservations = reserved("class", slurm.started_at, slurm.ends_at + 1800)
    assert ask(slurm)["minutes"] == 30


# -- what is refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"uid": os.getuid() + 1}, "other"),
        ({"name": "dsportal-fedcba9876543210"}, "other"),
        ({"name": "training"}, "other"),
        ({"name": f"dsportal-{KEY} "}, "other"),
        ({"name": f"x|dsportal-{KEY}"}, "ended"),
        ({"name": f"dsportal-{KEY}\n1|RUNNING|gpu|gn01|1:00:00|1|(null)|x"}, "ended"),
        ({"state": "PENDING"}, "ended"),
        ({"state": "SUSPENDED"}, "ended"),
        ({"state": "COMPLETING"}, "ended"),
    ],
)
def test_what_is_no_session_of_this_person_that_runs_is_refused(changed: dict[str, Any], why: str) -> None:
    slurm = OneJob(**changed)
    assert ask(slurm, minutes=10)["refused"] == why
    assert not slurm.updates


@pytest.mark.parametrize("tables", [{}, {"partition": []}, {"partition": [{"name": "iq"}, {}]}])
def test_a_job_in_a_partition_that_is_not_the_portals_is_refused(tables: dict[str, Any]) -> None:
    slurm = OneJob()
    request = {**LOOK, "verb": "extend", "minutes": 10}

    answer = program.answer_to(request, Settings({"extend": RULE, **tables}), "slurm", slurm)

    assert (answer["refused"], slurm.updates) == ("other", [])


def test_a_job_that_slurm_does_not_know_is_refused() -> None:
    assert ask(OneJob(), given={**LOOK, "job_id": "7"})["refused"] == "ended"


@pytest.mark.parametrize(
    "given",
    [
        None,
        [],
        "look",
        {},
        {**LOOK, "verb": "submit"},
        {**LOOK, "account": "root"},
        {**LOOK, "person": ""},
        {**LOOK, "person": "a\nb"},
        {**LOOK, "person": ["root"]},
        {**LOOK, "person": "nobody-has-this-name"},
        {**LOOK, "key": KEY[:-1]},
        {**LOOK, "key": f"{KEY}\n"},
        {**LOOK, "key": 1},
        {**LOOK, "job_id": "42,43"},
        {**LOOK, "job_id": "42_1"},
        {**LOOK, "job_id": "0"},
        {**LOOK, "job_id": "42 TimeLimit=UNLIMITED"},
        {**LOOK, "job_id": 42},
        {**LOOK, "minutes": 5},
        {**LOOK, "verb": "extend"},
        {**LOOK, "verb": "extend", "minutes": 0},
        {**LOOK, "verb": "extend", "minutes": -60},
        {**LOOK, "verb": "extend", "minutes": True},
        {**LOOK, "verb": "extend", "minutes": 60.0},
        {**LOOK, "verb": "extend", "minutes": "60"},
        {**LOOK, "verb": "extend", "minutes": 10**9},
    ],
)
def test_hostile_requests_reach_nothing(given: Any) -> None:
    slurm = OneJob()
    with pytest.raises(ValueError, match=r"is|are"):
        program.answer_to(given, settings(), "slurm", slurm)
    assert not slurm.updates


def test_it_goes_by_roots_file_alone() -> None:
    slurm = OneJob()
    with pytest.raises(ValueError, match="settings file: not root's"):
        program.answer_to(LOOK, Settings(None, "not root's"), "slurm", slurm)
    assert program.answer_to(LOOK, Settings({}), "slurm", slurm)["refused"] == "off"
    assert ask(slurm, times=0)["refused"] == "off"
    assert not slurm.asked


def test_it_works_as_the_account_of_the_file_alone() -> None:
    with pytest.raises(ValueError, match=r"this runs as alice, and extend\.account"):
        ask(OneJob(), account="alice")


@pytest.mark.parametrize("table", [[], {"times": "2"}, {"times": True}, {"times": 2, "hours": -1}, {"times": 10**6}])
def test_a_file_with_values_of_the_wrong_kind_gives_nothing(table: object) -> None:
    with pytest.raises(ValueError, match="portal config check"):
        rules.rule_of({"extend": table})


def test_a_rule_for_some_people_is_not_for_others_and_groups_are_the_hubs_word() -> None:
    slurm = OneJob()
    assert ask(slurm, people=["carol"])["refused"] == "person"
    assert ask(slurm, people=["carol", ME])["ok"]
    assert ask(slurm, people=["carol"], groups=["staff"])["ok"]


@pytest.mark.parametrize("comment", ["x" * 400, "a\tb", "a\x1bb"])
def test_a_count_that_cannot_be_read_gives_nothing(comment: str) -> None:
    slurm = OneJob(comment=comment)
    with pytest.raises(ValueError, match="AdminComment cannot be read"):
        ask(slurm, minutes=5)
    assert not slurm.updates


def test_a_reservation_that_cannot_be_read_gives_nothing() -> None:
    slurm = OneJob()
    slurm.reservations = reserved("fine", 1, 2) + "ReservationName=odd StartTime=soon EndTime=9 Nodes=gn01 Flags=\n"
    with pytest.raises(ValueError, match="reservation that cannot be read"):
        ask(slurm, minutes=5)


def test_a_limit_that_slurm_did_not_take_is_no_success() -> None:
    slurm = OneJob()
    refuses = Done(1, "", "slurm_update error: Access/permission denied")
    with pytest.raises(ValueError, match="Access/permission denied"):
        program.answer_to(
            {**LOOK, "verb": "extend", "minutes": 5}, settings(), "slurm",
            lambda argv: refuses if "update" in argv else slurm(argv),
        )  # fmt: skip
    with pytest.raises(ValueError, match="Slurm shows a limit of 480 min, and not 485"):
        program.answer_to(
            {**LOOK, "verb": "extend", "minutes": 5}, settings(), "slurm",
            lambda argv: Done(0, "", "") if "update" in argv else slurm(argv),
        )  # fmt: skip


@pytest.mark.parametrize(
    ("comment", "count"),
    [
        ("", 0),
        ("dsportal-extended=2", 2),
        ("site dsportal-extended=1 more", 1),
        ("dsportal-extended=0 dsportal-extended=3", 3),
        ("xdsportal-extended=9", 0),
        ("dsportal-extended=9999", 0),
    ],
)
def test_the_count_is_read_out_of_what_an_operator_alone_can_write(comment: str, count: int) -> None:
    assert rules.count_of(comment) == count
    assert rules.count_of(rules.counted(comment, count + 1)) == count + 1


@pytest.mark.parametrize(("limit", "minutes"), [("30:00", 30), ("2:05:00", 125), ("1-12:30:00", 2190)])
def test_limits_are_read_as_squeue_writes_them(limit: str, minutes: int) -> None:
    job = rules.parse_job(f"1|RUNNING|gpu|gn01|{limit}|1764080400|(null)|x\n")
    assert job is not None
    assert job.limit_min == minutes


def test_a_job_without_a_limit_needs_no_more_time() -> None:
    assert rules.parse_job("1|RUNNING|gpu|gn01|UNLIMITED|N/A|(null)|x\n") is None


def test_the_defaults_of_the_program_are_those_of_the_settings() -> None:
    rule = rules.rule_of({"extend": {"times": 1}})
    table = ExtendTable(times=1)
    assert rule is not None
    assert (rule.hours, rule.hours_total_max, rule.account) == (table.hours, table.hours_total_max, table.account)
    assert rules.rule_of({}) is None
    assert not ExtendTable().is_for("alice", frozenset())
