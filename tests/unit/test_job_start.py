"""What a job begins is what was submitted, in folders that are still the person's own, whatever others have exchanged.

The batch script runs in a real shell, in the folder that has the path then, as Slurm begins a job.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from portal.errors import PortalError, RequestError, SlurmError
from portal.homes.held_place import KEPT_MAX
from portal.jobs import inside, kept
from portal.jobs.desk import JobDesk
from portal.jobs.order import order_of
from portal.slurm.runner import Result

JOB = Path(__file__).parents[2] / "templates" / "job" / "job.sh"
TASKS = {"SLURM_NTASKS": "2"}
SAYS = "import os, sys\nprint('{}', *sys.argv[1:], os.path.basename(sys.argv[0]))\n"
ALL_THAT_A_PROGRAM_SEES = """
import multiprocessing, os, pickle, sys
from helper import WHO

def work(word):
    return f"{word} by {WHO}"

if __name__ == "__main__":
    print(sorted(set(globals()) - {"__cached__"}), __file__, __spec__, sys.argv, sys.path)
    print(sys.orig_argv[1:], [name for name in os.environ if name.startswith(("PORTAL", "PYTHON"))])
    print(repr(sys.stdin.read()), pickle.loads(pickle.dumps(work)) is work, multiprocessing.__name__)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(work, ["spawned"]))
"""
STRANGER = 54321
COLLEAGUE = 54322


class Cluster:
    """A project's folder that others can change, with one of the person's and one of theirs; and Slurm's part."""

    def __init__(self, home: Path) -> None:
        self.home, self.project = home, home / "project"
        self.mine, self.theirs = self.project / "mine", self.project / "theirs"
        self.project.mkdir()
        for folder in (self.mine, self.theirs):
            folder.mkdir(mode=0o700)
            who = folder.name
            (folder / "train.py").write_text(SAYS.format(who))
            (folder / "helper.py").write_text(f"WHO = {who!r}\n")
            (folder / "learn.ipynb").write_text(json.dumps({"who": who}))
        for path in (self.theirs, *self.theirs.iterdir()):
            os.chown(path, STRANGER, STRANGER)
        self.project.chmod(0o777)
        self.script: list[str] = []
        self.log = self.begins = ""
        (home / "bin").mkdir()
        self._program("srun", 'exec "$@"')
        self._program("words", "printf '%s\\n' \"$@\"")

    def _program(self, name: str, text: str) -> None:
        (self.home / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.home / "bin" / name).chmod(0o755)

    def submit(self, file: Path, folder: Path | None = None, *arguments: str, named: str = "") -> None:
        async def slurm(argv: Sequence[str], *_: Any, **_more: Any) -> Result:
            if "sbatch" in argv:
                at = next(number for number, word in enumerate(argv) if word.endswith("/job.sh"))
                self.script = [str(JOB), *argv[at + 1 :]]
                self.log = next(word for word in argv if word.startswith("--output="))
                self.begins = argv[1]
            return Result(0, "7\n" if "sbatch" in argv else "", "")

        self.work = folder or file.parent
        environ = {"HOME": str(self.home), "PATH": "/usr/bin:/bin", "SLURM_CLUSTER_NAME": named}
        desk = JobDesk(environ, run=slurm)
        asyncio.run(desk.submit(order_of(file, self.work, {"arguments": arguments})))

    @property
    def kept(self) -> Path:
        """The folder with the copy."""
        return Path(self.script[4])

    def start(self, environ: Mapping[str, str] = {}) -> SimpleNamespace:
        env = {"PATH": f"{self.home}/bin:{Path(sys.executable).parent}:/usr/bin:/bin", "SLURM_JOB_ID": "7", **environ}
        words = [f"{self.home}/bin/words" if word == sys.executable else word for word in self.script]
        argv = ["sh", *words]
        done = subprocess.run(argv, cwd=self.work, env=env, capture_output=True, text=True, check=False, timeout=60)
        return SimpleNamespace(status=done.returncode, out=done.stdout, err=done.stderr)

    def exchange(self) -> None:
        self.mine.rename(self.project / "aside")
        self.theirs.rename(self.mine)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    tmp_path.chmod(0o700)
    return Cluster(tmp_path)


@pytest.mark.parametrize("environ", [{}, TASKS], ids=["alone", "in tasks"])
def test_a_program_of_a_folder_that_took_the_place_of_its_own_does_not_run(
    cluster: Cluster, environ: dict[str, str]
) -> None:
    cluster.submit(cluster.mine / "train.py")
    cluster.exchange()

    done = cluster.start(environ)

    assert "theirs" not in done.out
    assert done.status == 1
    assert ". belongs to somebody else than when this job was submitted, or is open to others and was not" in done.err
    assert cluster.log.startswith(f"--output={cluster.home}/jobs/"), "not where they can put a link"


@pytest.mark.parametrize("environ", [{}, TASKS], ids=["alone", "in tasks"])
def test_a_program_runs_where_nothing_was_exchanged(cluster: Cluster, environ: dict[str, str]) -> None:
    cluster.submit(cluster.mine / "train.py", None, "a b", "$(touch x)")
    done = cluster.start(environ)
    assert (done.status, done.out, done.err) == (0, "mine a b $(touch x) train.py\n", "")


@pytest.mark.parametrize("environ", [{}, TASKS], ids=["alone", "in tasks"])
@pytest.mark.parametrize("who", [os.getuid(), STRANGER])
def test_what_is_written_meanwhile_does_not_run(cluster: Cluster, who: int, environ: dict[str, str]) -> None:
    """As with a batch script, by whomever it is; in a folder of hers that others can exchange, or come into."""
    files = (cluster.mine / "train.py", cluster.project / "train.py")
    for file in files:
        file.write_text("print(__name__, __file__)\n")
        cluster.submit(file)
        file.with_name("new").write_text(SAYS.format("meanwhile"))
        os.chown(file.with_name("new"), who, who)
        file.with_name("new").rename(file)
        assert cluster.start(environ).out == f"__main__ {file}\n"
        file.unlink()
        assert cluster.start(environ).out == f"__main__ {file}\n", "as after a requeue"


def test_nor_what_others_write_in_a_file_that_is_open_to_them(cluster: Cluster) -> None:
    """In a folder of her own, where they have it open from before, or by another name."""
    file = cluster.home / "own" / "train.py"
    file.parent.mkdir(mode=0o755)
    file.write_text(SAYS.format("before"))
    file.chmod(0o666)
    cluster.submit(file)
    file.write_text(SAYS.format("theirs"))
    assert cluster.start().out == "before train.py\n"


def test_a_colleagues_program_runs_as_it_was_when_it_was_submitted(cluster: Cluster) -> None:
    file = cluster.project / "theirs.py"
    file.write_text(SAYS.format("theirs"))
    os.chown(file, STRANGER, STRANGER)
    cluster.submit(file)
    file.write_text(SAYS.format("what nobody has seen"))
    assert cluster.start().out == "theirs theirs.py\n"


def test_a_folder_that_a_program_only_works_in_is_looked_at_too(cluster: Cluster) -> None:
    program = cluster.home / "train.py"
    program.write_text(SAYS.format("home"))
    cluster.submit(program, cluster.mine)
    assert cluster.start().out == "home train.py\n"
    cluster.exchange()
    assert cluster.start().status == 1


def test_a_program_of_another_folder_than_the_jobs_is_looked_at_too(cluster: Cluster) -> None:
    cluster.submit(cluster.mine / "train.py", cluster.home)
    assert cluster.start().out == "mine train.py\n"
    cluster.exchange()
    done = cluster.start()
    assert (done.status, done.out) == (1, "")


def test_a_folder_of_her_own_that_is_made_anew_is_as_good(cluster: Cluster) -> None:
    cluster.submit(cluster.mine / "train.py")
    cluster.mine.rename(cluster.project / "aside")
    cluster.mine.mkdir(mode=0o755)
    assert cluster.start().out == "mine train.py\n"


def test_a_folder_of_her_own_that_others_can_write_does_not_take_the_place_of_a_closed_one(cluster: Cluster) -> None:
    cluster.submit(cluster.mine / "train.py")
    cluster.mine.rename(cluster.project / "aside")
    cluster.mine.mkdir()
    cluster.mine.chmod(0o777)
    (cluster.mine / "train.py").write_text(SAYS.format("theirs"))
    os.chown(cluster.mine / "train.py", STRANGER, STRANGER)

    done = cluster.start()

    assert (done.status, done.out) == (1, "")


def test_another_colleagues_folder_in_the_place_of_a_colleagues_does_not(cluster: Cluster) -> None:
    cluster.submit(cluster.theirs / "train.py")
    cluster.theirs.rename(cluster.project / "aside")
    cluster.theirs.mkdir()
    (cluster.theirs / "train.py").write_text(SAYS.format("another"))
    for path in (cluster.theirs, cluster.theirs / "train.py"):
        os.chown(path, COLLEAGUE, COLLEAGUE)

    done = cluster.start()

    assert (done.status, done.out) == (1, "")
    assert "belongs to somebody else than when this job was submitted" in done.err


@pytest.mark.parametrize("before", [0, STRANGER], ids=["root's", "her own"])
@pytest.mark.parametrize("what", ["work", "place"])
def test_what_was_roots_or_her_own_is_no_colleagues(cluster: Cluster, what: str, before: int) -> None:
    """As the batch script sees it where the person is somebody else than root."""
    cluster._program("id", f"echo {STRANGER}")
    file = cluster.mine / "train.py"
    for path in (file, cluster.mine):
        os.chown(path, before, before)
    looks = [f"{before}c" if one == what else f"{before}" for one in ("work", "place")]
    looks[0] += f":{cluster.mine}"
    cluster.script, cluster.work = [str(JOB), "python", *looks, "-", str(file)], cluster.mine
    assert cluster.start().out == "mine train.py\n"
    os.chown(cluster.mine, COLLEAGUE, COLLEAGUE)

    done = cluster.start()

    assert (done.status, done.out) == (1, "")


@pytest.mark.parametrize("kind", ["train.py", "learn.ipynb"])
@pytest.mark.parametrize("what", ["its folder", "the folder above"])
def test_a_link_to_what_is_her_own_is_not_what_she_submitted(cluster: Cluster, what: str, kind: str) -> None:
    """A copy of something of theirs that she has in her home, and has never run: it belongs to her."""
    copy = cluster.home / "copy" / "mine"
    copy.mkdir(parents=True)
    (copy / kind).write_text("print('theirs')")
    cluster.submit(cluster.mine / kind)
    at = {"its folder": cluster.mine, "the folder above": cluster.project}[what]
    to = {"its folder": copy, "the folder above": copy.parent}[what]
    at.rename(at.with_name("aside"))
    at.symlink_to(to)
    os.lchown(at, STRANGER, STRANGER)

    done = cluster.start()

    assert (done.status, done.out) == (1, "")
    assert f"{at} is a link now" in done.err


@pytest.mark.parametrize(("name", "runs"), [("project", True), ("project/mine", False)])
def test_a_link_of_roots_is_of_the_node_where_root_alone_puts_some(cluster: Cluster, name: str, runs: bool) -> None:
    cluster.submit(cluster.mine / "train.py")
    (cluster.home / name).rename(cluster.home / "mounted")
    (cluster.home / name).symlink_to(cluster.home / "mounted")

    done = cluster.start()

    assert (done.status, done.out) == ((0, "mine train.py\n") if runs else (1, ""))


def test_a_job_that_began_in_another_folder_than_its_path_has_now_does_not_go_on(cluster: Cluster) -> None:
    cluster.submit(cluster.mine / "train.py")
    cluster.work = cluster.home
    done = cluster.start()
    assert (done.status, done.out) == (1, "")
    assert "is not where this job works" in done.err


def test_the_words_of_a_session_that_began_before_an_upgrade_are_understood(cluster: Cluster) -> None:
    """It may find the new batch script: then they do not say where the folder is."""
    cluster.submit(cluster.mine / "train.py")
    cluster.script[2] = cluster.script[2].partition(":")[0]
    assert cluster.script[2] == f"{os.getuid()}c"
    assert cluster.start().out == "mine train.py\n"
    cluster.exchange()
    assert cluster.start().status == 1


def test_a_link_that_others_can_exchange_is_followed_when_it_is_submitted(cluster: Cluster) -> None:
    (cluster.mine / "train.py").rename(cluster.mine / "train")
    (cluster.project / "link.py").symlink_to(cluster.mine / "train")
    cluster.submit(cluster.project / "link.py", cluster.home)
    (cluster.project / "link.py").unlink()
    (cluster.project / "link.py").symlink_to(cluster.theirs / "train.py")
    assert cluster.start().out == "mine train\n"


def test_where_nobody_else_can_exchange_anything_all_is_as_it_was(cluster: Cluster) -> None:
    own = cluster.home / "own"
    own.mkdir(mode=0o700)
    (own / "train.py").write_text("print(__file__)\n")
    (cluster.home / "link").symlink_to(own)
    cluster.submit(cluster.home / "link/train.py")
    assert cluster.script[1:] == ["python", "-", "-", "-", f"{cluster.home}/link/train.py"]
    own.rename(cluster.home / "before")
    own.mkdir(mode=0o700)
    (own / "train.py").write_text("print('anew')\n")
    assert cluster.start().out == "anew\n"


def test_the_persons_own_folder_in_a_sticky_one_stays(cluster: Cluster) -> None:
    cluster.project.chmod(0o1777)
    cluster.submit(cluster.mine / "train.py")
    assert cluster.script[2:5] == ["-", "-", "-"]


def test_a_batch_script_is_slurms_from_the_beginning(cluster: Cluster) -> None:
    """By its own path, which `scontrol show job` tells."""
    asked: list[Sequence[str]] = []

    async def slurm(argv: Sequence[str], *_: Any, **_more: Any) -> Result:
        asked.append(argv)
        return Result(0, "7\n", "")

    (cluster.mine / "job.sh").write_text("#!/bin/sh\n")
    order = order_of(cluster.mine / "job.sh", cluster.mine, {})
    asyncio.run(JobDesk({"HOME": str(cluster.home), "PATH": "/usr/bin:/bin"}, run=slurm).submit(order))
    assert asked[0][-1] == str(cluster.mine / "job.sh")


def test_a_notebook_of_a_folder_that_took_the_place_of_its_own_does_not_run(cluster: Cluster) -> None:
    cluster.submit(cluster.mine / "learn.ipynb")
    words = ["-I", "-m", "portal.jobs.inside", "--kept", cluster.script[4], f"{cluster.mine}/learn.ipynb"]
    assert cluster.start().out.splitlines()[:6] == words
    cluster.exchange()

    done = cluster.start()

    assert (done.status, done.out) == (1, "")
    assert "Look at what is there now, and submit the job again." in done.err


@pytest.mark.parametrize("name", ["train.py", "learn.ipynb"])
def test_a_copy_that_is_gone_is_told(cluster: Cluster, capsys: pytest.CaptureFixture[str], name: str) -> None:
    file = cluster.mine / name
    cluster.submit(file)
    (cluster.kept / kept.FOLDER / name).unlink()

    if name == "train.py":
        done = cluster.start()
        status, said = done.status, done.out + done.err
    else:
        status = inside.main(["--kept", str(cluster.kept), str(file), "learn-%j.ipynb"], {})
        said = capsys.readouterr().err

    assert status == 1
    assert f"The copy of {file} that was kept when this job was submitted" in said
    assert "Traceback" not in said
    assert said.endswith("Nothing was run. Submit the job again.\n")


@pytest.mark.parametrize("kind", ["train.py", "learn.ipynb"])
def test_so_is_one_that_was_removed_with_its_folder(cluster: Cluster, kind: str) -> None:
    cluster.submit(cluster.mine / kind)
    cluster.kept.rename(cluster.home / "removed")
    done = cluster.start()
    assert (done.status, done.out) == (1, "")
    assert done.err == (
        f"The copy of {cluster.mine}/{kind} that was kept when this job was submitted is gone: {cluster.kept}. "
        "Nothing was run. Submit the job again.\n"
    )


@pytest.mark.parametrize("kind", ["train.py", "learn.ipynb"])
def test_nor_does_another_copy_run_that_somebody_has_put_into_her_home(cluster: Cluster, kind: str) -> None:
    """A group may write there."""
    cluster.submit(cluster.mine / kind)
    os.chown(cluster.kept, STRANGER, STRANGER)
    done = cluster.start()
    assert (done.status, done.out) == (1, "")
    assert f"{cluster.kept}/. belongs to somebody else" in done.err


def test_a_job_of_a_session_before_an_upgrade_that_kept_nothing_says_what_to_do(cluster: Cluster) -> None:
    cluster.submit(cluster.mine / "train.py")
    cluster.script[4] = f"{os.getuid()}"
    done = cluster.start()
    assert (done.status, done.out) == (1, "")
    assert "Nothing was run. Start a new session, and submit the job again.\n" in done.err


def test_a_copy_stays_as_long_as_slurm_knows_its_job(cluster: Cluster) -> None:
    """And one of a job that nobody knows a month; what Slurm does not take leaves none, nor does a script."""
    notes = cluster.home / ".local/share/dsportal/jobs"
    cluster.submit(cluster.mine / "train.py", named="one")
    copy = cluster.kept
    assert copy.parent == notes / kept.FOLDER
    assert stat.S_IMODE(copy.stat().st_mode) == 0o700
    kept.forget(notes, (), "one")
    assert copy.is_dir(), "Slurm may not tell of it yet"
    hours_ago = time.time() - 2 * kept.FORGOTTEN_S
    os.utime(copy, (hours_ago, hours_ago))
    for jobs, named in (("7", "one"), ("8", "another"), ("8", "")):
        kept.forget(notes, (jobs,), named)
        assert copy.is_dir()
    kept.forget(notes, ("8",), "one")
    assert not copy.exists()

    for words in (None, "", "7 "):  # killed before, or while it was written; by a login node, which names no cluster
        lost = kept.keep(notes, cluster.mine / "train.py").folder
        if words is not None:
            (lost / kept.JOB).write_text(words)
        os.utime(lost, (hours_ago, hours_ago))
        kept.forget(notes, (), "")
        assert lost.is_dir()
        month_ago = time.time() - kept.LOST_S - 1
        os.utime(lost, (month_ago, month_ago))
        kept.forget(notes, (), "")
        assert not lost.exists()


@pytest.mark.parametrize("is_link", [True, False])
def test_nothing_else_of_hers_is_taken_away_for_a_copy(cluster: Cluster, is_link: bool) -> None:
    """Where a group may write on the way: a link, or a folder of hers by that name."""
    notes = cluster.home / "notes"
    notes.mkdir()
    data = cluster.home / "data"
    for name in ("run1", "0123456789abcdef"):
        (data / name).mkdir(parents=True)
        os.utime(data / name, (1, 1))
    notes.chmod(0o775)
    if is_link:
        (notes / kept.FOLDER).symlink_to(data)
        gone = [*data.iterdir()]
    else:
        data.rename(notes / kept.FOLDER)
        gone = [notes / kept.FOLDER / "run1"]
    kept.forget(notes, (), "one")
    assert all(one.is_dir() for one in gone)


@pytest.mark.parametrize("letters", [3, 255])
def test_a_copy_is_as_closed_as_its_file_and_of_its_group(cluster: Cluster, letters: int) -> None:
    """So is the output of a notebook, which is made like it."""
    for mode, gid in ((0o600, 0), (0o640, STRANGER), (0o660, STRANGER), (0o664, STRANGER)):
        file = cluster.project / f"{'x' * (letters - 3)}.py"
        file.write_text("")
        os.chown(file, -1, gid)
        file.chmod(mode)
        copy = kept.keep(cluster.home / "notes", file).path.stat()
        assert (stat.S_IMODE(copy.st_mode), copy.st_gid) == (mode, gid)


def test_a_program_that_links_of_others_lead_to_meanwhile_is_not_kept(cluster: Cluster) -> None:
    """Between the look and the copy."""
    secret = cluster.home / "secret.py"
    secret.write_text("print('hers')")
    file = cluster.project / "train.py"
    for owner in (STRANGER, os.getuid()):
        file.symlink_to(secret)
        os.lchown(file, owner, owner)
        with pytest.raises(RequestError, match="a file that can be read"):
            kept.keep(cluster.home / "notes", file)
        file.unlink()
    os.mkfifo(file)
    with pytest.raises(RequestError, match="a file that can be read"):
        kept.keep(cluster.home / "notes", file)
    file.unlink()
    with file.open("wb") as long:
        long.truncate(KEPT_MAX + 1)
    with pytest.raises(RequestError, match="up to 256 MB where others can change a file"):
        kept.keep(cluster.home / "notes", file)
    assert not (cluster.home / "notes").exists()


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EDQUOT, "Disk quota exceeded. Make room there, and submit the job again."),
        (errno.EROFS, "Read-only file system. See what is wrong there, and submit the job again."),
    ],
)
def test_a_home_that_is_full_is_told_and_no_part_is_kept(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    def full(*_: object, **_more: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fchmod", full)
    with pytest.raises(PortalError) as caught:
        cluster.submit(cluster.mine / "train.py")
    notes = cluster.home / ".local/share/dsportal/jobs"
    why = f"Others can change {cluster.mine}/train.py, so its job runs a copy of it, and none can be kept"
    assert caught.value.message == f"{why} in {notes}: {words}"
    assert not list((notes / kept.FOLDER).iterdir())


def test_a_program_that_was_kept_begins_as_from_its_file(cluster: Cluster) -> None:
    (cluster.mine / "train.py").write_text(ALL_THAT_A_PROGRAM_SEES)
    cluster.submit(cluster.mine / "train.py", None, "a b")
    done = cluster.start()
    plain = [sys.executable, str(cluster.mine / "train.py"), "a b"]
    env = {"PATH": "/usr/bin:/bin"}
    by_path = subprocess.run(
        plain, cwd=cluster.mine, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=True
    )
    assert (done.status, done.out, done.err) == (0, by_path.stdout.decode(), "")
    assert "spawned by mine" in done.out


@pytest.mark.parametrize(("given", "has_folder"), [("", True), ("1", False)])
def test_python_itself_imports_nothing_of_the_folder_where_such_a_program_works(
    cluster: Cluster, given: str, has_folder: bool
) -> None:
    said = "print('safe', os.environ.get('PYTHONSAFEPATH'), os.path.dirname(__file__) in sys.path, '' in sys.path)"
    (cluster.mine / "train.py").write_text(f"import os, sys\n{said}\n")
    (cluster.project / "linecache.py").write_text("print('theirs')")
    cluster.submit(cluster.mine / "train.py", cluster.project)

    done = cluster.start({"PYTHONSAFEPATH": given} if given else {})

    assert (done.status, done.out, done.err) == (0, f"safe {given or None} {has_folder} False\n", "")


def test_a_program_runs_by_a_python_that_gets_no_standard_input_and_starts_itself_again(cluster: Cluster) -> None:
    """As from a container, or by ``conda run``; and as web frameworks do."""
    again = "import os, sys\nif os.environ.pop('FIRST', ''):\n    os.execv(sys.executable, sys.orig_argv)\n"
    (cluster.mine / "train.py").write_text(again + SAYS.format("again"))
    cluster.submit(cluster.mine / "train.py", None, "a b")
    cluster._program("python3", f'exec {sys.executable} "$@" </dev/null')
    assert cluster.start({"FIRST": "1"}).out == "again a b train.py\n"


AGAIN = """
import multiprocessing, os, sys
from concurrent.futures import ProcessPoolExecutor
from helper import WHO

AT = os.path.dirname(__file__)
STARTED = sys.argv[0]

def work(depth):
    if depth:
        with ProcessPoolExecutor(1, multiprocessing.get_context(sys.argv[1])) as pool:
            return pool.submit(work, depth - 1).result()
    return os.path.basename(AT) + " " + WHO + " " + __name__ + " " + os.path.basename(STARTED)

if __name__ == "__main__":
    with open(__file__, "w") as file:
        file.write("print('theirs')")
    print(work(2))
"""


@pytest.mark.parametrize("how", ["spawn", "forkserver"])
def test_the_processes_that_a_program_starts_anew_read_what_was_submitted_too(cluster: Cluster, how: str) -> None:
    """Each reads the whole program once more; and theirs do."""
    (cluster.mine / "train.py").write_text(AGAIN)
    cluster.submit(cluster.mine / "train.py", None, how)
    done = cluster.start()
    assert (done.status, done.out, done.err) == (0, "mine mine __mp_main__ train.py\n", "")


def test_a_program_that_is_read_twice_in_a_process_imports_what_it_wants(cluster: Cluster) -> None:
    """As in a fork server of Python 3.14, which has read it before its processes do."""
    program = "import sys, runpy\nif __name__ == '__main__':\n    runpy.run_path(sys.argv[1], run_name='again')\n"
    (cluster.mine / "train.py").write_text(f"{program}import multiprocessing.spawn\nprint(__name__)\n")
    cluster.submit(cluster.mine / "train.py")
    cluster.script.append(f"{cluster.kept}/begin")
    assert cluster.start().out == "again\n__main__\n"


def test_what_a_fork_server_has_read_its_processes_do_not_read_again(cluster: Cluster) -> None:
    program = (
        "import sys\nfrom multiprocessing import spawn\nprint(__name__)\nspawn._fixup_main_from_path(sys.argv[1])\n"
    )
    (cluster.mine / "train.py").write_text(program)
    cluster.submit(cluster.mine / "train.py")
    cluster.script.append(f"{cluster.kept}/begin")
    done = cluster.start()
    assert (done.status, done.out, done.err) == (0, "__main__\n", "")


def test_so_do_those_of_joblib(cluster: Cluster) -> None:
    program = (
        "import os\nfrom joblib.externals.loky import get_reusable_executor\n"
        "def work(): return os.path.basename(__file__) + ' mine'\n"
        "if __name__ == '__main__':\n"
        "    with open(__file__, 'w') as file:\n        file.write('print(1 / 0)')\n"
        "    from joblib.externals.loky.backend import spawn\n"
        "    print(spawn.get_preparation_data('x')['init_main_from_path'])\n"
        "    with get_reusable_executor(1) as workers:\n        print(workers.submit(work).result())\n"
    )
    (cluster.mine / "train.py").write_text(program)
    cluster.submit(cluster.mine / "train.py")
    done = cluster.start()
    assert (done.status, done.out, done.err) == (0, f"{cluster.kept}/begin\ntrain.py mine\n", "")


def test_a_program_with_a_letter_that_is_none_runs_as_ever(cluster: Cluster) -> None:
    """In a comment, which Python does not read."""
    (cluster.mine / "train.py").write_bytes(b"# coding: utf-8\nprint('runs')  # h\xf6\n")
    plain = subprocess.run(
        [sys.executable, str(cluster.mine / "train.py")], capture_output=True, text=True, check=False
    )
    cluster.submit(cluster.mine / "train.py")
    assert cluster.start().out == plain.stdout


def test_the_lines_of_a_program_are_those_of_its_copy(cluster: Cluster) -> None:
    """Which Triton and TorchScript compile."""
    program = (
        "import inspect\n"
        "def mine(): pass\n"
        "with open(__file__, 'w') as file:\n    file.write('import inspect\\ndef mine(): theirs\\n')\n"
        "print(inspect.getsource(mine))\n"
    )
    (cluster.mine / "train.py").write_text(program)
    cluster.submit(cluster.mine / "train.py")
    assert cluster.start().out == "def mine(): pass\n\n"


@pytest.mark.parametrize(
    ("says", "stays"), [("Socket timed out on send/recv operation", True), ("Invalid account", False)]
)
def test_the_copy_of_a_job_that_slurm_may_have_stays(cluster: Cluster, says: str, stays: bool) -> None:
    async def slurm(*_: Any, **_more: Any) -> Result:
        return Result(1, "", f"sbatch: error: {says}")

    order = order_of(cluster.mine / "train.py", cluster.mine, {})
    with pytest.raises(SlurmError):
        asyncio.run(JobDesk({"HOME": str(cluster.home), "PATH": "/usr/bin:/bin"}, run=slurm).submit(order))
    assert any((cluster.home / ".local/share/dsportal/jobs" / kept.FOLDER).iterdir()) is stays


def test_a_job_begins_in_the_folder_that_was_looked_at(cluster: Cluster) -> None:
    """Not where a link on the way leads a moment later."""
    (cluster.project / "link").symlink_to(cluster.home)
    cluster.submit(cluster.mine / "train.py", cluster.project / "link")
    assert cluster.begins == f"--chdir={cluster.home}"


def test_an_error_of_a_program_is_told_with_its_lines(cluster: Cluster) -> None:
    (cluster.mine / "train.py").write_text("# -*- coding: latin-1 -*-\nraise SystemError('h\xf6')\n", "latin-1")
    cluster.submit(cluster.mine / "train.py")
    done = cluster.start()
    assert done.status == 1
    assert f'File "{cluster.mine}/train.py", line 2, in <module>' in done.err
    assert done.err.endswith("SystemError: h\xf6\n")
