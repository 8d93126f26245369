"""Receipts: what accounting says that sessions used is read rightly, asked for all together, late, or never."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any
from unittest.mock import Mock

import pytest
from jupyterhub import orm
from sqlalchemy.exc import SQLAlchemyError

from portal.databases import connections
from portal.databases import ended_sessions as store
from portal.errors import SlurmUnavailable
from portal.history.receipt import Receipt, energy, gb, hours, words
from portal.history.record import EndedSession
from portal.history.rows import rows
from portal.receipts import book as books
from portal.receipts.accounted import COLUMNS, command, parse, seconds, unknown_column, with_gpus
from portal.receipts.book import AFTER_S, ReceiptBook
from portal.site import Identity, Site
from portal.slurm.cluster import Cluster
from portal.slurm.runner import Result, RunError
from portal.slurm.submission import job_name
from portal.testing.behaviours import Completes
from portal.testing.cluster_parts import Usage
from portal.testing.fake_slurm import FakeSlurm
from portal.testing.outages import AccountingDown, JobsHidden, Outage
from tests.unit.recorded import VERSIONS, case, scenario
from tests.unit.test_ended_sessions import spawner_of
from tests.unit.test_history import HOSTILE, asked_by, home, home_html, person_with

KEY = "abc1230123456789"
ALICE = Identity("alice", frozenset({"students"}))
GIB = 1024
RECEIPT = Receipt(7200, 16, 2, 96 * GIB, 14_400.0, 12 * GIB, 97, 9 * GIB, 7_200_000)


# -- sacct ----------------------------------------------------------------------------------------------

ANSWER = """\
17|1795195200|7200|billing=16,cpu=16,gres/gpu:v100=2,gres/gpu=2,mem=96G,node=1|04:00:00||||7200000
17.batch|1795195200|7200|cpu=16,gres/gpu:v100=2,gres/gpu=2,mem=96G,node=1|03:59:59.500|1|12G|cpu=04:00:00,energy=0,gres/gpumem=9216M,gres/gpuutil=97,mem=12G|
17.extern|1795195201|7201|billing=16,cpu=16,mem=96G,node=1|00:00.500|1|4K|cpu=00:00:00,gres/gpumem=0,gres/gpuutil=0,mem=4K|
"""


def receipt(answer: str, number: str = "17") -> Receipt:
    return parse(answer, COLUMNS)[number].receipt


def test_one_command_asks_for_many_jobs_by_number_and_by_the_name_that_carries_their_key() -> None:
    asked = command({"17": "dsportal-a", "18": "dsportal-b"}, COLUMNS)

    assert "--jobs=17,18" in asked
    assert "--name=dsportal-a,dsportal-b" in asked
    assert "--duplicates" in asked, "runs of before Slurm started the job again count, too"
    assert "--allocations" not in asked, "memory and GPUs are told of steps"


def test_a_receipt_has_what_the_job_had_and_the_most_that_its_steps_used() -> None:
    assert receipt(ANSWER) == RECEIPT
    assert RECEIPT.gpu_hours == 4
    assert RECEIPT.core_hours == 32
    assert RECEIPT.cores_busy == 2


def test_a_job_that_slurm_started_again_is_counted_with_all_its_runs() -> None:
    lines = ["17|1|3600|cpu=4|x||||", "17.batch|1|3600|cpu=4|01:00:00|1|1G||", "17|2|600|cpu=4,mem=8G|x||||"]
    lines.append("17.batch|2|600|cpu=4|00:10:00|1|2G||")

    found = receipt("\n".join(lines))

    assert (found.seconds, found.cpu_s, found.memory_peak_mib, found.cores) == (4200, 4200, 2 * GIB, 4)


@pytest.mark.parametrize(
    ("line", "is_over", "is_settled"),
    [
        ("17|Unknown|60|cpu=1|||||\n17.batch|Unknown|60|cpu=1||1|||", False, False),
        ("17|5|60|cpu=1|||||\n17.batch|Unknown|60|cpu=1||1|||", True, False),
        ("17|5|60|cpu=1|||||\n17.batch|6|60|cpu=1||1|||", True, True),
        ("17|5|60|cpu=1|||||\n17|Unknown|0||||||", False, False),
        ("17|5|0|||||||", None, None),
        ("17|5|0||||||", True, True),
    ],
)
def test_a_job_is_over_when_all_its_runs_have_ended_and_settled_when_its_steps_have(
    line: str, is_over: bool | None, is_settled: bool | None
) -> None:
    found = parse(line, COLUMNS).get("17")

    assert (found and found.is_over, found and found.is_settled) == (is_over, is_settled)


@pytest.mark.parametrize(
    ("tres", "util", "memory"),
    [
        ("", None, None),
        ("cpu=00:00:01,mem=12G,pages=0", None, None),
        ("gres/gpumem=0,gres/gpuutil=0", 0, 0),
        ("gres/gpumem=412M,gres/gpuutil=398", 398, 412),
        ("gres/gpumem=1.50G,gres/gpuutil=7", 7, 1536),
        ("gres/gpumem=x,gres/gpuutil=y,=,gres/gpumem", 0, 0),
    ],
)
def test_gpus_that_nobody_measured_have_no_figure_and_no_0(tres: str, util: int | None, memory: int | None) -> None:
    found = receipt(f"17|5|60|cpu=1,gres/gpu=4|||||\n17.batch|5|60|cpu=1|00:01|1|1G|{tres}|")

    assert (found.gpu_busy_percent, found.gpu_memory_peak_mib) == (util, memory)


@pytest.mark.parametrize("nothing", ["", "0", "00:00:00"])
def test_memory_and_cores_that_nobody_measured_have_no_figure(nothing: str) -> None:
    found = receipt(f"17|5|60|cpu=1|{nothing}||||\n17.batch|5|60|cpu=1|{nothing}|1|{nothing}||")

    assert (found.memory_peak_mib, found.cpu_s, found.energy_j) == (None, None, None)


@pytest.mark.parametrize(("raw", "joules"), [("", None), ("0", None), ("7200", 7200), (str(2**64 - 2), None)])
def test_energy_is_told_where_slurm_has_counted_it(raw: str, joules: int | None) -> None:
    assert receipt(f"17|5|60|cpu=1|||||{raw}").energy_j == joules
    assert receipt(f"17|5|60|cpu=1|||||\n17.batch|5|60|cpu=1||1|||{raw}").energy_j == joules


def test_steps_of_its_own_are_noted_because_the_peaks_are_those_of_one_task() -> None:
    whole = "17|5|60|cpu=1|||||\n17.batch|5|60|cpu=1||1|||\n17.extern|5|60|cpu=1||1|||"

    assert not receipt(whole).has_steps
    assert receipt(f"{whole}\n17.0|5|60|cpu=1||4|||").has_steps


def test_where_accounting_counts_no_gpus_those_count_that_were_asked_for() -> None:
    counted = parse("17|5|60|cpu=1,gres/gpu:a=1,gres/gpu:b=2|||||", COLUMNS)["17"]
    not_counted = parse("17|5|60|cpu=1,mem=2G|||||", COLUMNS)["17"]

    assert with_gpus(counted, 4).gpus == 3
    assert with_gpus(not_counted, 4).gpus == 4


@pytest.mark.parametrize(
    ("time_", "found"),
    [
        ("00:00.002", 0.002),
        ("03:04", 184),
        ("01:02:03", 3723),
        ("1-02:03:04", 93_784),
        ("12-00:00:00.5", 1_036_800.5),
        ("00:00:00", 0),
        ("", 0),
        ("Unknown", 0),
        ("-1:00", 0),
    ],
)
def test_times_are_read_as_slurm_writes_them(time_: str, found: float) -> None:
    assert seconds(time_) == pytest.approx(found)


@pytest.mark.parametrize(
    "text", ["", "17", "|||||||||", "x|5|60|cpu=1|||||", "Slurm accounting storage is disabled", HOSTILE]
)
def test_what_is_not_as_asked_for_is_nobodys_receipt(text: str) -> None:
    assert parse(text, COLUMNS) == {}
    assert list(parse(f"{text}\n{ANSWER}", COLUMNS)) == ["17"]


def as_asked(version: str, name: str) -> tuple[str, tuple[str, ...]]:
    """What was recorded, in those of our columns that were recorded: the others are as of a version without them."""
    recorded = case(version, name)
    titles = [title.lower() for title in recorded.stdout.partition("\n")[0].split("|")]
    columns = tuple(column for column in COLUMNS if column.lower() in titles)
    places = [titles.index(column.lower()) for column in columns]
    lines = [line.split("|") for line in recorded.stdout.splitlines()[1:]]
    whole = [line for line in lines if len(line) == len(titles)]  # names of jobs hold what they like: we do not ask
    return "\n".join("|".join(line[place] for place in places) for line in whole), columns


@pytest.mark.parametrize("version", VERSIONS)
def test_what_six_versions_of_slurm_printed_is_read_with_what_they_have(version: str) -> None:
    found = parse(*as_asked(version, "sacct-P"))
    jobs = scenario(version)

    oom, timeout, running = (found[jobs[label].id] for label in ("oom", "timeout", "run1"))
    assert oom.is_settled
    assert (oom.receipt.memory_mib, oom.receipt.cores) == (60, 1)
    assert 70 < timeout.receipt.seconds < 100
    assert timeout.receipt.memory_peak_mib == 1
    assert timeout.receipt.cpu_s
    assert timeout.receipt.energy_j is None
    assert not running.is_over
    gpus = [one.receipt.gpus for one in found.values()]
    assert {0, 1, 2, 4} <= set(gpus)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_column_that_a_version_does_not_know_is_told_by_its_refusal(version: str) -> None:
    said = case(version, "sacct-bad-field").stderr

    assert unknown_column(said, (*COLUMNS, "frob")) == "frob"
    assert unknown_column(said, COLUMNS) == ""
    assert unknown_column(said.replace("frob", "End"), COLUMNS) == "", "without this one there is no receipt"


# -- the book -------------------------------------------------------------------------------------------


@pytest.fixture
def db() -> Iterator[Any]:
    """A hub's database with two people, as the hub has opened it."""
    session = orm.new_session_factory("sqlite:///:memory:")()
    session.add_all([orm.User(name=name) for name in ("alice", "bob")])
    session.commit()
    connections.prepare(session)
    yield session
    session.close()


class Ended:
    """A cluster on which sessions have ended, and the hub's book of receipts."""

    def __init__(self, db: Any) -> None:
        self.db = db
        self.slurm = FakeSlurm()
        self.cluster = Cluster("/opt/portal-launch", run=self.slurm, clock=self.slurm.clock, pause=self.slurm.pause)
        self.book = ReceiptBook(self.cluster)

    def session(self, key: str = KEY, after_s: float = 3600, usage: Usage = Usage(), gpus: int = 2) -> EndedSession:  # noqa: B008  a value
        """One that has run, ended and is kept."""
        self.slurm.next_job(Completes(after_s=after_s))
        options = {"job-name": job_name(key), "cpus-per-task": "16", "mem": "96000M", "time": "1440"}
        job = self.slurm.take("alice", options | ({"gres": f"gpu:{gpus}"} if gpus else {}))
        job.usage = usage
        one = EndedSession(key, int(time.time()), job_id=job.id, options={"gpus": gpus}, started_at=1, node="gpu01")
        store.keep(self.db, 1, key, one.ended_at, one.to_text(), 30)
        return one

    async def look_after(self, seconds_: float) -> None:
        self.slurm.advance(seconds_)
        await self.book.look(self.db)

    def receipt(self, key: str = KEY) -> Receipt | None:
        found = [EndedSession.from_text(text) for text in store.of_person(self.db, 1, 30)]
        return next(one.receipt for one in found if one.key == key)

    @property
    def asked(self) -> int:
        """How often accounting was asked."""
        return sum(command[0] == "sacct" for command in self.slurm.asked)


@pytest.fixture
def ended(db: Any) -> Ended:
    """A cluster in which nothing is wrong."""
    return Ended(db)


async def test_a_session_gets_its_receipt_a_moment_after_its_end(ended: Ended) -> None:
    ended.book.expect(ended.session(usage=Usage(7200, 12 * GIB * GIB, 97, 900, 36_000)))
    await ended.look_after(3601)

    assert ended.receipt() == Receipt(3600, 16, 2, 96_000, 7200, 12 * GIB, 97, 900, 36_000)


async def test_nobody_is_asked_before_it_is_due_nor_when_all_have_theirs(ended: Ended) -> None:
    await ended.look_after(1)
    ended.book.expect(ended.session(after_s=1))
    await ended.look_after(AFTER_S[0] - 1)
    assert ended.asked == 0
    await ended.look_after(1)
    assert ended.receipt()
    await ended.look_after(10**5)
    assert ended.asked == 1


async def test_many_sessions_that_end_together_are_asked_for_in_few_commands(
    ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "KEPT_PER_PERSON", 1000)
    keys = [f"abc123{number:010x}" for number in range(250)]
    for key in keys:
        ended.book.expect(ended.session(key, after_s=60))
    await ended.look_after(AFTER_S[0] + 60)

    assert ended.asked == 3
    assert all(ended.receipt(key) for key in keys[-store.KEPT_PER_PERSON :])


async def test_an_end_of_which_accounting_hears_late_is_asked_for_again(ended: Ended) -> None:
    ended.book.expect(ended.session(after_s=1000))
    await ended.look_after(AFTER_S[0])
    assert ended.receipt() is None, "for accounting it runs still"
    await ended.look_after(AFTER_S[1])
    await ended.look_after(AFTER_S[2])

    assert ended.receipt()
    assert ended.asked == 3


async def test_what_never_comes_is_asked_for_a_few_times_and_no_more(ended: Ended) -> None:
    ended.slurm.outage = JobsHidden()
    ended.book.expect(ended.session())
    for _ in range(100):
        await ended.look_after(600)

    assert ended.asked == len(AFTER_S)
    assert ended.receipt() is None


async def test_accounting_that_does_not_answer_is_left_alone_for_longer_and_longer_and_told_of_once(
    ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Mock(spec=logging.Logger)
    monkeypatch.setattr(books, "LOG", log)
    ended.slurm.outage = AccountingDown()
    ended.book.expect(ended.session())
    for _ in range(10 * 60):
        await ended.look_after(60)

    assert 16 <= ended.asked <= 36, "in ten hours, each time with the steps and without"
    log.warning.assert_called_once()
    ended.slurm.end(ended.slurm.outage)
    await ended.look_after(books.SILENT_S[1])
    assert ended.receipt(), "what was due is asked for when it is back"


class TooMuch(Outage):
    """slurmdbd answers, but with more than is read of what concerns one job, and its steps or runs."""

    def __init__(self, *numbers: str) -> None:
        self._numbers = set(numbers)

    def answer(self, command: tuple[str, ...], since_s: float, timeout_s: float) -> Result | None:
        """Nothing that could be read, of all that are asked for with it."""
        numbers = next((one.partition("=")[2].split(",") for one in command if one.startswith("--jobs=")), [])
        if command[0] != "sacct" or not self._numbers & set(numbers) or "--allocations" in command:
            return None
        raise RunError("sacct printed more than 4194304 bytes, and was not read further")


async def test_a_session_with_more_steps_than_can_be_read_keeps_the_receipts_of_the_others_from_nobody(
    ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Mock(spec=logging.Logger)
    monkeypatch.setattr(books, "LOG", log)
    keys = [f"abc123{number:010x}" for number in range(8)]
    sessions = [ended.session(key, after_s=60, usage=Usage(60, 2048)) for key in keys]
    for one in sessions:
        ended.book.expect(one)
    ended.slurm.outage = TooMuch(sessions[3].job_id)
    await ended.look_after(AFTER_S[0] + 60)

    found = [ended.receipt(key) for key in keys]
    whole = [one for one in found if one and one.memory_peak_mib]
    assert len(whole) == 7
    assert found[3]
    assert (found[3].seconds, found[3].cores, found[3].memory_peak_mib) == (60, 16, None)
    log.warning.assert_called_once()
    assert sessions[3].job_id in log.warning.call_args.args


async def test_a_session_with_too_many_steps_is_asked_for_without_them_from_then_on(ended: Ended) -> None:
    runs, other = ended.session(after_s=10_000), ended.session("abc1239999999999", after_s=10_000)
    for one in (runs, other):
        ended.book.expect(one)
    ended.slurm.outage = TooMuch(runs.job_id)
    await ended.look_after(AFTER_S[0])
    before = ended.asked
    await ended.look_after(AFTER_S[1])

    assert ended.asked == before + 2, "one command for it, one for the others"


def test_without_steps_an_answer_has_one_line_of_each_job() -> None:
    asked = command({"17": "dsportal-a"}, COLUMNS, is_bare=True)

    assert "--allocations" in asked
    assert "--duplicates" not in asked


async def test_a_cluster_without_accounting_is_given_up_after_a_day(ended: Ended) -> None:
    ended.slurm.outage = AccountingDown()
    ended.book.expect(ended.session())
    await ended.look_after(books.KNOWN_FOR_S + 1)
    before = ended.asked
    await ended.look_after(books.KNOWN_FOR_S)

    assert ended.asked == before


async def test_a_column_that_slurm_does_not_know_does_not_lose_the_rest(
    ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "portal.testing.accounted.COLUMNS", tuple(one for one in COLUMNS if one not in ("NTasks", "TRESUsageInMax"))
    )
    ended.book.expect(ended.session(usage=Usage(60, 2048, 50)))
    await ended.look_after(3601)

    found = ended.receipt()
    assert found
    assert (found.memory_peak_mib, found.gpu_busy_percent) == (2, None)
    assert ended.asked == 3
    ended.book.expect(ended.session("abc1230000000000", after_s=60))
    await ended.look_after(AFTER_S[0] + 60)
    assert ended.asked == 4, "it is not asked for again"


async def test_a_number_that_is_another_job_by_now_gives_no_receipt(ended: Ended) -> None:
    before = ended.session(after_s=1)
    ended.slurm.lose_state()
    ended.session("abc1239999999999", after_s=1)
    ended.book.expect(before)
    await ended.look_after(AFTER_S[0])

    assert ended.receipt() is None


async def test_two_sessions_whose_jobs_had_the_same_number_have_each_its_own(ended: Ended) -> None:
    before = ended.session(after_s=1)
    ended.slurm.lose_state()
    after = ended.session("abc1239999999999", after_s=1)
    ended.book.expect(before)
    ended.book.expect(after)
    await ended.look_after(AFTER_S[0])

    assert ended.receipt() is None
    assert ended.receipt(after.key)


async def test_a_hub_that_was_restarted_asks_for_those_that_had_none(ended: Ended, db: Any) -> None:
    ended.session(after_s=1)
    other = ended.session("abc1239999999999", after_s=1)
    store.add_receipts(db, {other.key: asdict(RECEIPT)})
    await ended.look_after(1)
    await ended.look_after(AFTER_S[0])

    assert ended.receipt()
    assert ended.receipt(other.key) == RECEIPT
    (asked,) = [command for command in ended.slurm.asked if command[0] == "sacct"]
    assert "--jobs=1" in asked


@pytest.mark.parametrize("changes", [{"job_id": ""}, {"job_id": "1;x"}, {"key": "a"}, {"receipt": RECEIPT}])
async def test_what_has_no_job_or_has_its_receipt_is_not_asked_for(ended: Ended, changes: Mapping[str, Any]) -> None:
    ended.book.expect(replace(ended.session(after_s=1), **changes))
    ended.book._has_looked_back = True
    await ended.look_after(10**4)

    assert ended.asked == 0


async def test_of_a_job_that_accounting_has_as_running_for_ever_there_is_no_receipt(ended: Ended) -> None:
    ended.book.expect(ended.session(after_s=10**6))
    for after in AFTER_S:
        await ended.look_after(after)

    assert ended.asked == len(AFTER_S)
    assert ended.receipt() is None


async def test_a_step_of_which_accounting_hears_no_end_keeps_the_receipt_away_for_a_while_only(
    ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = "1.batch|Unknown|60|cpu=16|00:01:00|1|1G||\n"
    monkeypatch.setattr("portal.testing.accounted.step_line", lambda *_: step)
    ended.book.expect(ended.session(after_s=10))
    for after in AFTER_S[:-1]:
        await ended.look_after(after)
    assert ended.receipt() is None
    await ended.look_after(AFTER_S[-1])

    found = ended.receipt()
    assert found
    assert (found.cpu_s, found.memory_peak_mib) == (60, GIB)


async def test_the_log_that_comes_later_leaves_the_receipt(ended: Ended, db: Any) -> None:
    one = ended.session(after_s=1)
    store.add_receipts(db, {one.key: asdict(RECEIPT)})
    store.keep(db, 1, one.key, one.ended_at, replace(one, log="bye").to_text(), 30)
    store.add_receipts(db, {one.key: asdict(Receipt(1)), "gone": asdict(RECEIPT)})

    (text,) = store.of_person(db, 1, 30)
    found = EndedSession.from_text(text)
    assert (found.receipt, found.log) == (RECEIPT, "bye")


async def test_a_receipt_that_cannot_be_kept_is_asked_for_once_more(
    ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended.book.expect(ended.session(after_s=1))
    with monkeypatch.context() as fails:
        fails.setattr(store, "add_receipts", Mock(side_effect=SQLAlchemyError("database is locked")))
        with pytest.raises(SQLAlchemyError):
            await ended.look_after(AFTER_S[0])
    await ended.look_after(1)

    assert ended.receipt()


async def test_a_slurm_that_does_not_answer_is_no_failure_of_the_look(ended: Ended) -> None:
    ended.book.expect(ended.session())
    ended.cluster.answer = Mock(side_effect=SlurmUnavailable("x", detail="sacct did not answer"))  # type: ignore[method-assign]

    await ended.look_after(AFTER_S[0])

    assert ended.receipt() is None


def test_an_end_that_is_kept_is_expected_to_get_its_receipt(db: Any) -> None:
    alice = spawner_of(db, "alice")
    alice.session.note_end("It ended.")

    assert [one.job_id for one in alice.context.receipts._waiting.values()] == ["17"]


# -- what a person reads --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (
            RECEIPT,
            "4.0 | at most 97 % of 200 % | at most 9.0 GB | 32.0 | 13 % on average"
            " | at most 12 GB of 96 GB | 2.0 kWh",
        ),
        (Receipt(60, 8, 1, 48 * GIB), "0.02 | not measured | 0.13 | not measured | not measured"),
        (
            Receipt(3600, 8, 1, 48 * GIB, gpu_busy_percent=0),
            "1.0 | no work was seen | 8.0 | not measured | not measured",
        ),
        (Receipt(3600, 2, 0, 8 * GIB, 3.6, 300), "2.0 | less than 1 % on average | at most 0.3 GB of 8.0 GB"),
        (
            replace(RECEIPT, has_steps=True, gpus=1, energy_j=9000),
            "2.0 | at most 97 % in one task | at most 9.0 GB in one task | 32.0 | 13 % on average"
            " | at most 12 GB of 96 GB in one task | 2 Wh",
        ),
    ],
)  # fmt: skip
def test_the_words_say_what_was_measured_and_what_was_not(one: Receipt, said: str) -> None:
    assert " | ".join(value for _, value in words(one)) == said


def test_figures_are_short() -> None:
    assert [hours(count) for count in (0.004, 0.5, 3.25, 1240)] == ["0.00", "0.50", "3.2", "1,240"]
    assert [gb(mib) for mib in (100, 12 * GIB)] == ["0.1 GB", "12 GB"]
    assert [energy(joules) for joules in (3600, 36_000_000)] == ["1 Wh", "10.0 kWh"]


def test_my_server_shows_the_receipt_and_without_one_nothing_is_said_of_it(site: Site) -> None:
    one = EndedSession("a", 1_795_195_200, options={"partition": "sxm2", "gpus": 2, "hours": 8}, receipt=RECEIPT)

    page = home(rows([one], site, ALICE))
    none = home(rows([replace(one, receipt=None), replace(one, receipt=Receipt())], site, ALICE))

    assert "at most 97 % of 200 %" in page.words
    assert "GPU-hours" in page.words
    assert "GPU-hours" not in none.words
    assert "not measured" not in none.words


def test_a_receipt_that_makes_no_sense_is_none() -> None:
    nonsense: tuple[object, ...] = (None, [], "x", 5)
    for saved in nonsense:
        text = json.dumps({"key": "a", "ended_at": 1, "receipt": saved})
        assert EndedSession.from_text(text).receipt is None
    newer = json.dumps({"key": "a", "ended_at": 1, "receipt": {"seconds": 5, "more": 1}})
    assert EndedSession.from_text(newer).receipt == Receipt(5)
    assert EndedSession.from_text(EndedSession("a", 1, receipt=RECEIPT).to_text()).receipt == RECEIPT


async def test_rest_tells_the_receipt_in_figures(site: Site) -> None:
    with_one = EndedSession("abc123", 1_795_195_200, receipt=RECEIPT)
    handler = asked_by(person_with([with_one, replace(with_one, receipt=None)]), {"read:servers"})
    written: list[Any] = []
    handler.write = written.append

    await handler.get()

    told, none = (one["receipt"] for one in written[0]["sessions"])
    assert none is None
    assert (told["gpu_hours"], told["core_hours"], told["cores_busy"]) == (4, 32, 2)
    assert (told["gpu_busy_percent"], told["memory_peak_mib"], told["energy_j"]) == (97, 12 * GIB, 7_200_000)


def test_the_page_is_text_whatever_a_record_holds(site: Site) -> None:
    one = EndedSession("a", 1_795_195_200, receipt=replace(RECEIPT, gpu_busy_percent=HOSTILE))  # type: ignore[arg-type]

    assert "<script>alert" not in home_html(rows([one], site, ALICE))
