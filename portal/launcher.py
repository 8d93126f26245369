"""portal-launch: the one command that sudo lets the portal run as a person. Standard library only.

One JSON object on standard input, one on standard output. Four verbs:

- ``submit``: writes the session's environment into a file that only the person can read, then runs ``sbatch``
  with options out of a fixed list, each as root's own settings file says (:mod:`portal.launch_rules`), and the portal's
  constant batch script. Answers the job id.
- ``finish``: runs ``squeue`` and ``scancel`` for the session's job, removes the environment file and answers the last
  lines of the session's log. Finishing twice, or a job that is gone, is no fault.
- ``look``: answers where the person's private folder is, which is made and written into, or why it cannot be.
- ``test``: asks ``sbatch --test-only`` with the same options when that job would start; no job and no file come of it.

It runs with the person's own rights and gives nobody more than ``sbatch``, ``squeue`` and ``scancel`` already give
them; it is narrow so that the hub's account can start the portal's sessions for people and nothing else. It never
takes a command, a script or a path from its input.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import signal
import subprocess
import sys
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from portal import launch_rules
from portal.homes import own_folder, private_folder, regular_file, session_logs

SESSIONS = f"{private_folder.IN_HOME}/{private_folder.SESSIONS}"  # unless [session] private_folder says otherwise
ENVIRONMENT_FILE = "environment.json"
LOG_FILE = "session.log"
SLURM_TIMEOUT_S = 45  # sbatch itself retries for a while when slurmctld restarts
LOG_TAIL_BYTES = 6000
LIFETIME_S = 58  # a home that hangs must not leave this behind: the hub's account cannot end what sudo started

_OPTION = re.compile(
    r"--(job-name=dsportal-[0-9a-f]{16}|partition=[A-Za-z0-9._-]+|nodes=1|ntasks=1|cpus-per-task=[1-9]\d{0,5}"
    r"|mem=(0|[1-9]\d{0,8})M|gres=(gpu|shard)(:[A-Za-z0-9._+-]+)?:[1-9]\d{0,4}|time=[1-9]\d{0,6}|requeue|open-mode=append|export=ALL"
    r"|(account|qos|reservation)=[A-Za-z0-9][A-Za-z0-9._-]{0,63}|exclusive(=user)?|comment=[ -~]{1,200}"
    r"|constraint=[A-Za-z0-9(\[][A-Za-z0-9._&|*:()\[\],-]{0,199}|licenses=[A-Za-z0-9][A-Za-z0-9._@:,-]{0,199}"
    r"|mail-type=[A-Z][A-Z0-9_,]{1,80}"
    r"|mail-user=[A-Za-z0-9][A-Za-z0-9._+-]{0,63}@[A-Za-z0-9][A-Za-z0-9-]{0,62}(\.[A-Za-z0-9-]{1,63}){1,8})\Z",
    re.ASCII,
)
# Messages of sbatch when it is not the request that is wrong (Slurm 22.05 to 25.11).
_UNAVAILABLE = re.compile(
    r"Unable to contact slurm controller|Socket timed out|Zero Bytes were transmitted|authentication|munge|"
    r"Connection refused|not responding",
    re.IGNORECASE,
)
SIGNALLED = range(129, 193)  # how a shell ends whose program a signal ended, as in a site's own sbatch: 128 + signal
_JOB_ID = re.compile(r"\d{1,12}\Z", re.ASCII)
_VARIABLE = re.compile(r"(JUPYTERHUB|JPY|DSPORTAL|JUPYTER)_[A-Z0-9_]+\Z|JUPYTER_PATH\Z", re.ASCII)


class RequestRefused(ValueError):
    """The request is not one this program knows."""


class SubmitRequest(NamedTuple):  # no dataclass: importing those would be a third of this program's time
    """A checked ``submit`` or ``test``: the session's key, options for ``sbatch``, and the session's environment."""

    key: str
    options: tuple[str, ...]
    environment: dict[str, str]
    is_test: bool = False


class LookRequest(NamedTuple):
    """A ``look`` at the person's private folder."""


class FinishRequest(NamedTuple):
    """A checked ``finish``: key, id of the job (``""`` = unknown), its submission in s since 1970 (0 = unknown)."""

    key: str
    job_id: str
    submitted: int = 0


def main() -> int:
    """Read one request, do it, print one answer."""
    os.umask(0o077)
    signal.alarm(LIFETIME_S)
    try:
        answer = handle(json.loads(sys.stdin.buffer.read().decode()))
    except OSError as error:
        answer = {"ok": False, "message": f"{error.filename or 'your home'}: {error.strerror}"}
    except (ValueError, RecursionError, subprocess.SubprocessError) as error:
        answer = {"ok": False, "message": f"portal-launch: {error}"}
    json.dump(answer, sys.stdout)
    return 0


def parse_request(request: Any, own_options: Container[str] = ()) -> SubmitRequest | FinishRequest | LookRequest:
    """Check every part of a request, before anything of it is done.

    Arguments:
        own_options: those that root wrote into the settings file, beside the fixed list.

    Raises:
        RequestRefused: a part of it is not one that a session may have.
    """
    if not isinstance(request, dict) or request.get("verb") not in ("submit", "finish", "look", "test"):
        raise RequestRefused("the verbs are submit, finish, look and test")
    if request["verb"] == "look":
        return LookRequest()
    key = _matching(session_logs.KEY, request.get("key"), "key")
    if request["verb"] in ("submit", "test"):
        options = _options(request.get("options"), own_options, key)
        return SubmitRequest(key, options, _environment(request.get("environment")), request["verb"] == "test")
    job_id = request.get("job_id", "")
    submitted = request.get("submitted", 0)
    if type(submitted) is not int or submitted < 0:
        raise RequestRefused("submitted is a number of seconds")
    return FinishRequest(key, _matching(_JOB_ID, job_id, "job_id") if job_id else "", submitted)


def handle(request: Any) -> dict[str, object]:
    """Do one request; the answer is a JSON object with ``ok``.

    Raises:
        RequestRefused: it is not one of a session; nothing was done.
    """
    settings = launch_rules.read()
    checked = parse_request(request, launch_rules.own_options(settings.tables))
    environment = clean((settings.tables or {}).get("cluster", {}))
    form = str((settings.tables or {}).get("session", {}).get("private_folder", ""))
    if isinstance(checked, LookRequest):
        return _look(form)
    if not isinstance(checked, SubmitRequest):
        folder = private_folder.of_session(form, _home(), checked.key)
        return _finish(folder, checked, environment)
    if fault := launch_rules.fault(checked.options, settings, environment["USER"]):
        raise RequestRefused(fault)
    if checked.is_test:
        return _test(checked, environment)
    private = private_folder.of_person(form, _home())
    checked.environment.pop(private_folder.VARIABLE, None)  # root's file alone says where
    if form:
        checked.environment[private_folder.VARIABLE] = str(private)
    return _submit(private / private_folder.SESSIONS / checked.key, checked, environment)


def _look(form: str) -> dict[str, object]:
    folder = private_folder.of_person(form, _home())
    private_folder.write_and_remove(folder / private_folder.SESSIONS)
    return {"ok": True, "folder": str(folder)}


def _submit(folder: Path, request: SubmitRequest, environment: dict[str, str]) -> dict[str, object]:
    session_logs.remove_old(folder.parent)
    own_folder.close(folder.parent)  # which earlier versions left open in some homes
    own_folder.make_own(folder)
    _write_private(folder / ENVIRONMENT_FILE, json.dumps(request.environment))
    argv = ["sbatch", "--parsable", *request.options, f"--chdir={_home()}", f"--output={folder / LOG_FILE}"]
    try:
        done = _slurm([*argv, str(_script()), sys.executable, str(folder)], environment)
    except subprocess.TimeoutExpired:
        return {"ok": False, "unknown": True, "message": f"sbatch did not answer within {SLURM_TIMEOUT_S} s"}
    message = done.stderr.strip() or done.stdout.strip()
    if is_unavailable(done.returncode, message):  # the job may have been accepted: its file stays
        return {"ok": False, "unknown": True, "message": message}
    if done.returncode != 0:
        _remove_environment(folder)
        return {"ok": False, "refused": True, "message": message}
    return {"ok": True, "job_id": done.stdout.strip().partition(";")[0]}


def _test(request: SubmitRequest, environment: dict[str, str]) -> dict[str, object]:
    argv = ["sbatch", "--test-only", *request.options, f"--chdir={_home()}", "--output=/dev/null", str(_script())]
    done = _slurm(argv, {**environment, "SLURM_TIME_FORMAT": "%s"})
    return {"ok": done.returncode == 0, "message": done.stderr.strip()}


def _finish(folder: Path, request: FinishRequest, environment: dict[str, str]) -> dict[str, object]:
    """``scancel`` of a job that is gone exits 0 or names it on stderr; both are fine.

    A job of the person that has this number by now is left alone: it is cancelled by its name beside the number, or as
    the very submission that the hub knew as the session's, since its owner may have given it another name.
    """
    message = ""
    if request.job_id:
        known = request.submitted and is_submission(_shown(request.job_id, environment), os.getuid(), request)
        by_name = [] if known else [f"--name=dsportal-{request.key}"]
        done = _slurm(["scancel", *by_name, request.job_id], environment)
        message = (done.stderr.strip() or f"scancel ended with status {done.returncode}") if done.returncode else ""
    with contextlib.suppress(OSError):  # a home that cannot be written does not undo the scancel
        _remove_environment(folder)
    gone = not message or "Invalid job id" in message
    return {"ok": gone, "message": message, "log": regular_file.tail(folder / LOG_FILE, LOG_TAIL_BYTES)}


def _shown(job_id: str, environment: dict[str, str]) -> str:
    return _slurm(show_command(job_id), {**environment, "SLURM_TIME_FORMAT": "%s"}).stdout


def show_command(job_id: str) -> list[str]:
    """Ask whose a job is, and when it was submitted: no text of its owner's."""
    return ["squeue", "--noheader", "--all", f"--jobs={job_id}", "--format=%U|%V"]


def is_submission(shown: str, uid: int, request: FinishRequest) -> bool:
    """Whether ``squeue`` shows the very job that was submitted then, by this account."""
    return shown.strip() == f"{uid}|{request.submitted}"


def is_unavailable(status: int, message: str) -> bool:
    """Whether ``sbatch`` got no answer from Slurm, by its words or as a signal ended it: the job may be accepted."""
    return status < 0 or status in SIGNALLED or (status != 0 and _UNAVAILABLE.search(message) is not None)


def _remove_environment(folder: Path) -> None:
    (folder / ENVIRONMENT_FILE).unlink(missing_ok=True)


def _write_private(path: Path, text: str) -> None:
    """Create ``path`` for its owner alone; an existing file or link there is an error, not followed."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


def _slurm(argv: Sequence[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SLURM_TIMEOUT_S,
        errors="replace", check=False,
    )  # fmt: skip


def clean(cluster: dict[str, str]) -> dict[str, str]:
    """The short environment that sbatch sees and exports; it holds nothing of the hub.

    A slurm.conf decides what sbatch loads: only root's settings file says which, whatever sudo lets through.
    """
    person = pwd.getpwuid(os.getuid())
    kept = {"PATH": os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin")}
    if folder := cluster.get("slurm_path"):
        kept["PATH"] = f"{folder}:{kept['PATH']}"
    if file := cluster.get("slurm_conf"):
        kept["SLURM_CONF"] = file
    return {
        "LANG": "C.UTF-8",
        "HOME": person.pw_dir,
        "USER": person.pw_name,
        "LOGNAME": person.pw_name,
        "SHELL": person.pw_shell or "/bin/sh",
        **kept,
    }


def _home() -> str:
    return pwd.getpwuid(os.getuid()).pw_dir


def _script() -> Path:
    """The constant batch script, installed beside this program or in the checkout."""
    name = Path("templates", "job", "session.sh")
    installed = Path(sys.prefix) / "share" / "dsportal" / name
    return installed if installed.is_file() else Path(__file__).resolve().parent.parent / name


def _environment(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise RequestRefused("environment is an object of text")
    for name, text in value.items():
        _matching(_VARIABLE, name, "environment variable")
        if not isinstance(text, str) or "\0" in text:
            raise RequestRefused(f"the environment variable {name} is no text")
    return value


def _options(value: Any, own: Container[str], key: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise RequestRefused("options is a list")
    if any(str(one).startswith("--job-name=") and one != f"--job-name=dsportal-{key}" for one in value):
        raise RequestRefused("the job's name is that of its session")
    return tuple(
        option if isinstance(option, str) and option in own else _matching(_OPTION, option, "option")
        for option in value
    )


def _matching(pattern: re.Pattern[str], value: object, what: str) -> str:
    if not isinstance(value, str) or not pattern.match(value):
        raise RequestRefused(f"{what} {str(value)[:60]!r} is not one that a session may have")
    return value


if __name__ == "__main__":
    sys.exit(main())
