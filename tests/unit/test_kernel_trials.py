"""The record of the tests of kernels: what is taken of a person's job, what is kept, and what a session shows of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from portal.catalogue import explained, specs
from portal.doctor import kernel_checks
from portal.errors import KernelError
from portal.gpus import as_person, kept
from portal.site import Site, parse
from portal.trials import record
from portal.trials.pages import answer, folders_of
from portal.trials.trial import FrameworkTrial, Trial, from_json

DAY = 1_764_000_000  # 2025-11-24
GOOD = Trial(
    DAY, 1.44, "Python 3.11.2", 2, "gpu", "n1", frameworks=(FrameworkTrial("PyTorch", "2.13.0", 2, "PyTorch sees 2"),)
)


@pytest.mark.parametrize(
    ("trial", "summary"),
    [
        (GOOD, "PyTorch 2.13.0, sees 2 of 2 GPUs, starts in 1.4 s, tested 2025-11-24 in gpu"),
        (Trial(DAY, 0.9, "R 4.2.2"), "R 4.2.2, starts in 0.9 s, tested 2025-11-24"),
        (Trial(DAY, fault="it ended at its start: no space."), "it ended at its start: no space, tested 2025-11-24"),
        (
            Trial(DAY, 2, "Python 3.11.2", 1, frameworks=(FrameworkTrial("JAX", words="JAX …", is_fault=True),)),
            "JAX, JAX does not work, starts in 2.0 s, tested 2025-11-24",
        ),
        (
            Trial(DAY, 2, "Python 3.11.2", 0, frameworks=(FrameworkTrial("JAX", "0.10", 0, "JAX sees 0"),)),
            "JAX 0.10, starts in 2.0 s, tested 2025-11-24",
        ),
    ],
)
def test_a_test_is_one_line_and_the_same_again_out_of_json(trial: Trial, summary: str) -> None:
    assert trial.summary() == summary
    assert from_json(json.loads(json.dumps(trial.to_json()))) == trial


@pytest.mark.parametrize(
    "change",
    [
        {"at": "now"},
        {"at": -1},
        {"at": 1e300},
        {"start_s": True},
        {"start_s": None},
        {"gpus": [1]},
        {"language": 3},
        {"frameworks": "all"},
        {"frameworks": [{}] * 21},
        {"frameworks": [{"name": 1}]},
        {"frameworks": None},
    ],
)
def test_what_has_not_the_form_of_a_test_is_none(change: dict[str, Any]) -> None:
    with pytest.raises(KernelError, match="A test of a kernel"):
        from_json(GOOD.to_json() | change)
    others: list[Any] = [None, [], 3, "x", {}]
    for other in others:
        with pytest.raises(KernelError):
            from_json(other)


def test_texts_are_short_and_steer_no_terminal() -> None:
    trial = from_json(GOOD.to_json() | {"language": "a\x1b[2J\n" + "b" * 1000, "start_s": None, "fault": "f" * 5000})
    assert trial.language.startswith("a?[2J b")
    assert len(trial.language) <= 400
    assert len(trial.fault) == 2000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of kernelspecs with two kernels."""
    for name in ("one", "two"):
        (tmp_path / "kernels" / name).mkdir(parents=True)
        (tmp_path / "kernels" / name / "kernel.json").write_text(f'{{"display_name": "{name}"}}')
    return tmp_path


def keep(folder: Path, **trials: Trial) -> None:
    record.keep(folder, trials, {name: record.fingerprint(folder / "kernels" / name) for name in trials})


def test_tests_are_kept_beside_those_of_other_kernels_and_everybody_reads_them(folder: Path) -> None:
    before = os.umask(0o077)
    keep(folder, one=GOOD)
    os.umask(before)
    keep(folder, two=Trial(DAY, 1.0))
    assert record.read(folder) == {"one": GOOD, "two": Trial(DAY, 1.0)}
    assert (folder / record.FILE).stat().st_mode & 0o777 == 0o644
    assert [file.name for file in folder.iterdir() if "tested" in file.name] == [record.FILE]


def test_a_kernel_that_changed_since_or_has_gone_was_not_tested(folder: Path) -> None:
    keep(folder, one=GOOD, two=GOOD)
    (folder / "kernels/one/kernel.json").write_text("{}")
    assert list(record.read(folder)) == ["two"]
    (folder / "kernels/two/kernel.json").unlink()
    keep(folder, one=GOOD)
    assert list(json.loads((folder / record.FILE).read_text())["kernels"]) == ["one"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"kernels": 3}', '{"kernels": {"one": 3, "../two": {}}}', "[" * 99999]
)
def test_what_is_no_record_is_no_test(folder: Path, text: str) -> None:
    (folder / record.FILE).write_text(text)
    assert record.read(folder) == {}


def test_a_record_that_is_a_link_or_a_pipe_is_none_and_is_not_waited_for(folder: Path, tmp_path: Path) -> None:
    keep(folder, one=GOOD)
    (folder / record.FILE).rename(folder / "elsewhere")
    (folder / record.FILE).symlink_to(folder / "elsewhere")
    assert record.read(folder) == {}
    (folder / record.FILE).unlink()
    os.mkfifo(folder / record.FILE)
    assert record.read(folder) == {}


def test_a_session_is_told_of_the_kernels_in_its_own_path(folder: Path) -> None:
    keep(folder, one=GOOD)
    found = answer(folders_of(f"{folder}:/nowhere:"))
    assert found == {
        "kernels": {
            "one": {
                "at": DAY,
                "summary": GOOD.summary(),
                "lines": ["it starts in 1.4 s, Python 3.11.2", "PyTorch sees 2"],
                "is_fault": False,
            }
        }
    }


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A site with a kernel for everybody and one for staff, both written."""
    python = {"python": sys.executable}
    one = {"name": "one", "title": "One", **python}
    staff = {"name": "two", "title": "Two", "groups": ("staff",), **python}
    found = parse({"kernels": {"folder": str(tmp_path / "jupyter")}, "kernel": (one, staff)})
    specs.sync(found)
    return found


def test_root_keeps_what_the_job_said_of_its_own_kernels_and_list_and_explain_show_it(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def said(argv: list[str], user: str) -> str:
        asked.extend([*argv, user])
        lines = [{"kernel": name, "trial": GOOD.to_json() | {"partition": "mine"}} for name in ("one", "two", "other")]
        return "\n".join(["slurmstepd: \x1b[2J", *map(json.dumps, lines), '{"kernel": "one"}'])

    monkeypatch.setattr(as_person, "said", said)
    assert kept.main(site, "site.toml", "gpu", 2, [], "alice") == 0
    settings = str(Path("site.toml").absolute())
    assert asked[1:] == [
        *(
            "kernels",
            "test",
            "--json",
            "--site",
            settings,
            "--partition",
            "gpu",
            "--gpus=2",
            "--",
            "one",
            "two",
            "alice",
        )
    ]
    words = capsys.readouterr().out
    assert "slurmstepd: ?[2J\nnot understood: " in words
    assert "one: it starts in 1.4 s, Python 3.11.2\none: PyTorch sees 2\n" in words
    folder = Path(site.kernels.folder)
    assert list(record.read(folder)) == ["one"]
    assert list(record.read(folder / "for/two")) == ["two"]
    assert record.read(folder)["one"].partition == "gpu"
    assert record.read(folder)["one"].at > DAY

    specs.main_list(site)
    assert "one: One [no modules] ready, PyTorch 2.13.0, sees 2 of 2 GPUs, starts in 1.4 s" in capsys.readouterr().out
    told = [text for word, text in explained.told(explained.find(site, "two"), site) if word == "tested"]
    assert told[0].endswith(" in a job of gpu")
    assert told[1:] == list(GOOD.lines())


def test_a_kernel_of_which_the_job_says_nothing_is_a_fault_and_unknown_ones_are_named(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(as_person, "said", lambda *_: "")
    assert kept.main(site, "/s", "gpu", 1, ["one"], "alice") == 1
    assert capsys.readouterr().out == "one: the job said nothing of it\n"
    with pytest.raises(KernelError, match="three is not written; written are one, two"):
        kept.main(site, "/s", "gpu", 1, ["three"], "alice")


def test_the_person_gets_no_terminal_of_who_asks_and_steers_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(as_person, "rights_of", lambda _: {"name": "alice", "home": "/"})
    program = (
        "import os, sys; places = [os.readlink(f'/proc/self/fd/{number}')[:5] for number in range(3)];"
        "print(places, os.listdir('/proc/self/fd'));"
        "print('job 7 is \\x1b[2J submitted', file=sys.stderr)"
    )

    said = as_person.said([sys.executable, "-I", "-c", program], "alice")

    assert said == "['/dev/', 'pipe:', 'pipe:'] ['0', '1', '2', '3']\n"
    assert capsys.readouterr().err == "job 7 is ?[2J submitted\n"


def test_a_person_who_never_stops_talking_fills_no_log_of_root(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(as_person, "rights_of", lambda _: {"name": "alice", "home": "/"})
    program = "import sys; sys.stderr.write('x' * 2**20); print('done')"

    said = as_person.said([sys.executable, "-I", "-c", program], "alice")

    assert (said, len(capsys.readouterr().err)) == ("done\n", as_person.SHOWN)


HOLDS = """
import subprocess, sys
print("done")
print("job 7", file=sys.stderr, flush=True)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
"""


def test_root_waits_for_no_pipe_that_outlives_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(as_person, "rights_of", lambda _: {"name": "alice", "home": "/"})
    monkeypatch.setattr(as_person, "LAST_WORDS_S", 0.5)
    began = time.monotonic()

    assert as_person.asked([sys.executable, "-I", "-c", HOLDS], "alice") == (0, "done\n")

    assert time.monotonic() - began < 50, "the other process goes on for a minute"


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The processes that are started from now on; root waits for them for 2 s."""
    monkeypatch.setattr(as_person, "rights_of", lambda _: {"name": "alice", "home": "/"})
    monkeypatch.setattr(as_person, "WITHIN_S", 2.0)
    processes: list[subprocess.Popen[bytes]] = []
    started = subprocess.Popen

    def noted(*arguments: Any, **named: Any) -> Any:
        processes.append(started(*arguments, **named))
        return processes[-1]

    monkeypatch.setattr(subprocess, "Popen", noted)
    return processes


@pytest.mark.parametrize("is_deaf", [False, True])
def test_root_waits_so_long_and_has_what_was_begun_ended(
    monkeypatch: pytest.MonkeyPatch, begun: list[subprocess.Popen[bytes]], is_deaf: bool
) -> None:
    monkeypatch.setattr(as_person, "ENDS_WITHIN_S", 1.0 if is_deaf else 30.0)
    hears = "ignore" if is_deaf else "default"  # whatever this process was started with

    with pytest.raises(KernelError, match=r"did not end within .* hours, and is ended\. Ask again"):
        as_person.asked(["env", f"--{hears}-signal=INT", "sleep", "600"], "alice")

    assert begun[0].returncode == -(signal.SIGKILL if is_deaf else signal.SIGINT)


def test_root_does_not_wait_for_what_cannot_be_killed(
    monkeypatch: pytest.MonkeyPatch, begun: list[subprocess.Popen[bytes]]
) -> None:
    monkeypatch.setattr(as_person, "ENDS_WITHIN_S", 0.5)
    monkeypatch.setattr(as_person, "LAST_WORDS_S", 0.5)
    monkeypatch.setattr(os, "killpg", lambda *_: None)  # as for a process that a hung file system holds

    with pytest.raises(KernelError, match="Ask again"):
        as_person.asked(["env", "--ignore-signal=INT", "sleep", "20"], "alice")

    assert begun[0].poll() is None, "it is still there"
    begun[0].kill()
    begun[0].wait()


def test_the_doctor_warns_of_a_kernel_whose_last_test_found_a_fault(site: Site) -> None:
    folder = Path(site.kernels.folder)
    assert kernel_checks.last_tests(site) == []
    keep(folder, one=GOOD)
    (good,) = kernel_checks.last_tests(site)
    assert (good.result, good.found) == ("ok", "1 of 2 kernels were tested, all without a fault")
    keep(folder / "for/two", two=Trial(DAY, fault="it ended at its start: no space."))
    (fault,) = kernel_checks.last_tests(site)
    assert (fault.what, fault.result) == ("kernel two, last test", "warning")
    assert fault.found == "it ended at its start: no space, tested 2025-11-24"
    assert fault.repair.endswith("portal kernels test --partition NAME --user PERSON two")
