"""The lessons on one's own node and on jobs beyond it, on their kernel, in real Slurm jobs of a person."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.forms import LONG
from tests.inside import eventually, home, is_root_variant, jobs_of, sh
from tests.notebooks import jobs
from tests.notebooks.jobs import ONE_GPU, PERSON, Run, changed, own_folder, program

EIGHT_GIB = (*ONE_GPU, "--mem=8G")
in_a_job = partial(jobs.in_a_job, resources=EIGHT_GIB)
finished_run = partial(jobs.finished_run, resources=EIGHT_GIB)
NODE = {"copy_mib": 16, "seconds_per_pair": 0.1, "storage_mib": 32, "torch_modules": []}
MESSAGES = {"measure_seconds": 0.4, "message_kib": [4, 256, 8192], "torch_modules": ["shared", "shared/pytorch"]}
PRIMES = {"limit": 2_000_000, "job_minutes": 2}
# What nvidia-smi prints on a node with four V100, each joined with every other one by NVLink.
NVIDIA_SMI = r"""#!/bin/sh
case "$1" in
--query-gpu=*) for gpu in 0 1 2 3; do echo "Tesla V100-SXM2-16GB, 16384 MiB, 3, 16"; done ;;
topo) printf '\t\033[4mGPU0\tGPU1\tGPU2\tGPU3\tmlx5_0\tCPU Affinity\tNUMA Affinity\033[0m
GPU0\t X \tNV1\tNV2\tNV1\tSYS\t0-19\t0\nGPU1\tNV1\t X \tNV1\tNV2\tSYS\t0-19\t0
GPU2\tNV2\tNV1\t X \tNV1\tNODE\t20-39\t1\nGPU3\tNV1\tNV2\tNV1\t X \tNODE\t20-39\t1\nmlx5_0\tSYS\tSYS\tNODE\tNODE\t X \n
Legend:\n  NV#  = Connection traversing a bonded set of # NVLinks\n' ;;
esac
"""


@pytest.fixture(scope="module")
def node() -> Iterator[Run]:
    """One small run of the lesson on the node, with a storage linked in the home as a session does it."""
    sh("ln", "-sfn", "/mnt/isilon", str(home(PERSON) / "isilon"), user=PERSON)
    values = {**NODE, **MESSAGES, "keep": True}
    with finished_run("cluster/know_your_node", "node-lesson", values) as run:
        yield run


def test_it_sets_what_slurm_wrote_down_beside_what_the_node_enforces(node: Run) -> None:
    printed = node.text("slurm-job")
    assert re.search(r"Job \d+ in sxm2 on gpu0[1-3], until 20\d\d-", printed)
    assert "cpu 8, mem 8G, node 1" in printed
    (row,) = re.findall(r"^memory (.*)$", printed, re.MULTILINE)
    written, enforced = re.split(r"  +", row.strip())
    assert written == "8 GiB"
    if is_root_variant():
        assert enforced == "8 GiB"
    assert re.search(r"So there are \d+ cores and \d+\.\d GiB to use", printed)


def test_it_tells_its_own_gpu_from_those_of_others(node: Run) -> None:
    devices = dict(re.findall(r"^/dev/(nvidia\d): (.*)$", node.text("gpu-list"), re.MULTILINE))
    assert sorted(devices) == ["nvidia0", "nvidia1", "nvidia2", "nvidia3"]
    if is_root_variant():
        assert sorted(devices.values()) == [*["not yours"] * 3, "yours, but no GPU is behind it"]
    assert "No GPU can be used here" in node.text("gpu-list")
    assert node.text("gpu-pairs") == "No GPU is measured in this run.\n"


def test_every_pair_of_cores_is_measured_and_drawn(node: Run) -> None:
    results = json.loads((node.folder / "know-your-node/node.json").read_text())
    cores = sorted({pair["from"] for pair in results["cores"]})
    assert {(pair["from"], pair["to"]) for pair in results["cores"]} == {(a, b) for a in cores for b in cores}
    for pair in results["cores"]:
        assert pair["right"]
        assert 0.1 < pair["gb_per_s"] < 10_000
        assert 0.01 < pair["us"] < 20_000
    printed = node.text("core-matrix")
    assert printed.count("from / to") == 2
    assert f"{len(cores)} of " in printed
    assert len(node.shown("core-matrix", "image/png")) == 1


def test_the_storage_is_read_from_storage_and_left_as_it_was(node: Run) -> None:
    storage = json.loads((node.folder / "know-your-node/node.json").read_text())["storage"]
    assert list(storage) == [str(home(PERSON)), "/tmp", str(home(PERSON) / "isilon")]
    for folder, found in storage.items():
        assert found["right"]
        assert min(found["write"], found["read"], found["again"]) > 0
        if sh("stat", "--file-system", "--format=%T", folder).strip() in ("ext2/ext3", "xfs", "btrfs"):
            assert found["fetched"] > 0.9, "the first read came out of the page cache"
        assert list(Path(folder).glob(".know-your-node-*")) == []
    assert "2,940 images/s × 0.113 MB" in node.text("storage-test")


def test_the_all_reduce_is_measured_by_message_size_between_ranks_that_are_kept_on_cores(node: Run) -> None:
    results = json.loads((node.folder / "know-your-node/node.json").read_text())["all_reduce"]
    assert [found["bytes"] for found in results] == [4096, 262_144, 8_388_608]
    ranks = len(re.findall(r"^rank \d: cores [\d, ]+$", node.text("pin-ranks"), re.MULTILINE))
    for found in results:
        assert found["right"]
        assert found["seconds"] >= MESSAGES["measure_seconds"]
        speed = found["bytes"] * found["repeats"] / found["seconds"] / 1e9
        assert found["bus"] == pytest.approx(speed * 2 * (ranks - 1) / ranks)
    assert "There is no GPU whose cores are near" in node.text("pin-ranks")
    assert f"{ranks} ranks, gloo, interface " in node.text("all-reduce-test")
    assert len(node.shown("all-reduce-test", "image/png")) == 1
    assert f"As expected: {ranks} ranks, each on cores of its own share, and all sums of 3" in node.text("check")


def test_only_an_interface_that_has_an_address_is_one_to_meet_at(node: Run) -> None:
    listed = re.findall(r"^(\S+): (?:\d+ Mbit/s|speed not known), (.*)$", node.text("interfaces"), re.MULTILINE)
    (meeting,) = re.findall(r"^Ranks meet at (.+)\.$", node.text("interfaces"), re.MULTILINE)
    assert meeting in {"lo", *(name for name, addresses in listed if not addresses.startswith("no address"))}


def test_what_to_set_can_be_sourced_by_a_job_script(node: Run) -> None:
    file = node.folder / "know-your-node/node-settings.sh"
    shown = "echo $OMP_NUM_THREADS $OMP_PROC_BIND ${NCCL_P2P_LEVEL-none}"
    (usable,) = re.findall(r"So there are (\d+) cores", node.text("slurm-job"))
    assert sh("bash", "-c", f"source {file}; {shown}") == f"{usable} close none\n"
    assert "DataLoader(…, num_workers=" in file.read_text()


def test_nothing_puzzling_is_printed_to_stderr(node: Run) -> None:
    assert {name: noise for name, noise in node.stderr.items() if noise} == {}


if LONG:

    def test_gpus_that_nvlink_joins_get_a_process_each_and_nccls_setting() -> None:
        folder = own_folder("node-with-gpus")
        few = {**NODE, "storage_folders": [str(folder)], "max_places": 1}
        four = ["export CUDA_VISIBLE_DEVICES=0,1,2,3", program(folder, "nvidia-smi", NVIDIA_SMI)]
        run = in_a_job("cluster/know_your_node", folder, few, four)
        assert run.status == 0, run.log
        printed = run.text("gpu-list")
        assert printed.count("Tesla V100-SXM2-16GB, 16384 MiB, PCIe 3 × 16") == 4
        assert "GPU0 – GPU2: NV2\n" in printed
        assert "mlx5" not in printed
        assert "Choose a PyTorch kernel for that" in printed
        settings = run.text("what-to-set")
        assert "export NCCL_P2P_LEVEL=NVL" in settings
        assert [int(rank) for rank in re.findall(r"process (\d): taskset --cpu-list \d", settings)] == [0, 1, 2, 3]
        assert "nvidia-smi names no cores" not in run.text("pin-ranks")
        assert "it needs PyTorch, which this kernel has not" in run.text("all-reduce-test")
        assert not (folder / "know-your-node").exists(), "the work folder was to be removed"
        shutil.rmtree(folder)

    def test_memory_that_arrives_changed_is_told_and_no_figure_is_believed() -> None:
        folder = own_folder("node-faulty")
        faulty = changed(
            "cluster/know_your_node", folder, "np.array_equal(own, base + turn)", "own[0] != base[0] + turn"
        )
        run = in_a_job(faulty, folder, {**NODE, "max_places": 1})
        assert run.status != 0
        assert (
            "the cell 'core-matrix' failed with AssertionError: What was read is not what was written, from core"
            in run.log
        )
        shutil.rmtree(folder)

    def test_too_little_memory_is_said_before_anything_is_measured() -> None:
        folder = own_folder("node-too-big")
        run = in_a_job("cluster/know_your_node", folder, {"copy_mib": 20_000})
        assert run.status != 0
        assert re.search(r"GiB of memory, the measurements take 78\.1 GiB: ask for more, or set a smaller", run.log)
        assert "core-matrix" not in run.log
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def beyond() -> Iterator[Run]:
    """One small run of the lesson on jobs."""
    with finished_run("cluster/beyond_one_node", "beyond-lesson", PRIMES) as run:
        yield run


def test_a_job_on_two_nodes_is_submitted_and_followed_with_its_log(beyond: Run) -> None:
    (job,) = re.findall(r"^Submitted job (\d+)$", beyond.text("submit-job"), re.MULTILINE)
    followed = beyond.text("follow-job")
    assert re.search(r"(RUNNING|COMPLETING|COMPLETED) on gpu\[\d\d[,-]\d\d\]", followed), followed
    assert len(re.findall(r"\| task [0-3] on gpu0\d: [\d,]+ primes from", followed)) == 4, followed
    eventually(lambda: job not in jobs_of(PERSON), "the job has left the queue")


def test_what_the_tasks_found_is_what_a_sieve_in_plain_python_finds(beyond: Run) -> None:
    parts = [json.loads(file.read_text()) for file in sorted((beyond.folder / "beyond-one-node").glob("task-*.json"))]
    sieve = bytearray([0, 0]) + bytearray([1]) * (PRIMES["limit"] - 2)
    for number in range(2, int(PRIMES["limit"] ** 0.5) + 1):
        if sieve[number]:
            sieve[number * number :: number] = bytes(len(range(number * number, len(sieve), number)))
    assert sum(part["count"] for part in parts) == sum(sieve) == 148_933
    assert sum(part["sum"] for part in parts) == sum(number for number, prime in enumerate(sieve) if prime)
    assert len({part["node"] for part in parts}) == 2
    assert "As expected: 148,933 primes below 2,000,000 on 2 nodes" in beyond.text("check")


def test_the_accounting_tells_how_the_job_ended(beyond: Run) -> None:
    lines = beyond.text("account").splitlines()
    assert lines[0].split()[:4] == ["JobID", "JobName", "State", "ExitCode"]
    assert re.match(r"\d+ +beyond-one-node +COMPLETED +0:0", lines[1])
    assert any(re.match(r"\d+\.0 +python3 +COMPLETED", line) for line in lines)


def test_the_lesson_on_jobs_prints_nothing_to_stderr(beyond: Run) -> None:
    assert {name: noise for name, noise in beyond.stderr.items() if noise} == {}


if LONG:

    def test_a_part_that_leaves_numbers_out_is_noticed() -> None:
        folder = own_folder("beyond-faulty")
        faulty = changed(
            "cluster/beyond_one_node", folder, "limit * (task + 1) // tasks", "limit * (task + 1) // tasks - 9"
        )
        run = in_a_job(faulty, folder, {**PRIMES, "limit": 1_000_000})
        assert run.status != 0
        assert "the cell 'check' failed with AssertionError: The tasks found 78,49" in run.log
        assert "one process 78,498 with" in run.log
        shutil.rmtree(folder)

    def test_a_refusal_is_one_sentence_that_names_the_partitions() -> None:
        folder = own_folder("beyond-refused")
        run = in_a_job("cluster/beyond_one_node", folder, {**PRIMES, "job_minutes": 100_000})
        assert run.status != 0
        assert "the cell 'submit-job' failed with AssertionError: Slurm refuses this job: " in run.log
        assert re.search("refuses this job: .*time limit", run.log, re.IGNORECASE)
        assert "the partitions are sxm2 (3 nodes, up to 1-00:00:00), hipri" in run.log
        assert jobs_of(PERSON) == []
        shutil.rmtree(folder)

    def test_a_job_that_gets_no_nodes_in_time_is_cancelled_and_no_other() -> None:
        folder = own_folder("beyond-waits")
        other = sh(
            "sbatch", "--parsable", "--begin=now+1hour", "--wrap=true", "--chdir=/", "--output=/dev/null", user=PERSON
        )
        few = {**PRIMES, "wait_seconds": 3, "sbatch_options": ["--begin=now+1hour"]}
        run = in_a_job("cluster/beyond_one_node", folder, few)
        left = jobs_of(PERSON)
        sh("scancel", other.strip())
        assert run.status != 0
        assert re.search(r"Job \d+ did not end within 3 seconds and was cancelled \(it was PENDING: BeginTime", run.log)
        assert re.search(
            r"PENDING: BeginTime, number \d of 2 that wait, start expected 20\d\d-", run.text("follow-job")
        )
        assert left == [other.strip()]
        shutil.rmtree(folder)

    def test_without_slurm_it_ends_with_one_sentence() -> None:
        folder = own_folder("beyond-without-slurm")
        link_all = (
            f"mkdir {folder}/bin; ln -s /usr/bin/* {folder}/bin; rm {folder}/bin/sbatch; export PATH={folder}/bin"
        )
        run = in_a_job("cluster/beyond_one_node", folder, PRIMES, [link_all])
        assert run.status != 0
        assert (
            "the cell 'imports' failed with AssertionError: There is no Slurm on this machine (no sbatch in" in run.log
        )
        shutil.rmtree(folder)
