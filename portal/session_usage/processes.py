"""The processes of a job: all of them together where no cgroup counts them, and those of each kernel."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

import psutil

JOB = "SLURM_JOB_ID"


@dataclass(frozen=True)
class ProcessUse:
    """What some processes use: the sum of their resident memory (what they share counts for each), and CPU time."""

    memory_bytes: int
    cpu_s: float


def use_of_job(job_id: str) -> ProcessUse:
    """All processes of a job on this node that are the person's; without a job this server and what it started."""
    return _use(_of_job(job_id) if job_id else _tree(psutil.Process()))


def use_of_tree(pid: int) -> ProcessUse:
    """A process, and all that it has started and what these have."""
    try:
        return _use(_tree(psutil.Process(pid)))
    except psutil.Error:  # it has ended
        return ProcessUse(0, 0.0)


def _tree(process: psutil.Process) -> list[psutil.Process]:
    return [process, *process.children(recursive=True)]


def _of_job(job_id: str) -> Iterable[psutil.Process]:
    for process in psutil.process_iter():
        try:
            if process.uids().real == os.getuid() and process.environ().get(JOB) == job_id:
                yield process
        except psutil.Error:
            continue


def _use(processes: Iterable[psutil.Process]) -> ProcessUse:
    memory_bytes = 0
    cpu_s = 0.0
    for process in processes:
        try:
            with process.oneshot():
                times = process.cpu_times()
                memory_bytes += process.memory_info().rss
        except psutil.Error:  # it has ended meanwhile, or is another person's
            continue
        cpu_s += times.user + times.system
    return ProcessUse(memory_bytes, cpu_s)
