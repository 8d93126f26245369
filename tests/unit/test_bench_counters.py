"""`portal bench`: the readers of what Slurm and the kernel count."""

from __future__ import annotations

import struct
from collections import Counter

from tests.bench import counters

SDIAG = """\
Remote Procedure Call statistics by message type
	REQUEST_PARTITION_INFO                  ( 2009) count:6      ave_time:219    total_time:1315
	REQUEST_JOB_INFO_SINGLE                 ( 2021) count:5      ave_time:161    total_time:805
	MESSAGE_NODE_REGISTRATION_STATUS        ( 1002) count:4      ave_time:762    total_time:3049
	REQUEST_SUBMIT_BATCH_JOB                ( 4003) count:1      ave_time:1088   total_time:1088
	REQUEST_STATS_INFO                      ( 2035) count:3      ave_time:80     total_time:240
	REQUEST_PING                            ( 1008) count:1      ave_time:180    total_time:180

Remote Procedure Call statistics by user
	root            (       0) count:20     ave_time:327    total_time:6556
"""


def test_queries_are_what_asks_and_neither_daemons_nor_submissions_nor_sdiag_itself() -> None:
    assert counters.queries(SDIAG) == Counter(REQUEST_PARTITION_INFO=6, REQUEST_JOB_INFO_SINGLE=5, REQUEST_PING=1)


def record(pid: int, parent: int, name: str) -> bytes:
    """One record of acct(5), version 3."""
    return struct.pack("<BBHIIIIIIf8H16s", 0, 3, 0, 0, 0, 0, pid, parent, 0, 0.0, *[0] * 8, name.encode())


def test_processes_of_the_hubs_tree_are_counted_and_others_are_not() -> None:
    data = record(12, 11, "squeue") + record(11, 10, "sudo") + record(10, 7, "sh")
    ended = counters.records(data + record(21, 20, "squeue") + record(20, 1, "bash") + b"half a record")

    assert counters.below(7, ended) == Counter(squeue=1, sudo=1, sh=1)


def test_a_process_number_used_twice_makes_no_circle() -> None:
    ended = counters.records(record(5, 6, "a") + record(6, 5, "b"))

    assert counters.below(7, ended) == Counter()
