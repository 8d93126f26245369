"""The shared picture: one query for all, no answer is never an end, a lost answer is not a lost job."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence

import pytest

from portal.errors import AccountGone, ActingRefused, SlurmUnavailable, SubmitRefused
from portal.slurm.accounting import JobEnd
from portal.slurm.cluster import Cluster
from portal.slurm.jobs import Phase, squeue_command
from portal.slurm.runner import Result, RunError
from portal.slurm.submission import Submission
from portal.testing.bad_answers import READ_RIGHTLY, bad_answers
from portal.testing.fake_slurm import FakeSlurm
from portal.testing.outages import NoOutage

RUNNING = "7|RUNNING|sxm2|alice|gpu02|2026-11-21T09:00:00|2026-11-21T09:00:01|2026-11-21T17:00:01|1|None|=\n"
UP = "Slurmctld(primary) at head is UP\n"
DOWN = "Slurmctld(primary) at head is DOWN\n"


class ScriptedSlurm:
    """Answers each command with what the test gave it, and remembers what was run."""

    def __init__(self, **answers: Result | RunError) -> None:
        self.answers = answers
        self.ran: list[tuple[str, ...]] = []
        self.stdin: list[str] = []

    async def __call__(
        self, argv: Sequence[str], stdin: str = "", env: Mapping[str, str] | None = None, timeout_s: float = 10
    ) -> Result:
        await asyncio.sleep(0)
        self.ran.append(tuple(argv))
        self.stdin.append(stdin)
        verb = {"scontrol": "_ping" if "ping" in argv else "_show"}.get(argv[0], "")
        answer = self.answers[argv[0] + verb]
        if isinstance(answer, RunError):
            raise answer
        return answer


def good(stdout: str) -> Result:
    return Result(0, stdout, "")


def bad(stderr: str) -> Result:
    return Result(1, "", stderr)


def cluster(slurm: ScriptedSlurm, now: list[float] | None = None) -> Cluster:
    clock = now or [100.0]
    return Cluster("/opt/portal-launch", run=slurm, clock=lambda: clock[0])


async def test_a_hundred_sessions_that_look_at_once_ask_slurm_once() -> None:
    slurm = ScriptedSlurm(squeue=good(RUNNING))
    ours = cluster(slurm)

    seen = await asyncio.gather(*(ours.queue() for _ in range(100)))

    assert len(slurm.ran) == 1
    assert all(snapshot.jobs["7"].node == "gpu02" for snapshot in seen)


async def test_a_picture_is_asked_anew_only_when_it_is_too_old() -> None:
    slurm, now = ScriptedSlurm(squeue=good(RUNNING)), [100.0]
    ours = cluster(slurm, now)

    for now[0] in (100.0, 104.0, 106.0):
        await ours.queue(max_age_s=5)

    assert len(slurm.ran) == 2


@pytest.mark.parametrize(
    "answer",
    [
        RunError("squeue did not answer within 15 s"),
        bad("slurm_load_jobs error: Unable to contact slurm controller (connect failure)"),
        bad("squeue: error: If munged is up, restart with --num-threads=10"),
        good("garbage\n"),
    ],
)
async def test_no_answer_keeps_the_last_good_picture_with_its_age(answer: Result | RunError) -> None:
    slurm, now = ScriptedSlurm(squeue=good(RUNNING)), [100.0]
    ours = cluster(slurm, now)
    await ours.queue()
    slurm.answers["squeue"], now[0] = answer, 130.0

    snapshot = await ours.queue()

    assert snapshot.error is not None
    assert snapshot.jobs["7"].state == "RUNNING"
    assert snapshot.age_s(now[0]) == 30.0


@pytest.mark.parametrize(("ping", "believed"), [(good(UP), True), (good(DOWN), False), (bad("no"), False)])
async def test_an_empty_queue_is_believed_only_when_slurm_says_that_it_is_well(ping: Result, believed: bool) -> None:
    ours = cluster(ScriptedSlurm(squeue=good(""), scontrol_ping=ping))

    snapshot = await ours.queue()

    assert (snapshot.error is None) is believed


async def test_a_submission_goes_through_sudo_as_the_person_with_secrets_on_stdin_only() -> None:
    slurm = ScriptedSlurm(sudo=good('{"ok": true, "job_id": "42"}'))

    job_id = await cluster(slurm).submit("alice", Submission("0" * 16, ("--time=60",), {"JUPYTERHUB_API_TOKEN": "s3"}))

    assert job_id == "42"
    assert slurm.ran == [
        ("sudo", "--non-interactive", "--set-home", "--user", "alice", "--", "/opt/portal-launch"),
    ]
    assert json.loads(slurm.stdin[0])["environment"] == {"JUPYTERHUB_API_TOKEN": "s3"}


async def test_a_refusal_of_sbatch_comes_with_slurms_own_words() -> None:
    words = "sbatch: error: Batch job submission failed: Invalid partition name specified"
    ours = cluster(ScriptedSlurm(sudo=good(json.dumps({"ok": False, "refused": True, "message": words}))))

    with pytest.raises(SubmitRefused, match="Invalid partition name specified"):
        await ours.submit("alice", Submission("0" * 16, (), {}))


@pytest.mark.parametrize(
    "answer",
    [
        good(
            json.dumps({"ok": False, "unknown": True, "message": "sbatch: error: Unable to contact slurm controller"})
        ),
        good(json.dumps({"ok": True, "job_id": "a message of the day\n42"})),
        good("[" * 100_000),  # what runs as a person prints what the person wants
        RunError("sudo did not answer"),
        Result(1, "", "sudo: a password is required"),
    ],
)
async def test_a_slurm_that_does_not_answer_is_not_a_refusal(answer: Result | RunError) -> None:
    with pytest.raises(SlurmUnavailable):
        await cluster(ScriptedSlurm(sudo=answer)).submit("alice", Submission("0" * 16, (), {}))


SUDO_REFUSES = [
    "sudo: a password is required\n",
    "Sorry, user portal is not allowed to execute '/opt/portal-launch' as root on head.\n",
    "portal is not in the sudoers file.\n",
    "sudo: unable to resolve host head: Name or service not known\nSorry, user portal may not run sudo on head.\n",
    "sudo: /opt/portal-launch: command not found\n",
    "sudo: account validation failure, is your account locked?\n",
    "sudo-rs: I'm sorry portal. I'm afraid I can't do that\n",
]


@pytest.mark.parametrize("words", SUDO_REFUSES)
async def test_what_sudo_refuses_is_told_at_once_in_plain_words_and_no_job_is_looked_for(words: str) -> None:
    slurm = ScriptedSlurm(sudo=Result(1, "", words))

    with pytest.raises(ActingRefused) as refused:
        await cluster(slurm).submit_or_find("root", Submission("0" * 16, (), {}))

    assert {command[0] for command in slurm.ran} == {"sudo"}
    assert len(slurm.ran) == 1
    assert "on its host sudo does not let it act as root. Tell your administrator: `portal doctor --person root`" in (
        refused.value.message
    )
    assert words.strip() in refused.value.detail


async def test_who_has_no_account_on_this_host_is_told_so_at_once() -> None:
    slurm = ScriptedSlurm(sudo=Result(1, "", "sudo: unknown user nobody-of-this-name\n"))

    with pytest.raises(AccountGone, match="it knows nobody called nobody-of-this-name") as gone:
        await cluster(slurm).submit_or_find("nobody-of-this-name", Submission("0" * 16, (), {}))

    assert len(slurm.ran) == 1
    assert "unknown user" in gone.value.detail


@pytest.mark.parametrize("words", ["Traceback (most recent call last):\n", "sudo: unable to resolve host head\n", ""])
async def test_a_launcher_that_died_may_have_submitted_the_job_so_it_is_looked_for(words: str) -> None:
    slurm = ScriptedSlurm(sudo=Result(1, "", words), squeue=good("42|root\n"), scontrol_ping=good(UP))

    assert await cluster(slurm).submit_or_find("root", Submission("0" * 16, (), {})) == "42"


async def test_sudo_speaks_plain_english_whatever_the_hub_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Mapping[str, str] | None] = []

    class Listening(ScriptedSlurm):
        async def __call__(
            self, argv: Sequence[str], stdin: str = "", env: Mapping[str, str] | None = None, timeout_s: float = 10
        ) -> Result:
            given.append(env)
            return await super().__call__(argv, stdin, env, timeout_s)

    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    await cluster(Listening(sudo=good('{"ok": true, "job_id": "42"}'))).submit("alice", Submission("0" * 16, (), {}))

    (env,) = given
    assert env is not None
    assert env["LC_ALL"] == "C"


async def test_the_job_of_somebody_whom_sudo_refuses_is_ended_by_the_hub_or_tried_again() -> None:
    refused = Result(1, "", "Sorry, user portal is not allowed to execute 'portal-launch' as root on head.\n")
    slurm = ScriptedSlurm(sudo=refused, scancel=Result(1, "", "scancel: error: Access/permission denied\n"))
    ours = cluster(slurm)

    with pytest.raises(SlurmUnavailable) as failed:
        await ours.finish("root", "0" * 16, "7")
    assert "sudo does not let the hub act as root, and as this account: scancel: error" in failed.value.detail
    assert ours.unfinished
    slurm = ScriptedSlurm(sudo=refused, scancel=good(""))
    ours = cluster(slurm)
    await ours.finish("root", "0" * 16, "7")

    assert [command for command in slurm.ran if command[0] == "scancel"] == [
        ("scancel", f"--name=dsportal-{'0' * 16}", "7")
    ]
    assert not ours.unfinished


async def test_finishing_answers_the_last_lines_of_the_log() -> None:
    slurm = ScriptedSlurm(sudo=good('{"ok": true, "log": "last words"}'))

    assert await cluster(slurm).finish("alice", "0" * 16, "7", 1766000000) == "last words"
    assert json.loads(slurm.stdin[0]) == {"verb": "finish", "key": "0" * 16, "job_id": "7", "submitted": 1766000000}


FAILED = "JobId=7 JobName=dsportal-0 UserId=alice(20001) JobState=FAILED Reason=None ExitCode=3:0"
FORGOTTEN = bad("slurm_load_jobs error: Invalid job id specified")


@pytest.mark.parametrize(
    ("scontrol", "sacct", "end"),
    [
        (good(FAILED), bad(""), JobEnd("FAILED", "3:0")),
        (good(FAILED.replace("FAILED", "RUNNING")), bad(""), None),
        (FORGOTTEN, good("TIMEOUT|0:0"), JobEnd("TIMEOUT", "0:0")),
        (FORGOTTEN, good("RUNNING|0:0"), None),  # Slurm hides the job from us
        (FORGOTTEN, bad("no accounting"), None),
        (bad("Unable to contact slurm controller"), bad("no"), None),
        (RunError("silent"), good(""), None),
    ],
)
async def test_an_end_is_asked_of_the_controller_first_then_of_accounting(
    scontrol: Result | RunError, sacct: Result, end: JobEnd | None
) -> None:
    assert await cluster(ScriptedSlurm(scontrol_show=scontrol, sacct=sacct)).ended("7") == end


async def test_a_job_that_nobody_knows_any_more_has_ended_only_if_it_was_seen_before() -> None:
    ours = cluster(ScriptedSlurm(scontrol_show=FORGOTTEN, sacct=bad("no accounting")))

    assert await ours.ended("7", was_seen=True) == JobEnd("COMPLETED")
    assert await ours.ended("7", was_seen=False) is None


async def test_a_job_whose_submission_was_not_answered_is_found_by_its_key() -> None:
    assert await cluster(ScriptedSlurm(squeue=good("41|alice\n"))).find("alice", "0" * 16) == "41"


# -- bad answers ----------------------------------------------------------------------------------------

KEY = "0123456789abcdef"


async def running(slurm: FakeSlurm, ours: Cluster) -> str:
    """A job that runs, as the last good picture shows it."""
    job_id = await ours.submit("alice", Submission(KEY, (f"--job-name=dsportal-{KEY}",), {}))
    assert (await ours.queue()).jobs[job_id].phase is Phase.RUNNING
    slurm.advance(60)
    return job_id


async def listing(slurm: FakeSlurm) -> str:
    """What a good squeue prints."""
    return (await slurm(squeue_command())).stdout


NAMES = sorted(bad_answers(RUNNING, "7"))


def test_there_are_many_bad_answers() -> None:
    assert len(NAMES) >= 25
    assert set(NAMES) >= READ_RIGHTLY


@pytest.mark.parametrize("name", NAMES)
async def test_a_bad_answer_of_squeue_keeps_the_last_good_picture_and_ends_no_session(name: str) -> None:
    fake = FakeSlurm()
    ours = Cluster("/opt/portal-launch", run=fake, clock=fake.clock)
    job_id = await running(fake, ours)
    before = ours.last_queue
    fake.outage = bad_answers(await listing(fake), job_id)[name]

    picture = await ours.queue(max_age_s=-1)

    job = picture.jobs.get(job_id)
    if name in READ_RIGHTLY:
        assert picture.error is None
    else:
        assert picture.error is not None, picture.jobs
        assert (picture.jobs, picture.taken_at) == (before.jobs, before.taken_at)
        assert job is not None
        assert job.phase is Phase.RUNNING
    assert await ours.ended(job_id, was_seen=True) is None, "whatever the picture shows, slurmctld is asked"
    fake.outage = NoOutage()
    assert (await ours.queue(max_age_s=-1)).error is None, "and it is forgotten when Slurm answers again"
