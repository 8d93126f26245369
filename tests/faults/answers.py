"""What squeue may answer when something is wrong: none of it ends a session."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BadAnswer:
    """One answer: what is printed, the exit status; or the true answer, changed by a script of sed(1)."""

    name: str
    stdout: bytes = b""
    stderr: str = ""
    returncode: int = 0
    sed: str = ""


def _error(name: str, words: str, returncode: int = 1) -> BadAnswer:
    return BadAnswer(name, stderr=f"slurm_load_jobs error: {words}\n", returncode=returncode)


def _lie(state: str) -> BadAnswer:
    """The true queue, but every job that runs is shown in another state."""
    return BadAnswer(f"a job that runs is shown as {state}", sed=f"s/RUNNING/{state}/")


BAD_ANSWERS = (
    BadAnswer("nothing at all"),
    BadAnswer("nothing, exit status 1", returncode=1),
    BadAnswer("nothing, with an error and exit status 0", stderr="slurm_load_jobs error: Unspecified error\n"),
    _error("no controller", "Unable to contact slurm controller (connect failure)"),
    _error("a controller that hangs", "Socket timed out on send/recv operation"),
    _error("zero bytes", "Zero Bytes were transmitted or received"),
    _error("an unexpected message", "Unexpected message received"),
    _error("munge is dead", "Protocol authentication error"),
    _error("a wrong version", "Incompatible versions of client and server code"),
    _error("a controller in standby", "Slurm backup controller in standby mode"),
    _error("a controller that is busy", "Slurm temporarily unable to accept job, sleeping and retrying"),
    BadAnswer(
        "no settings",
        stderr="squeue: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\n"
        "squeue: fatal: Could not establish a configuration source\n",
        returncode=1,
    ),
    BadAnswer("not installed", stderr="squeue: cannot open libslurmfull.so\n", returncode=127),
    BadAnswer("killed in the middle", sed="1s/|.*//", returncode=137),
    BadAnswer("half a line, exit status 0", sed="1s/|.*//"),
    BadAnswer("other people's jobs only", stdout=b"", sed="d;$a 999999|RUNNING"),
    BadAnswer("only titles", stdout=b"JOBID PARTITION NAME USER ST TIME NODES NODELIST(REASON)\n"),
    BadAnswer("JSON with errors", stdout=b'{"meta": {}, "errors": [{"error": "slurm_load_jobs"}], "jobs": []}\n'),
    BadAnswer("a page of HTML", stdout=b"<html><body>502 Bad Gateway</body></html>\n"),
    BadAnswer("bytes that are no text", stdout=bytes(range(128, 256)) * 20 + b"\n\0\0"),
    BadAnswer("a warning between the lines", sed="1i squeue: warning: slurm.conf differs from the controller's"),
    _lie("SUSPENDED"),
    _lie("PREEMPTED"),
    _lie("NODE_FAIL"),
    _lie("A_STATE_OF_TOMORROW"),
)
