"""What a session's job uses: its cgroup in both versions, its processes, its GPUs."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from portal.session_usage import gpus, processes
from portal.session_usage.cgroups import GroupUse, JobGroup, job_group, parse_v1, parse_v2, use
from portal.session_usage.gpus import GpuUse
from portal.session_usage.usage import JobUsage, Looks, Rates, RunningKernel, cores_given, memory_given

MIB = 1024 * 1024
V2_CGROUP = "0::/system.slice/gpu01_slurmstepd.scope/job_4711/step_batch/user/task_0\n"
V2_MOUNTS = "35 24 0:30 / /sys/fs/cgroup rw,nosuid,nodev,noexec shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
V1_CGROUP = """\
9:name=systemd:/system.slice/slurmd.service
8:pids:/system.slice/slurmd.service
7:freezer:/slurm_gpu01/uid_20001/job_4711/step_batch
5:memory:/slurm_gpu01/uid_20001/job_4711/step_batch/task_0
4:cpu,cpuacct:/slurm_gpu01/uid_20001/job_4711/step_batch/task_0
"""
V1_MOUNTS = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
"""
V2_FILES = {
    "memory.current": "3221225472\n",
    "memory.max": "51539607552\n",
    "memory.stat": "anon 2147483648\nfile 1073741824\ninactive_file 1073741824\nactive_file 0\n",
    "cpu.stat": "usage_usec 7250000\nuser_usec 7000000\nsystem_usec 250000\n",
}
V1_FILES = {
    "memory.usage_in_bytes": "3221225472\n",
    "memory.limit_in_bytes": "51539607552\n",
    "memory.stat": "cache 1\ninactive_file 7\ntotal_inactive_file 1073741824\n",
    "cpuacct.usage": "7250000000\n",
}
USED = GroupUse(memory_bytes=2048 * MIB, limit_bytes=48 * 1024 * MIB, cpu_s=7.25)


def test_the_group_of_the_job_is_read_and_not_that_of_the_step() -> None:
    folder = Path("/sys/fs/cgroup/system.slice/gpu01_slurmstepd.scope/job_4711")
    assert job_group(V2_CGROUP, V2_MOUNTS) == JobGroup(2, folder, folder)
    below = "slurm_gpu01/uid_20001/job_4711"
    memory, cpu = Path("/sys/fs/cgroup/memory", below), Path("/sys/fs/cgroup/cpu,cpuacct", below)
    assert job_group(V1_CGROUP, V1_MOUNTS) == JobGroup(1, memory, cpu)


def test_a_hybrid_node_has_its_controllers_in_version_1() -> None:
    both = job_group(V1_CGROUP + "0::/system.slice/job_1\n", V1_MOUNTS + V2_MOUNTS)
    assert both is not None
    assert both.version == 1


def test_a_container_sees_a_part_of_the_hierarchy() -> None:
    mounts = V2_MOUNTS.replace(" / /sys", " /system.slice /sys")
    found = job_group(V2_CGROUP, mounts)
    assert found is not None
    assert found.memory == Path("/sys/fs/cgroup/gpu01_slurmstepd.scope/job_4711")


@pytest.mark.parametrize("cgroup", ["", "0::/\n", "0::/user.slice/user-1000.slice/session-2.scope\n", "1:cpu:/jobs\n"])
def test_outside_of_a_job_there_is_no_group(cgroup: str) -> None:
    assert job_group(cgroup, V1_MOUNTS + V2_MOUNTS) is None


def test_both_versions_tell_the_same() -> None:
    assert parse_v2(V2_FILES) == USED
    assert parse_v1(V1_FILES) == USED


def test_no_limit_is_none() -> None:
    assert parse_v2({**V2_FILES, "memory.max": "max\n"}).limit_bytes is None
    assert parse_v1({**V1_FILES, "memory.limit_in_bytes": "9223372036854771712\n"}).limit_bytes is None


def test_what_cannot_be_read_is_not_known() -> None:
    def refuse(file: Path) -> str:
        raise PermissionError(13, "Permission denied", str(file))

    group = job_group(V2_CGROUP, V2_MOUNTS)
    assert group is not None
    assert use(group, refuse) == GroupUse()
    assert use(JobGroup(1, None, Path("/cpu")), lambda file: V1_FILES[file.name]) == GroupUse(cpu_s=7.25)


def test_cores_are_those_that_were_busy_between_two_looks() -> None:
    rates = Rates()
    assert rates.busy("", 10.0, 100.0) is None
    assert rates.busy("", 25.0, 110.0) == 1.5
    assert rates.busy("kernel", 5.0, 110.0) is None
    assert rates.busy("", 20.0, 120.0) == 0.0, "processes have ended, and took their time with them"
    assert rates.busy("", None, 130.0) is None


def test_without_a_limit_of_the_group_it_is_what_slurm_gave() -> None:
    assert memory_given({"SLURM_MEM_PER_NODE": "1024"}) == 1024 * MIB
    assert memory_given({"SLURM_MEM_PER_CPU": "512", "SLURM_CPUS_ON_NODE": "4"}) == 2048 * MIB
    assert memory_given({"SLURM_MEM_PER_NODE": "0"}) is None, "all of a node: its size is not said"
    assert memory_given({}) is None
    assert cores_given({"SLURM_CPUS_ON_NODE": "10"}) == 10
    assert cores_given({}) is None


@pytest.fixture
def hungry() -> Any:
    """A process of the job 4711 with 64 MiB."""
    script = "import sys; kept = bytearray(64 * 1024 * 1024); print(len(kept), flush=True); sys.stdin.read()"
    child = subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, processes.JOB: "4711"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child
        child.kill()


def test_the_processes_of_a_job_are_found_by_its_number(hungry: Any) -> None:
    assert processes.use_of_job("4711").memory_bytes > 64 * MIB
    assert processes.use_of_job("4712") == processes.ProcessUse(0, 0.0)
    assert processes.use_of_job("").memory_bytes > 64 * MIB, "this process and its children"


def test_a_kernel_is_its_process_and_what_that_started(hungry: Any) -> None:
    assert processes.use_of_tree(hungry.pid).memory_bytes > 64 * MIB
    assert processes.use_of_tree(2**22 + 1) == processes.ProcessUse(0, 0.0)


def test_a_look_tells_everything_at_once(tmp_path: Path, hungry: Any) -> None:
    environ = {"SLURM_JOB_ID": "4711", "SLURM_CPUS_ON_NODE": "2", "SLURM_MEM_PER_NODE": "256"}
    seen = JobUsage(tmp_path, environ).look([RunningKernel("k1", "python3", "first.ipynb", hungry.pid)])

    assert seen["source"] == "processes"
    assert seen["memory"]["limit_bytes"] == 256 * MIB
    assert seen["memory"]["used_bytes"] > 64 * MIB
    assert seen["cpu"] == {"cores_busy": None, "cores": 2}
    assert (seen["gpus"], seen["why_no_gpus"]) == ([], gpus.NONE_GIVEN)
    assert 0 < seen["disk"]["free_bytes"] <= seen["disk"]["size_bytes"]
    [kernel] = seen["kernels"]
    assert kernel["path"] == "first.ipynb"
    assert kernel["memory_bytes"] > 64 * MIB


def test_a_home_that_is_gone_is_not_known(tmp_path: Path) -> None:
    assert JobUsage(tmp_path / "gone", {}).look([])["disk"] is None


async def test_many_pages_make_one_look_and_one_that_hangs_is_not_followed_by_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[int] = []
    goes_on = threading.Event()
    now = 100.0

    def look(_: Sequence[RunningKernel]) -> dict[str, Any]:
        looks.append(len(looks))
        if len(looks) == 2:
            goes_on.wait()
        return {"look": len(looks)}

    monkeypatch.setattr("portal.session_usage.usage.WITHIN_S", 0.05)
    asked = Looks(look, lambda: now)
    assert list(await asyncio.gather(asked.latest([]), asked.latest([]))) == [{"look": 1}] * 2
    now += 3
    assert await asked.latest([]) is None
    now += 3
    assert await asked.latest([]) is None
    assert len(looks) == 2
    goes_on.set()
    while (found := await asked.latest([])) is None:
        continue
    assert found == {"look": 2}


class RecordedNvml:
    """NVML on a node with GPUs: a whole one each, or parts; ``closed`` are other jobs'."""

    def __init__(self, count: int = 4, closed: Sequence[int] = (), parts: int = 0) -> None:
        self.count, self.closed, self.parts = count, closed, parts
        self.is_open = False

    def nvmlInit(self) -> None:
        self.is_open = True

    def nvmlShutdown(self) -> None:
        self.is_open = False

    def nvmlDeviceGetCount(self) -> int:
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        if index in self.closed:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NO_PERMISSION)
        return str(index)

    def nvmlDeviceGetMinorNumber(self, handle: str) -> int:
        return int(handle)

    def nvmlDeviceGetMigMode(self, handle: str) -> list[int]:
        if not self.parts:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return [pynvml.NVML_DEVICE_MIG_ENABLE] * 2

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: str) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: str, index: int) -> str:
        if index >= self.parts:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return f"{handle}.{index}"

    def nvmlDeviceGetUUID(self, handle: str) -> str:
        return f"{'MIG' if '.' in handle else 'GPU'}-{handle}"

    def nvmlDeviceGetName(self, handle: str) -> str:
        return "Tesla V100-SXM2-32GB"

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> SimpleNamespace:
        return SimpleNamespace(used=2 * MIB, total=32 * MIB)

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> SimpleNamespace:
        if "." in handle:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return SimpleNamespace(gpu=73, memory=12)


def job(gpus_given: int, **more: str) -> dict[str, str]:
    """The variables of a job with so many GPUs."""
    return {"SLURM_JOB_ID": "4711", "SLURM_GPUS_ON_NODE": str(gpus_given), **more}


def uuids(nvml: RecordedNvml, environ: dict[str, str]) -> list[str]:
    """Those that are shown."""
    found, _ = gpus.look(environ, nvml)
    assert not nvml.is_open
    return [one.uuid for one in found]


def test_a_gpu_tells_what_it_does() -> None:
    assert gpus.look(job(1), RecordedNvml(1)) == (
        [GpuUse("GPU-0", "Tesla V100-SXM2-32GB", 0, 73, 2 * MIB, 32 * MIB)],
        "",
    )


def test_those_of_other_jobs_are_not_shown() -> None:
    assert uuids(RecordedNvml(closed=[0, 1, 3]), job(1, SLURM_JOB_GPUS="2")) == ["GPU-2"]
    assert uuids(RecordedNvml(), job(2, SLURM_JOB_GPUS="1,3")) == ["GPU-1", "GPU-3"], "the node hides none"
    assert uuids(RecordedNvml(), job(1, CUDA_VISIBLE_DEVICES="GPU-2")) == ["GPU-2"]
    assert len(uuids(RecordedNvml(), {})) == 4, "no job: the person's own machine"


def test_parts_of_a_gpu_are_shown_each_without_a_share_that_nobody_knows() -> None:
    nvml = RecordedNvml(1, parts=2)
    found, _ = gpus.look(job(1, CUDA_VISIBLE_DEVICES="MIG-0.1"), nvml)
    assert [(one.uuid, one.busy_percent, one.error) for one in found] == [("MIG-0.1", None, "")]


def test_a_gpu_that_has_fallen_off_the_bus_says_so_and_the_others_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = RecordedNvml(2)

    def lost(handle: str) -> Any:
        if handle == "0":
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return SimpleNamespace(gpu=1, memory=1)

    monkeypatch.setattr(nvml, "nvmlDeviceGetUtilizationRates", lost)
    found, _ = gpus.look(job(2), nvml)
    assert [(one.busy_percent, one.error) for one in found] == [(None, "GPU is lost."), (1, "")]


def test_why_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    nvml = RecordedNvml()
    assert gpus.look(job(0), nvml) == ([], gpus.NONE_GIVEN)
    monkeypatch.setattr(nvml, "nvmlInit", none)
    assert gpus.look(job(1), nvml) == ([], gpus.NO_DRIVER)
    assert gpus.look({}, nvml) == ([], gpus.NO_DRIVER)
