"""A person's jobs: what Slurm says of them beside what is remembered, asked for once for everybody who looks."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from portal.errors import RequestError, SlurmUnavailable, SubmitRefused
from portal.homes.log_part import LOG_PART_BYTES, read_part
from portal.jobs import notes, queue
from portal.jobs.desk import JobDesk
from portal.jobs.notes import Note
from portal.jobs.order import order_of
from portal.slurm.runner import Result, RunError
from tests.unit.recorded import VERSIONS, case

LINE = "{id}|{state}|sxm2|alice|{node}|1790000000|1790000060|1790003600|100|{reason}|=|{name}"
UID = os.getuid()


def line(job_id: str, state: str = "RUNNING", node: str = "gpu01", reason: str = "None", name: str = "train") -> str:
    return LINE.format(id=job_id, state=state, node=node, reason=reason, name=name).replace("|=|", "|=")


class Slurm:
    """Answers as Slurm's commands do, and keeps what it was asked."""

    def __init__(self, home: Path) -> None:
        self.answers = {"squeue": Result(0, "", ""), "sacct": Result(0, "", ""), "scontrol": Result(0, "", "")}
        self.asked: list[tuple[str, ...]] = []
        self.environ: Mapping[str, str] = {}
        self.now = 1000.0
        self.home = home
        self.desk = JobDesk(
            {"HOME": str(home), "PATH": "/usr/bin:/bin", "JUPYTERHUB_API_TOKEN": "secret", "BASH_ENV": "/i"},
            run=self,
            clock=lambda: self.now,
            now=lambda: 1_790_000_000 + self.now,
        )

    async def __call__(
        self, argv: Sequence[str], stdin: str = "", env: Mapping[str, str] | None = None, timeout_s: float = 10
    ) -> Result:
        self.asked.append(tuple(argv))
        self.environ = env or {}
        await asyncio.sleep(0)
        name = next(word for word in argv if word != "env" and not word.startswith("--chdir"))
        answer = self.answers.get(name)
        if answer is None:
            raise RunError(f"{name} did not answer within {timeout_s:g} s")
        return answer

    def lists(self, *lines: str) -> None:
        self.answers["squeue"] = Result(0, "".join(f"{one}\n" for one in lines), "")

    def times(self, name: str) -> int:
        return sum(argv[0] == name for argv in self.asked)


@pytest.fixture
def slurm(tmp_path: Path) -> Slurm:
    return Slurm(tmp_path)


async def test_one_squeue_answers_all_who_ask_in_the_same_seconds(slurm: Slurm) -> None:
    slurm.lists(line("7"))

    for views in await asyncio.gather(*[slurm.desk.jobs() for _ in range(20)]):
        assert [view.id for view in views] == ["7"]
    await slurm.desk.job("7")

    assert slurm.times("squeue") == 1
    slurm.now += 11
    await slurm.desk.jobs()
    assert slurm.times("squeue") == 2
    assert "secret" not in slurm.environ.values()


async def test_state_and_reason_are_words_and_sessions_are_not_listed(slurm: Slurm) -> None:
    slurm.lists(
        line("9", "PENDING", "", "Priority"),
        line("8", "PENDING", "", "BadConstraints"),
        line("7"),
        line("6", name="dsportal-0123456789abcdef"),
        line("5_[0-3]", "PENDING", "", "Resources"),
        line("4", "TIMEOUT", "gpu01"),
    )
    assert {view.id: view.words for view in await slurm.desk.jobs()} == {
        "9": "waits: other jobs are ahead in the queue",
        "8": "waits: no node of the partition has what was asked for (Slurm's reason: BadConstraints). "
        "This does not end by itself: cancel it and choose otherwise, or ask your administrator.",
        "7": "runs on gpu01",
        "5_[0-3]": "waits: all fitting GPUs, cores or memory are in use",
        "4": "its hours were used up before it was done: give it more with --hours",
    }


async def test_a_name_of_several_lines_hides_no_job(slurm: Slurm) -> None:
    slurm.lists(line("9", name="two\nlines | and = more"), line("7", name=""))
    assert {view.id: view.name for view in await slurm.desk.jobs()} == {"9": "two", "7": ""}


@pytest.mark.parametrize("answer", [None, Result(1, "", "slurm_load_jobs error"), Result(0, "nonsense", "")])
async def test_while_slurm_is_silent_nothing_is_said_of_jobs(slurm: Slurm, answer: Result | None) -> None:
    slurm.answers["squeue"] = answer  # type: ignore[assignment]
    with pytest.raises(SlurmUnavailable):
        await slurm.desk.jobs()


async def test_a_job_that_slurm_has_forgotten_is_asked_of_accounting_once(slurm: Slurm) -> None:
    for number in (3, 4):
        note = Note(str(number), "a.py", "/h/a.py", 1_790_000_000, "/h/a-%j.log")
        notes.write(notes.folder_of({"HOME": str(slurm.home)}), note)
    slurm.answers["sacct"] = Result(0, "3|FAILED|3:0\n9|RUNNING|0:0\n", "")

    for _ in range(3):
        views = {view.id: view for view in await slurm.desk.jobs()}
        slurm.now += 11

    assert views["3"].words == "failed with exit status 3"
    assert views["3"].log == "/h/a-3.log"
    assert views["4"].words == "ended; Slurm has forgotten how"
    assert slurm.times("sacct") == 1
    slurm.now += 60
    await slurm.desk.jobs()
    assert slurm.asked[-1][-1] == "--jobs=4"


async def test_what_was_submitted_is_remembered(slurm: Slurm) -> None:
    (slurm.home / "a.ipynb").write_text("{}")
    slurm.answers["sbatch"] = Result(0, "12\n", "")
    slurm.lists(line("12_1"), line("12_[2-3]", "PENDING", "", "Resources"))

    await slurm.desk.submit(order_of(slurm.home / "a.ipynb", slurm.home, {"array": "1-3"}))

    views = {view.id: view for view in await slurm.desk.jobs()}
    assert views["12_1"].output == f"{slurm.home}/a-12_1.ipynb"
    assert (views["12_[2-3]"].file, views["12_[2-3]"].output) == (f"{slurm.home}/a.ipynb", "")
    assert (slurm.home / ".local/share/dsportal/jobs/12.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["x" * 5000, "\ud800"], ids=["too long", "no text"])
async def test_a_name_that_no_file_can_have_is_refused_as_one_that_is_not_there(slurm: Slurm, name: str) -> None:
    with pytest.raises(RequestError, match="script that is there"):
        await slurm.desk.submit(order_of(slurm.home / f"{name}.sh", slurm.home, {}))


async def test_a_refusal_and_a_silence_are_told_apart(slurm: Slurm) -> None:
    (slurm.home / "a.sh").write_text("")
    order = order_of(slurm.home / "a.sh", slurm.home, {})

    slurm.answers["sbatch"] = Result(1, "", "sbatch: error: invalid partition specified: x\n")
    with pytest.raises(SubmitRefused, match="There is no such partition"):
        await slurm.desk.submit(order)
    slurm.answers["sbatch"] = Result(1, "", "sbatch: error: Unable to contact slurm controller (connect failure)")
    with pytest.raises(SlurmUnavailable, match="try again in a minute"):
        await slurm.desk.submit(order)
    slurm.answers["sbatch"] = Result(-signal.SIGPIPE, "", "")
    with pytest.raises(SlurmUnavailable, match="try again in a minute"):
        await slurm.desk.submit(order)
    with pytest.raises(RequestError, match=r"file: '/none/a\.sh' is not possible here"):
        await slurm.desk.submit(order_of(Path("/none/a.sh"), slurm.home, {}))


async def test_only_ones_own_jobs_are_cancelled_an_array_as_a_whole_or_by_task(slurm: Slurm) -> None:
    slurm.lists(line("12_1"), line("12_2"))

    slurm.answers["scancel"] = Result(0, "", "")
    await slurm.desk.cancel("12")
    await slurm.desk.cancel("12_1")
    assert [argv for argv in slurm.asked if argv[0] == "scancel"] == [("scancel", "12"), ("scancel", "12_1")]


async def test_a_job_of_somebody_else_is_no_job(slurm: Slurm) -> None:
    slurm.lists(line("7"))
    for ask in (slurm.desk.job, slurm.desk.log, slurm.desk.cancel):
        with pytest.raises(RequestError, match=r"job: '8' is not possible here\. Allowed: your own jobs: 7"):
            await ask("8")
        with pytest.raises(RequestError, match="the number of a job, such as 4711"):
            await ask("--all")


async def test_a_log_is_read_from_where_one_was_until_the_job_is_over(slurm: Slurm) -> None:
    log = slurm.home / "slurm-7.out"
    log.write_text("grüße")
    slurm.lists(line("7"))
    shown = f"JobId=7 JobName=x\n   UserId=alice({UID}) GroupId=x(1)\n   StdOut={log}\n"
    slurm.answers["scontrol"] = Result(0, shown, "")

    first = await slurm.desk.log("7")
    assert (first.text, first.next, first.is_over) == ("grüße", 7, False)
    log.write_text("grüße\nende")
    slurm.lists(line("7", "COMPLETED"))
    slurm.now += 20
    rest = await slurm.desk.log("7", first.next)
    assert (rest.text, rest.is_over) == ("\nende", False), "more may have come meanwhile"
    assert (await slurm.desk.log("7", rest.next)).is_over


async def test_who_follows_a_log_reads_its_file_and_leaves_slurm_alone(slurm: Slurm) -> None:
    log = slurm.home / "slurm-7.out"
    log.write_text("")
    slurm.lists(line("7"))
    shown = f"JobId=7 JobName=x\n   UserId=alice({UID}) GroupId=x(1)\n   StdOut={log}\n"
    slurm.answers["scontrol"] = Result(0, shown, "")
    start = 0
    for second in range(120):
        with log.open("a") as file:
            file.write(f"{second}\n")
        slurm.now += 2
        part = await slurm.desk.log("7", start)
        assert (part.text, part.is_over) == (f"{second}\n", False)
        start = part.next
    assert (slurm.times("squeue"), slurm.times("scontrol")) == (1, 1), "once for where it is"

    for _ in range(30):  # a minute in which it writes nothing
        slurm.now += 2
        assert not (await slurm.desk.log("7", start)).is_over
    assert (slurm.times("squeue"), slurm.times("scontrol")) == (5, 1)

    slurm.answers["squeue"] = Result(1, "", "slurm_load_jobs error")
    slurm.now += 60
    silent = await slurm.desk.log("7", start)
    assert (silent.text, silent.is_over) == ("", False), "a silent Slurm ends no job"


async def test_a_log_that_somebody_follows_is_over_when_its_job_is(slurm: Slurm) -> None:
    log = slurm.home / "slurm-7.out"
    log.write_text("a")
    slurm.lists(line("7"))
    slurm.answers["scontrol"] = Result(0, f"   UserId=alice({UID}) x\n   StdOut={log}\n", "")
    first = await slurm.desk.log("7")
    slurm.lists()  # Slurm has forgotten it
    slurm.now += 20

    assert (first.text, first.is_over) == ("a", False)
    assert (await slurm.desk.log("7", first.next)).is_over


def test_no_letter_is_cut_in_two_and_a_log_that_is_not_there_yet_is_empty(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert read_part(str(log), 0, False).text == ""
    log.write_text("x" * (LOG_PART_BYTES - 1) + "é")

    first = read_part(str(log), 0, True)
    assert (first.next, first.is_over) == (LOG_PART_BYTES - 1, False)
    assert read_part(str(log), first.next, True).text == "é"
    assert read_part(str(log), 10**9, False).text.startswith("xxx"), "a shorter log is a new one"


def test_notes_that_cannot_be_read_are_passed_over_and_few_are_kept(tmp_path: Path) -> None:
    for number in range(notes.KEPT + 3):
        notes.write(tmp_path, Note(str(number), "n", "/f", 1))
    (tmp_path / "9999.json").write_text("[]")
    (tmp_path / "9998.json").symlink_to(tmp_path / "100.json")

    known = notes.read(tmp_path)

    assert next(iter(known)) == str(notes.KEPT + 2)
    assert "0" not in known
    assert not known.keys() & {"9998", "9999"}


@pytest.mark.parametrize("version", VERSIONS)
def test_what_each_slurm_shows_of_a_job_is_read(version: str) -> None:
    shown = case(version, "scontrol-show-job-array").stdout
    assert queue.parse_log(shown, 2002).endswith("_%a.out")
    assert queue.parse_log(shown, 2001) == ""
    assert queue.parse_status(shown) is None
    jobs = case(version, "scontrol-show-job-a").stdout.split("\n\n")
    failed = next(text for text in jobs if "JobName=fail3" in text)
    assert queue.parse_status(failed.strip("\n")) == queue.OwnJobEnd("FAILED", 3, 0)


@pytest.mark.parametrize(("mode", "starts"), [(0o700, "its own"), (0o777, "the site's")])
async def test_what_lies_in_a_folder_that_others_can_change_is_no_program_of_the_jobs(
    tmp_path: Path, mode: int, starts: str
) -> None:
    """An empty word in PATH, as files of modules or shells leave it, names the folder that sbatch begins in."""
    here, site = tmp_path / "here", tmp_path / "site"
    for folder, words in ((here, "its own"), (site, "the site's")):
        folder.mkdir()
        (folder / "sbatch").write_text(f'#!/bin/sh\necho "{words}:$LD_LIBRARY_PATH" >&2\nexit 1\n')
        (folder / "sbatch").chmod(0o755)
    (here / "train.sh").write_text("")
    here.chmod(mode)
    desk = JobDesk({"HOME": str(tmp_path), "PATH": f":{site}:/usr/bin:/bin", "LD_LIBRARY_PATH": ":/opt/lib"})

    with pytest.raises(SubmitRefused) as refused:
        await desk.submit(order_of(here / "train.sh", here, {}))

    libraries = ":/opt/lib" if starts == "its own" else "/opt/lib"
    assert f"{starts}:{libraries}" in f"{refused.value.message} {refused.value.detail}"


@pytest.mark.parametrize(
    ("name", "written"),
    [("train.py", "{}/train-%j.log"), ("learn.ipynb", "{}/learn-%j.log"), ("run.sh", "")],
)
@pytest.mark.parametrize("mode", [0o700, 0o777, 0o1777, 0o770])
async def test_in_a_folder_that_others_can_change_nothing_is_written_in_whose_place_they_could_put_a_link(
    slurm: Slurm, name: str, written: str, mode: int
) -> None:
    slurm.home.chmod(0o700)
    shared = slurm.home / "shared"
    shared.mkdir()
    (shared / name).write_text("")
    shared.chmod(mode)
    slurm.answers["sbatch"] = Result(0, "7\n", "")

    note = await slurm.desk.submit(order_of(shared / name, shared, {}))

    own = shared if mode == 0o700 else slurm.home / "jobs"
    submitted = next(argv for argv in slurm.asked if "sbatch" in argv)
    given = [word.partition("=")[2] for word in submitted if word.startswith("--output=")]
    assert [str(shared / one) for one in given] == ([written.format(own)] if written else [])
    assert note.log == written.format(own)
    assert note.output == (f"{own}/learn-%j.ipynb" if name == "learn.ipynb" else "")
    if own != shared and written:
        assert own.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("there", ["a folder of the group's", "a link to one", "a file"])
async def test_where_jobs_is_something_else_a_job_writes_into_another_folder_of_ones_own(
    slurm: Slurm, there: str
) -> None:
    slurm.home.chmod(0o700)
    for name in ("shared", "groups"):
        (slurm.home / name).mkdir()
        (slurm.home / name).chmod(0o770)
    (slurm.home / "shared/train.py").write_text("")
    jobs = slurm.home / "jobs"
    if there == "a file":
        jobs.write_text("")
    elif there == "a link to one":
        jobs.symlink_to("groups")
    else:
        (slurm.home / "groups").rename(jobs)
    slurm.answers["sbatch"] = Result(0, "7\n", "")

    note = await slurm.desk.submit(order_of(slurm.home / "shared/train.py", slurm.home / "shared", {}))

    assert note.log == f"{slurm.home}/jobs-of-the-portal/train-%j.log"
    assert (slurm.home / "jobs-of-the-portal").stat().st_mode & 0o777 == 0o700


async def test_where_others_can_change_the_home_itself_a_job_writes_where_it_would(slurm: Slurm) -> None:
    slurm.home.chmod(0o777)
    (slurm.home / "train.py").write_text("")
    slurm.answers["sbatch"] = Result(0, "7\n", "")

    note = await slurm.desk.submit(order_of(slurm.home / "train.py", slurm.home, {}))

    assert note.log == f"{slurm.home}/train-%j.log"


@pytest.mark.parametrize("place", ["a project's", "in the home", "behind a link of one's own"])
async def test_a_folder_of_a_project_is_more_open_than_a_home_that_a_group_of_ones_own_can_change(
    slurm: Slurm, tmp_path_factory: pytest.TempPathFactory, place: str
) -> None:
    slurm.home.chmod(0o775)
    project = (slurm.home if place == "in the home" else tmp_path_factory.mktemp("project")) / "theirs"
    project.mkdir()
    (project / "train.py").write_text("")
    os.chown(project, -1, 4_000_001)
    project.chmod(0o2770)
    slurm.answers["sbatch"] = Result(0, "7\n", "")
    if place == "behind a link of one's own":
        project.chmod(0o755)
        project.parent.chmod(0o2770)  # others may put another folder in its place
        os.chown(project.parent, -1, 4_000_001)
        (slurm.home / "exp").symlink_to(project)
        project = slurm.home / "exp"

    note = await slurm.desk.submit(order_of(project / "train.py", project, {}))

    assert note.log == f"{slurm.home}/jobs/train-%j.log"
    assert (slurm.home / "jobs").stat().st_mode & 0o777 == 0o700


def test_where_a_job_writes_is_nobodys_option(slurm: Slurm) -> None:
    with pytest.raises(RequestError, match="results"):
        order_of(slurm.home / "train.py", slurm.home, {"results": "/etc"})
