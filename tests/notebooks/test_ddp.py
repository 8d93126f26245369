"""The lesson on DDP and FSDP2 in a real Slurm job, which submits another job on two nodes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.forms import LONG
from tests.inside import home, sh
from tests.notebooks.jobs import NO_GPU, PERSON, Run, changed, finished_run, in_a_job, no_job_is_left, own_folder

LESSON = "pytorch/ddp"
FEW = {"steps": 8, "batch_size": 64, "job_minutes": 5}
LABELS = ["1 ddp, here", "2 ddp, here", "2 fsdp2, here", "2 ddp, 2 nodes"]
TAKEN = Path("/mnt/isilon/taken-ddp")  # where what ran says as whom
# Runs as a neighbour on the node: puts a program where the launchers of a training keep what they tell each other.
MEDDLE = """
import base64, os, pickle, sys, time
from datetime import timedelta
from pathlib import Path
from torch.distributed import TCPStore
class Program:
    def __reduce__(self):
        return os.system, (f"touch {sys.argv[2]}/ran",)
while True:
    lines = [line.split() for line in Path("/proc/net/tcp6").read_text().splitlines()[1:]]  # Slurm's own are of IPv4
    for port in {int(one[1].split(":")[1], 16) for one in lines if one[3] == "0A" and one[7] == sys.argv[1]}:
        try:
            store = TCPStore("127.0.0.1", port, timeout=timedelta(seconds=2), wait_for_workers=False)
            for key in store.list_keys():
                if "torch.rendezvous." in key:
                    store.set(key, base64.b64encode(pickle.dumps(Program())).decode())
                print(key, flush=True)
        except Exception as error:
            print(repr(error), flush=True)
    time.sleep(0.2)
"""


@pytest.fixture(scope="module")
def trained() -> Iterator[Run]:
    """One small run of the lesson, looked at by all tests; a neighbour meddles with it meanwhile."""
    with meddled_with(), finished_run(LESSON, "ddp-lesson", FEW, resources=NO_GPU) as run:
        yield run


@contextmanager
def meddled_with() -> Iterator[None]:
    """Dave, on the same node, does what he can with the ports of the person's programs."""
    sh("rm", "-rf", str(TAKEN))
    sh("mkdir", str(TAKEN), user=PERSON)
    program = 'module load shared shared/pytorch && exec python -c "$@"'
    uid = str(home(PERSON).stat().st_uid)
    argv = ["runuser", "-u", "dave", "--", "bash", "-lc", program, "meddle", MEDDLE, uid, str(TAKEN)]
    with subprocess.Popen(argv, cwd="/", stdout=subprocess.DEVNULL) as meddling:
        try:
            yield
        finally:
            meddling.terminate()  # runuser ends what it has started


def test_every_way_to_train_takes_the_same_steps(trained: Run) -> None:
    rows = {line[:18].strip(): line[18:].split() for line in trained.text("table").splitlines()[1:]}
    assert list(rows) == LABELS
    for label, (speed, _, _, kept, loss, early, _) in rows.items():
        assert float(speed.replace(",", "")) > 0
        assert kept == ("50%" if "fsdp2" in label else "100%")
        assert float(loss) == pytest.approx(float(rows[LABELS[0]][4]), rel=1e-3)
        assert float(early) < 1e-5
    assert "As expected: 4 trainings take the same steps" in trained.text("check")


def test_processes_that_see_other_images_take_the_same_step_together(trained: Run) -> None:
    printed = trained.text("train-here")
    assert sorted(re.findall(r"rank (\d): (\w+) on cpu, ([\d,]+) of 34,826 weights", printed)) == [
        ("0", "ddp", "34,826"), ("0", "ddp", "34,826"), ("0", "fsdp2", "17,413"),
        ("1", "ddp", "34,826"), ("1", "fsdp2", "17,413"),
    ]  # fmt: skip


def test_the_job_on_two_nodes_is_submitted_followed_and_read_back(trained: Run) -> None:
    printed = trained.text("follow-job")
    assert re.search(r"Submitted job \d+\n", printed)
    assert "RUNNING gpu[" in printed
    assert len(re.findall(r"rank [01]: ddp on cpu", printed)) == 2
    assert json.loads((trained.folder / "ddp-runs" / "job.json").read_text())["processes"] == 2


def test_it_draws_the_speed_up_and_shows_how_far_it_is(trained: Run) -> None:
    assert len(trained.shown("plot", "image/png")) == 1
    assert trained.bars("train-here") == [1.0]


def test_a_neighbour_on_the_node_has_nothing_run_in_it(trained: Run) -> None:
    assert trained.status == 0
    assert list(TAKEN.iterdir()) == []


def test_nothing_puzzling_is_printed_to_stderr(trained: Run) -> None:
    assert {name: noise for name, noise in trained.stderr.items() if noise} == {}


if LONG:

    def test_gradients_that_are_not_averaged_are_found_out() -> None:
        folder = own_folder("ddp-unequal")
        lesson = changed(LESSON, folder, "is_last or given.way", "given.way")  # no_sync in every part: nobody speaks
        run = in_a_job(lesson, folder, {**FEW, "nodes": 1}, resources=NO_GPU)
        assert "the cell 'check' failed with AssertionError: After three steps a weight of '2 ddp, here' is " in run.log
        no_job_is_left()
        shutil.rmtree(folder)

    def test_a_batch_that_cannot_be_divided_is_told_before_anything_starts() -> None:
        folder = own_folder("ddp-batch")
        run = in_a_job(LESSON, folder, {**FEW, "batch_size": 10}, resources=NO_GPU)
        assert "A batch of 10 images cannot be divided among 2 processes in 2 parts: use a multiple of 4." in run.log
        no_job_is_left()
        shutil.rmtree(folder)
