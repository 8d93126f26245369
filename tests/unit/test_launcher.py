"""portal-launch: four verbs, fixed options, a private file, and nothing that its caller chose is run."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from portal import launch_rules, launcher
from portal.homes import session_logs

KEY = "0123456789abcdef"
SUBMIT = {"verb": "submit", "key": KEY, "options": ["--time=60"], "environment": {"JUPYTERHUB_API_TOKEN": "secret"}}


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """sbatch and scancel that note how they were called; the home is a temporary folder."""
    calls: list[list[str]] = []

    def run(argv: list[str], _environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        calls.append(list(argv))
        return subprocess.CompletedProcess(argv, 0, "42;cluster\n", "")

    monkeypatch.setattr(launcher, "_slurm", run)
    monkeypatch.setattr(launcher, "_home", lambda: str(tmp_path))
    monkeypatch.setattr(launch_rules, "PLACES", (str(tmp_path / "site.toml"),))
    return calls


def test_submit_writes_a_private_file_and_names_no_secret_to_sbatch(slurm: list[list[str]], tmp_path: Path) -> None:
    answer = launcher.handle(SUBMIT)

    file = tmp_path / launcher.SESSIONS / KEY / launcher.ENVIRONMENT_FILE
    assert answer == {"ok": True, "job_id": "42"}
    assert json.loads(file.read_text()) == {"JUPYTERHUB_API_TOKEN": "secret"}
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    (argv,) = slurm
    assert argv[:3] == ["sbatch", "--parsable", "--time=60"]
    assert argv[-3].endswith("templates/job/session.sh")
    assert argv[-2:] == [sys.executable, str(file.parent)]
    assert "secret" not in " ".join(argv)


def test_finish_cancels_removes_the_secret_and_answers_the_log(slurm: list[list[str]], tmp_path: Path) -> None:
    launcher.handle(SUBMIT)
    folder = tmp_path / launcher.SESSIONS / KEY
    (folder / launcher.LOG_FILE).write_text("x" * 10000 + "last words")

    answer = launcher.handle({"verb": "finish", "key": KEY, "job_id": "42"})

    assert slurm[-1] == ["scancel", f"--name=dsportal-{KEY}", "42"], "a job of another name is left alone"
    assert not (folder / launcher.ENVIRONMENT_FILE).exists()
    assert str(answer["log"]).endswith("last words")
    assert len(str(answer["log"])) <= launcher.LOG_TAIL_BYTES
    assert launcher.handle({"verb": "finish", "key": KEY, "job_id": ""})["ok"]


@pytest.mark.parametrize(
    ("shown", "by_name"),
    [("{uid}|1766000000", []), ("{uid}|1766000001", ["name"]), ("1|1766000000", ["name"]), ("", ["name"])],
    ids=["the very job", "submitted later", "somebody else's", "none"],
)
def test_finish_knows_the_job_by_its_submission_where_the_owner_calls_it_otherwise(
    monkeypatch: pytest.MonkeyPatch, slurm: list[list[str]], shown: str, by_name: list[str]
) -> None:
    answers = {"squeue": shown.format(uid=os.getuid()), "scancel": ""}
    environments = []

    def run(argv: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        slurm.append(list(argv))
        environments.append(environment)
        return subprocess.CompletedProcess(argv, 0, answers[argv[0]] + "\n", "")

    monkeypatch.setattr(launcher, "_slurm", run)

    assert launcher.handle({"verb": "finish", "key": KEY, "job_id": "42", "submitted": 1766000000})["ok"]

    asked, cancelled = slurm
    assert asked == ["squeue", "--noheader", "--all", "--jobs=42", "--format=%U|%V"]
    assert environments[0]["SLURM_TIME_FORMAT"] == "%s"
    assert cancelled == ["scancel", *(f"--{name}=dsportal-{KEY}" for name in by_name), "42"]


def test_a_test_asks_sbatch_when_it_would_start_and_leaves_neither_a_job_nor_a_file(
    monkeypatch: pytest.MonkeyPatch, slurm: list[list[str]], tmp_path: Path
) -> None:
    environments: list[dict[str, str]] = []

    def run(argv: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        slurm.append(argv)
        environments.append(environment)
        return subprocess.CompletedProcess(argv, 0, "", "sbatch: Job 7 to start at 1764080400 using 2 processors …\n")

    monkeypatch.setattr(launcher, "_slurm", run)

    answer = launcher.handle({**SUBMIT, "verb": "test"})

    assert answer == {"ok": True, "message": "sbatch: Job 7 to start at 1764080400 using 2 processors …"}
    (asked,) = slurm
    assert asked[:3] == ["sbatch", "--test-only", "--time=60"]
    assert asked[-1].endswith("templates/job/session.sh")
    assert "--output=/dev/null" in asked
    assert environments[0]["SLURM_TIME_FORMAT"] == "%s"
    assert "secret" not in str(environments)
    assert list(tmp_path.iterdir()) == []


def test_a_refused_job_leaves_no_secret(
    monkeypatch: pytest.MonkeyPatch, slurm: list[list[str]], tmp_path: Path
) -> None:
    refusal = subprocess.CompletedProcess([], 1, "", "sbatch: error: Invalid account\n")
    monkeypatch.setattr(launcher, "_slurm", lambda argv, _environment: refusal)

    answer = launcher.handle(SUBMIT)

    assert answer == {"ok": False, "refused": True, "message": "sbatch: error: Invalid account"}
    assert not list(tmp_path.rglob(launcher.ENVIRONMENT_FILE))


@pytest.mark.parametrize("how", ["words", "silence", "signal"])
def test_a_job_that_may_have_been_accepted_keeps_its_file(
    monkeypatch: pytest.MonkeyPatch, slurm: list[list[str]], tmp_path: Path, how: str
) -> None:
    def run(argv: list[str], _environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        if how == "silence":
            raise subprocess.TimeoutExpired(argv, 45)
        if how == "signal":
            return subprocess.CompletedProcess(argv, -signal.SIGPIPE, "", "")
        return subprocess.CompletedProcess(argv, 1, "", "sbatch: error: Socket timed out on send/recv operation\n")

    monkeypatch.setattr(launcher, "_slurm", run)

    answer = launcher.handle(SUBMIT)

    assert (answer["ok"], answer["unknown"]) == (False, True)
    assert list(tmp_path.rglob(launcher.ENVIRONMENT_FILE))


@pytest.mark.parametrize(("status", "is_unknown"), [(-9, True), (143, True), (0, False), (1, False), (255, False)])
def test_how_sbatch_ended_tells_whether_a_signal_did_it(status: int, is_unknown: bool) -> None:
    assert launcher.is_unavailable(status, "sbatch: error: Invalid account") is is_unknown


def test_what_a_signal_ended_has_cancelled_nothing(monkeypatch: pytest.MonkeyPatch, slurm: list[list[str]]) -> None:
    ended = subprocess.CompletedProcess([], -signal.SIGPIPE, "", "")
    monkeypatch.setattr(launcher, "_slurm", lambda argv, _environment: ended)
    assert launcher.handle({"verb": "finish", "key": KEY, "job_id": "42"})["ok"] is False


def test_a_file_or_link_that_waits_at_the_secrets_place_is_not_followed(slurm: list[list[str]], tmp_path: Path) -> None:
    folder = tmp_path / launcher.SESSIONS / KEY
    folder.mkdir(parents=True)
    (folder / launcher.ENVIRONMENT_FILE).symlink_to(tmp_path / "elsewhere")

    with pytest.raises(FileExistsError):
        launcher.handle(SUBMIT)

    assert not (tmp_path / "elsewhere").exists()
    assert not slurm


def test_the_folder_of_sessions_that_was_left_open_is_closed(slurm: list[list[str]], tmp_path: Path) -> None:
    sessions = tmp_path / launcher.SESSIONS
    sessions.mkdir(parents=True)
    sessions.chmod(0o777)

    assert launcher.handle(SUBMIT)["ok"]

    assert sessions.stat().st_mode & 0o777 == 0o755


def test_logs_of_long_ago_are_forgotten(slurm: list[list[str]], tmp_path: Path) -> None:
    sessions = tmp_path / launcher.SESSIONS
    for number in range(session_logs.KEPT_LOGS + 5):
        folder = sessions / f"{number:016x}"
        folder.mkdir(parents=True)
        os.utime(folder, (number, number))

    launcher.handle(SUBMIT)

    assert not (sessions / f"{0:016x}").exists()
    assert (sessions / f"{session_logs.KEPT_LOGS + 4:016x}").exists()


@pytest.mark.parametrize("kind", ["pipe", "link to a pipe", "link to nothing", "folder", "link to a file"])
def test_whatever_lies_in_the_place_of_the_log_an_end_waits_for_nobody_and_follows_no_link(
    slurm: list[list[str]], tmp_path: Path, kind: str
) -> None:
    log = tmp_path / launcher.SESSIONS / KEY / launcher.LOG_FILE
    log.parent.mkdir(parents=True)
    (tmp_path / "words").write_text("of another file")
    os.mkfifo(tmp_path / "pipe")
    put: dict[str, Callable[[], object]] = {
        "pipe": lambda: os.mkfifo(log),
        "link to a pipe": lambda: log.symlink_to(tmp_path / "pipe"),
        "link to nothing": lambda: log.symlink_to(tmp_path / "nothing"),
        "folder": log.mkdir,
        "link to a file": lambda: log.symlink_to(tmp_path / "words"),
    }
    put[kind]()

    answer = finished_within(10)

    assert answer == {"ok": True, "message": "", "log": ""}


def finished_within(timeout_s: float) -> dict[str, object]:
    """A finish in a thread: one that waits for ever ends the test all the same."""
    answers: list[dict[str, object]] = []
    request = {"verb": "finish", "key": KEY, "job_id": "42"}
    working = threading.Thread(target=lambda: answers.append(launcher.handle(request)), daemon=True)
    working.start()
    working.join(timeout_s)
    assert answers, f"no answer within {timeout_s} s"
    return answers[0]


def test_links_and_files_that_are_called_like_a_session_stop_no_start_and_go_in_their_turn(
    slurm: list[list[str]], tmp_path: Path
) -> None:
    sessions = tmp_path / launcher.SESSIONS
    sessions.mkdir(parents=True)
    (tmp_path / "mine").mkdir()
    (sessions / f"{0:016x}").symlink_to(tmp_path / "nothing")
    (sessions / f"{1:016x}").symlink_to(tmp_path / "mine")
    (sessions / f"{2:016x}").write_text("a file")
    for number in range(3):
        os.utime(sessions / f"{number:016x}", (number, number), follow_symlinks=False)
    for number in range(3, session_logs.KEPT_LOGS + 3):
        (sessions / f"{number:016x}").mkdir()

    assert launcher.handle(SUBMIT)["ok"]

    assert not [number for number in range(3) if os.path.lexists(sessions / f"{number:016x}")]
    assert (tmp_path / "mine").is_dir()


@pytest.mark.parametrize(
    "request_",
    [
        None,
        [],
        {"verb": "run"},
        {**SUBMIT, "key": "../../etc"},
        {**SUBMIT, "key": KEY + "\n"},
        {**SUBMIT, "options": ["--wrap=id"]},
        {**SUBMIT, "verb": "test", "options": ["--wrap=id"]},
        {**SUBMIT, "options": ["--uid=0"]},
        {**SUBMIT, "options": ["--clusters=other"]},
        {**SUBMIT, "options": ["--cluster-constraint=other"]},
        {**SUBMIT, "options": ["-M", "other"]},
        {**SUBMIT, "options": ["-Mother"]},
        {**SUBMIT, "options": ["/tmp/script.sh"]},
        {**SUBMIT, "options": "--time=60"},
        {**SUBMIT, "environment": {"LD_PRELOAD": "x"}},
        {**SUBMIT, "environment": {"JUPYTERHUB_X": 1}},
        {"verb": "finish", "key": KEY, "job_id": "42 43"},
        {"verb": "finish", "key": KEY, "job_id": "--user=root"},
        {"verb": "finish", "key": KEY, "job_id": 42},
        {"verb": "finish", "key": KEY, "job_id": "42", "submitted": "1766000000"},
        {"verb": "finish", "key": KEY, "job_id": "42", "submitted": True},
        {"verb": "finish", "key": KEY, "job_id": "42", "submitted": -1},
    ],
)
def test_what_is_not_a_session_is_refused_before_anything_happens(
    slurm: list[list[str]], tmp_path: Path, request_: Any
) -> None:
    with pytest.raises(launcher.RequestRefused):
        launcher.handle(request_)

    assert not slurm
    assert not list(tmp_path.rglob("*.json"))


@pytest.mark.parametrize("program", ["portal.launcher", "portal.extending.program"])
@pytest.mark.parametrize("given", ["not json", "[" * 50_000])
def test_the_programs_answer_json_even_to_nonsense(program: str, given: str) -> None:
    command = [sys.executable, "-m", program]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=True)

    assert json.loads(done.stdout)["ok"] is False


def test_a_full_home_is_named(monkeypatch: pytest.MonkeyPatch, slurm: list[list[str]], capsys: Any) -> None:
    def full(path: Path, text: str) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(launcher, "_write_private", full)
    monkeypatch.setattr("signal.alarm", lambda _: 0)  # it would end this whole test run
    monkeypatch.setattr("sys.stdin", type("In", (), {"buffer": io.BytesIO(json.dumps(SUBMIT).encode())}))

    assert launcher.main() == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"] is False
    assert answer["message"].endswith("environment.json: No space left on device")
