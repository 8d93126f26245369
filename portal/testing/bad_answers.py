"""Bad answers of squeue, by name: what Slurm, its host, and what is between have been seen to print.

None of them may end a session. Those that Slurm printed itself are recorded (tests/fixtures/slurm) or seen in its
sources; the others are what a wrapper, a full disk or a wrong ``PATH`` makes of an answer. The unit tests, the
contract tests and the fault suite all read this one table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from portal.testing.outages import SlurmGarbage

# squeue prints these with the exit status 1 and nothing else.
_ERRORS = {
    "the controller cannot be reached": "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
    "the controller is too slow": "slurm_load_jobs error: Socket timed out on send/recv operation",
    "zero bytes": "slurm_load_jobs error: Zero Bytes were transmitted or received",
    "an unexpected message": "slurm_load_jobs error: Unexpected message received",
    "munge is dead": (
        "squeue: error: If munged is up, restart with --num-threads=10\n"
        'squeue: error: Munge encode failed: Failed to access "/run/munge/munge.socket.2": No such file or directory\n'
        "slurm_load_jobs error: Protocol authentication error"
    ),
    "another version": "slurm_load_jobs error: Incompatible versions of client and server code",
    "the backup controller sleeps": "slurm_load_jobs error: Slurm backup controller in standby mode",
    "no settings": (
        "squeue: error: resolve_ctls_from_dns_srv: res_nsearch error: Host name lookup failure\n"
        "squeue: error: fetch_config: DNS SRV lookup failed\n"
        "squeue: fatal: Could not establish a configuration source"
    ),
    "sudo asks": "sudo: a terminal is required to read the password; sudo: a password is required",
    "a busy controller": "slurm_load_jobs error: Slurm temporarily unable to accept job, sleeping and retrying",
    "not allowed": "slurm_load_jobs error: Access/permission denied",
    "no library": "squeue: error while loading shared libraries: libslurmfull.so: cannot open shared object file",
}

# Wrong states that squeue shows for a job that runs on: the snapshot is good, and no session ends by it.
_WRONG_STATES = {
    "suspended": "SUSPENDED",
    "preempted": "PREEMPTED",
    "lost with its node": "NODE_FAIL",
    "unknown": "HIBERNATING",
}

_NOTHING = {"nothing": "", "nothing, with an error": "slurm_load_jobs error: Unspecified error\n"}

READ_RIGHTLY = {
    "other ends of lines",
    "empty lines",
    "a listing without a job",
    *_NOTHING,
    *(f"shown as {name}" for name in _WRONG_STATES),
}


def bad_answers(listing: str, job_id: str) -> Mapping[str, SlurmGarbage]:
    """Answers by name, made out of a good ``listing`` in which the job ``job_id`` runs.

    Those in :data:`READ_RIGHTLY` are answers that a careful reader may believe (of an empty queue: once the
    controller says that it is up): it must still not take them for the job's end. In all others there is nothing
    to believe.
    """
    line = next(line for line in listing.splitlines() if line.startswith(f"{job_id}|"))
    columns = line.split("|")
    errors = {name: SlurmGarbage("", f"{error}\n", 1) for name, error in _ERRORS.items()}
    nothing = {name: SlurmGarbage("", error) for name, error in _NOTHING.items()}
    return errors | nothing | {name: SlurmGarbage(text) for name, text in _texts(listing, line, columns).items()} | {
        "a failure with a good listing": SlurmGarbage(listing, "slurm_load_jobs error: Unspecified error\n", 1),
        "a failure without a word": SlurmGarbage("", "", 1),
        "killed": SlurmGarbage("", "", 137),
        "not there": SlurmGarbage("", "squeue: command not found\n", 127),
        "a time-out of a wrapper with half a listing": SlurmGarbage(listing[: len(listing) // 2], "", 124),
    }  # fmt: skip


def _texts(listing: str, line: str, columns: list[str]) -> dict[str, str]:
    """What comes with the exit status 0."""
    rest = "|".join(columns[2:])
    wrong_states = {
        f"shown as {name}": listing.replace(line, f"{columns[0]}|{state}|{rest}")
        for name, state in _WRONG_STATES.items()
    }
    page = "<!DOCTYPE html>\n<html><head><title>502 Bad Gateway</title></head><body></body></html>\n"
    return wrong_states | {
        "half a line": "|".join(columns[:4]) + "\n",
        "cut off in the middle of a line": f"{listing.rstrip()[: -len(rest)]}",
        "a header only": "JOBID|STATE|PARTITION|USER|NODELIST|SUBMIT_TIME|START_TIME|END_TIME|PRIORITY|REASON\n",
        "a page of a web server": page,
        "bytes of a program": "\x7fELF\x02\x01\x01\ufffd\ufffd\ufffd\x10>\n",
        "a NUL in a line": listing.replace("|", "|\0", 1),
        "megabytes of garbage": "lorem ipsum dolor sit amet\n" * 80_000,
        "JSON": json.dumps({"meta": {"slurm": {"release": "22.05.8"}}, "errors": ["no"], "jobs": []}, indent=1) + "\n",
        "another locale": line.replace(columns[1], "LÄUFT") + "\n",
        "a job that is there twice": listing + line + "\n",
        "a negative number": f"-{line}\n",
        "a message of the day": f"Welcome to the cluster!\n{listing}",
        "a warning between the lines": f"squeue: warning: slow\n{listing}",
        "a time without a date": line.replace(columns[5], "Tomorr 09:00") + "\n",
        "a priority that is none": "|".join([*columns[:8], "high", *columns[9:]]) + "\n",
        "another separator": listing.replace("|", "\x1f"),
        "other ends of lines": listing.replace("\n", "\r\n"),
        "empty lines": f"\n\n{listing}\n\n",
        "a listing without a job": f"{int(columns[0]) + 1000}|{'|'.join(columns[1:])}\n",
    }
