"""The Horovod lesson on the module kernel, in a real Slurm job, which submits another job on two nodes."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.inside import SITE_FILE, VENV_BIN, eventually, home, jobs_of, sh
from tests.notebooks.test_mnist import Run, exit_status, own_folder

PERSON = "alice"
FEW = {"processes": [1, 2], "train_images": 5_120, "job_minutes": 5}


def in_a_job(folder: Path, parameters: dict[str, object]) -> Run:
    """Run the lesson as a session would, in a job of one node."""
    output = folder / "out.ipynb"
    given = [f"--set={name}={value}" for name, value in parameters.items()]
    lesson = ["notebooks", "run", "horovod/mnist", "--site", str(SITE_FILE), "--output", str(output)]
    script = f"#!/bin/bash\nexec {shlex.join([str(VENV_BIN / 'portal'), *lesson, *given])}\n"
    resources = ["--partition=requestq", "--cpus-per-task=8", "--mem=48G", "--time=10", "--export=NONE"]
    where = [f"--chdir={folder}", f"--output={folder}/session.log", "--job-name=horovod-template"]
    clean = ["runuser", "-u", PERSON, "--", "env", "-i", "PATH=/usr/bin:/bin", f"HOME={home(PERSON)}", f"USER={PERSON}"]
    submitted = subprocess.run(
        [*clean, "sbatch", "--parsable", *resources, *where],
        input=script, text=True, capture_output=True, cwd="/", check=False,
    )  # fmt: skip
    assert submitted.returncode == 0, submitted.stderr
    status = eventually(lambda: exit_status(submitted.stdout.strip()), "the session ends", within_s=400, every_s=0.5)
    cells = {cell["id"]: cell for cell in json.loads(output.read_bytes())["cells"]} if output.exists() else {}
    return Run("horovod/mnist", int(status.partition(":")[0]), (folder / "session.log").read_text(), folder, cells)


@pytest.fixture(scope="module", autouse=True)
def kernels() -> None:
    """The site's kernelspecs, as the demo writes them at its start."""
    sh(str(VENV_BIN / "portal"), "kernels", "sync", "--site", str(SITE_FILE))


@pytest.fixture(scope="module")
def trained() -> Iterator[Run]:
    """One small run of the lesson, looked at by all tests."""
    folder = own_folder("horovod-lesson")
    run = in_a_job(folder, FEW)
    assert run.status == 0, run.log
    yield run
    shutil.rmtree(folder)


def test_the_mean_of_the_ranks_gradients_is_the_gradient_of_the_whole_batch(trained: Run) -> None:
    line = re.compile(r"rank (\d): my gradient (\d\.\d{6}), mean of all (\d\.\d{6}), whole batch (\d\.\d{6})")
    ranks = line.findall(trained.text("train-here"))
    assert [rank for rank, *_ in ranks[:1] + sorted(ranks[1:])] == ["0", "0", "1"], "one alone, then two in any order"
    for _, _, mean, whole in ranks:
        assert float(mean) == pytest.approx(float(whole), abs=3e-6)
    assert ranks[1][1] != ranks[2][1], "the two ranks looked at the same images"


def test_the_job_on_two_nodes_is_submitted_followed_and_read_back(trained: Run) -> None:
    printed = trained.text("follow-job")
    assert re.search(r"Submitted job \d+\n", printed)
    assert "RUNNING gpu[" in printed
    assert len(re.findall(r"^rank [01]: my gradient", printed, re.MULTILINE)) == 2
    assert "2 processes: " in printed
    assert "#SBATCH --nodes=2\n" in trained.text("job-script")
    assert json.loads((trained.folder / "horovod-runs/job.json").read_text())["processes"] == 2


def test_the_table_has_our_figures_beside_the_sources(trained: Run) -> None:
    rows = {line[:20].strip(): line[20:].split() for line in trained.text("table").splitlines()}
    assert rows["1 in this session"][1:3] == ["1.00", "100%"]
    assert rows["32 V100, FP32"] == ["21.95", "69%"]
    assert rows["32 V100, FP16"] == ["23.72", "74%"]
    losses = [float(rows[label][3]) for label in ("1 in this session", "2 in this session", "2 on 2 nodes")]
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-4)
    for label in ("1 in this session", "2 in this session", "2 on 2 nodes"):
        assert float(rows[label][0].replace(",", "")) > 0


def test_it_draws_the_speed_up_and_checks_itself(trained: Run) -> None:
    assert len(trained.shown("plot", "image/png")) == 1
    assert re.search(
        r"As expected: the same loss 3 times, \d\.\d{6}, and no accuracy below 0\.5", trained.text("check")
    )


def test_nothing_puzzling_is_printed_to_stderr(trained: Run) -> None:
    for name, cell in trained.cells.items():
        assert [o["text"] for o in cell.get("outputs", ()) if o.get("name") == "stderr"] == [], name


def test_without_horovod_it_says_so_in_one_sentence_and_stops() -> None:
    folder = own_folder("horovod-without")
    run = in_a_job(folder, {**FEW, "horovod_modules": ["shared", "shared/horovod/0.1"]})
    assert run.status != 0
    assert "the cell 'imports' failed with AssertionError: Horovod cannot be had from the modules shared" in run.log
    assert jobs_of(PERSON) == []
    shutil.rmtree(folder)


def test_a_job_that_gets_no_nodes_in_time_is_cancelled() -> None:
    folder = own_folder("horovod-waits")
    few = {**FEW, "processes": [1], "wait_seconds": 3, "sbatch_options": "--begin=now+1hour"}
    run = in_a_job(folder, few)
    assert run.status != 0
    assert re.search(r"job \d+ did not end within 3 seconds and was cancelled \(its state: PENDING", run.log), run.log
    assert jobs_of(PERSON) == []
    shutil.rmtree(folder)
