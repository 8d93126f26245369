"""``[session]``, ``[[gpu]]``, ``[[partition]]`` and ``[[storage]]``: what a session may ask for, and gets."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from portal.settings.values import AbsolutePath, Count, Group, Hours, Name, Positive, Table


class SessionTable(Table):
    """``[session]``: what a session gets. Memory in GB as Slurm counts it (1 GB = 1024 MiB)."""

    gpus_max: Count = 4
    cores_per_gpu: Positive = 8
    memory_gb_per_gpu: Positive = 48
    cores_without_gpu: Positive = 2
    memory_gb_without_gpu: Positive = 8
    hours_default: Hours = 8
    hours_max: Hours = 24
    wait_max_hours: Count = 0  # in the queue; 0 = as long as Slurm makes it wait
    start_timeout_min: Positive = 10  # from the job's start on its node, never counted while it waits
    when_person_leaves: Literal["stop", "keep"] = "stop"  # what becomes of the session of who may not use it any more


class GpuTable(Table):
    """``[[gpu]]``: one kind of GPU, as Slurm calls it in ``--gres`` and as people call it."""

    name: Name
    title: str
    gres: Annotated[str, Field(pattern=r"^gpu(:[A-Za-z0-9._-]+)?$")] = "gpu"


class PartitionTable(Table):
    """``[[partition]]``: a Slurm partition that the portal offers."""

    name: Name
    title: str = ""
    gpu: str = ""  # the name of a [[gpu]]; "" = any
    gpus_max: Count | None = None
    hours_max: Hours | None = None
    default: bool = False
    groups: tuple[Group, ...] = ()  # empty = everybody


class StorageTable(Table):
    """``[[storage]]``: a big folder that appears in everybody's files under ``name``."""

    name: Name
    path: AbsolutePath
