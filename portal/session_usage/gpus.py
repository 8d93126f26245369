"""What each GPU of the session's job does, by NVIDIA's management library (NVML).

Slurm numbers GPUs of the node, CUDA those of the job, and NVML lists some that it may not open: what counts is which
one NVML can open, and its UUID. A part of a GPU (MIG) has no share of the work that NVML could tell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import pynvml

from portal.lessons import lesson_gpus

NO_DRIVER = "This node has no GPU, or its driver is not loaded."
NONE_GIVEN = "This session has no GPU."
_NO_DRIVER = (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
T = TypeVar("T")


@dataclass(frozen=True)
class GpuUse:
    """One GPU, or a part of one; what NVML does not tell is None.

    Attributes:
        minor: the number of its device file, ``/dev/nvidiaMINOR``.
        error: why something of it is not known, in NVML's words; ``""`` where nothing is wrong.
    """

    uuid: str
    name: str
    minor: int | None = None
    busy_percent: int | None = None
    memory_used_bytes: int | None = None
    memory_bytes: int | None = None
    error: str = ""


def look(environ: Mapping[str, str], nvml: Any = pynvml) -> tuple[list[GpuUse], str]:
    """The GPUs of the job, and why there are none where there are none."""
    if lesson_gpus.given(environ) == 0:
        return [], NONE_GIVEN
    try:
        nvml.nvmlInit()
    except pynvml.NVMLError as error:
        return [], NO_DRIVER if error.value in _NO_DRIVER else f"{error}."
    try:
        found = [one for index in range(nvml.nvmlDeviceGetCount()) for one in _device(index, nvml)]
    except pynvml.NVMLError as error:
        return [], f"{error}."
    finally:
        nvml.nvmlShutdown()
    mine = of_job(found, environ)
    return mine, "" if mine else NONE_GIVEN


def of_job(found: Sequence[GpuUse], environ: Mapping[str, str]) -> list[GpuUse]:
    """Those of them that Slurm gave to this job; all of them outside of a job."""
    given = lesson_gpus.given(environ)
    if given is None:
        return list(found)
    uuids = tuple(one for one in lesson_gpus.visible(environ) or () if one.startswith(("GPU-", "MIG-")))
    if uuids:
        return [one for one in found if one.uuid.startswith(uuids)]
    numbers = (environ.get("SLURM_STEP_GPUS") or environ.get("SLURM_JOB_GPUS") or "").split(",")
    if len(found) > given:  # the node does not hide those of other jobs
        return [one for one in found if str(one.minor) in numbers] or list(found)
    return list(found)


def _device(index: int, nvml: Any) -> list[GpuUse]:
    """A GPU, or its parts; nothing for one that this job may not open."""
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
    except pynvml.NVMLError as error:
        is_of_others = error.value == pynvml.NVML_ERROR_NO_PERMISSION
        return [] if is_of_others else [GpuUse("", f"GPU {index}", error=f"{error}.")]
    minor = _known(lambda: nvml.nvmlDeviceGetMinorNumber(handle), [])
    return [_use(part, minor, nvml) for part in _parts(handle, nvml) or [handle]]


def _parts(handle: Any, nvml: Any) -> list[Any]:
    """The parts of a GPU that this job may open; none where it is whole."""
    mode = _known(lambda: nvml.nvmlDeviceGetMigMode(handle)[0], [])
    if mode != pynvml.NVML_DEVICE_MIG_ENABLE:
        return []
    most = _known(lambda: nvml.nvmlDeviceGetMaxMigDeviceCount(handle), []) or 0
    found = [_known(partial(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, at), []) for at in range(most)]
    return [part for part in found if part is not None]


def _use(handle: Any, minor: int | None, nvml: Any) -> GpuUse:
    errors: list[str] = []
    memory = _known(lambda: nvml.nvmlDeviceGetMemoryInfo(handle), errors)
    return GpuUse(
        uuid=_known(lambda: nvml.nvmlDeviceGetUUID(handle), errors) or "",
        name=_known(lambda: nvml.nvmlDeviceGetName(handle), errors) or "GPU",
        minor=minor,
        busy_percent=_known(lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu, errors),
        memory_used_bytes=memory.used if memory else None,
        memory_bytes=memory.total if memory else None,
        error=errors[0] if errors else "",
    )


def _known(ask: Callable[[], T], errors: list[str]) -> T | None:
    """What NVML answers; None where it does not, and why, unless this kind of device has no such thing."""
    try:
        return ask()
    except pynvml.NVMLError as error:
        if error.value != pynvml.NVML_ERROR_NOT_SUPPORTED:
            errors.append(f"{error}.")
        return None
