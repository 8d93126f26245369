"""`portal job` on real Slurm: what a person types in the terminal of a session, and what becomes of it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from tests.inside import VENV_BIN, eventually, home, jobs_of, sh

PERSON = "alice"
SECRET = "secret-of-the-session"
# The source's sample.job, but for its last line: the program of NVIDIA's that it runs needs real GPUs.
SAMPLE = """#!/bin/bash
#SBATCH -N 2
#SBATCH -n 8
#SBATCH --ntasks-per-node 4
#SBATCH -p sxm2
#SBATCH --gres=gpu:4
module load shared
module load cuda91/toolkit
hostname
echo "loaded $LOADEDMODULES; $SLURM_JOB_NUM_NODES nodes, $SLURM_NTASKS tasks"
"""
SHARED = "shared(/tree)?"  # as Lmod calls what is loaded first, and as Environment Modules does
SESSION = {  # of the job of a session, as Slurm and the portal have it
    "JUPYTERHUB_API_TOKEN": SECRET,
    "JPY_API_TOKEN": SECRET,
    "DSPORTAL_TLS": SECRET,
    "JUPYTERHUB_SERVICE_PREFIX": "/user/alice/",
    "SLURM_JOB_ID": "999999",
    "SLURM_MEM_PER_CPU": "1",
    "SLURM_MEM_PER_NODE": "2",
    "SBATCH_PARTITION": "nowhere",
    "CUDA_VISIBLE_DEVICES": "7",
    "JUPYTER_PATH": "/cluster/jupyter",
}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of the person's that the nodes see; no job is left in the end."""
    folder = Path("/cluster/test-own-jobs")
    sh("rm", "-rf", str(folder))
    sh("install", "-d", "-o", PERSON, str(folder))
    yield folder
    sh("scancel", f"--user={PERSON}")
    eventually(lambda: not jobs_of(PERSON), "no job is left")
    sh("rm", "-rf", str(folder), str(home(PERSON) / ".local/share/dsportal/jobs"))


def portal_job(folder: Path, *words: str) -> tuple[int, str]:
    """What a person types in a session's terminal; exit status, and what it printed."""
    clean = ["env", "-i", f"--chdir={folder}", "PATH=/usr/bin:/bin", f"HOME={home(PERSON)}", f"USER={PERSON}"]
    session = [f"{name}={text}" for name, text in SESSION.items()]
    argv = ["runuser", "-u", PERSON, "--", *clean, *session, str(VENV_BIN / "portal"), "job", *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=180, check=False, cwd="/")
    return done.returncode, done.stdout + done.stderr


def submitted(folder: Path, *words: str) -> str:
    """The id of a job that was submitted."""
    status, said = portal_job(folder, "submit", *words)
    assert status == 0, said
    return said.split()[1]


def followed(folder: Path, job_id: str) -> str:
    """All that a job writes until its end."""
    status, said = portal_job(folder, "log", "--follow", job_id)
    assert status == 0, said
    return said


def test_the_sample_job_of_the_source_runs_as_it_is(folder: Path) -> None:
    (folder / "sample.job").write_text(SAMPLE)

    said = followed(folder, job_id := submitted(folder, "sample.job"))

    assert re.search(rf"loaded {SHARED}:cuda91/toolkit/9.1; 2 nodes, 8 tasks", said)
    assert (folder / f"slurm-{job_id}.out").read_text() in said
    assert "COMPLETED: done" in portal_job(folder, "show", job_id)[1]


def test_a_job_has_no_secret_of_the_session_and_nothing_of_its_job(folder: Path) -> None:
    (folder / "look.sh").write_text("#!/bin/sh\nenv; cat /proc/self/environ | tr '\\0' '\\n'\n")

    job_id = submitted(folder, "look.sh", "--partition=sxm2", "--cores=2", "--memory-gb=3", "--name=look around")

    said = followed(folder, job_id)
    assert f"SLURM_JOB_ID={job_id}\n" in said
    assert "SLURM_CPUS_PER_TASK=2\n" in said
    assert "SLURM_MEM_PER_NODE=3072\n" in said
    assert f"HOME={home(PERSON)}\n" in said
    for word in (SECRET, "JUPYTERHUB_", "JPY_", "DSPORTAL_", "999999", "SLURM_MEM_PER_CPU", "nowhere", "_DEVICES=7"):
        assert word not in said, word
    assert SECRET not in sh("scontrol", "show", "job", job_id)
    assert re.search(rf"{job_id} +COMPLETED +look around +done\n", portal_job(folder, "list")[1])


def test_a_notebook_runs_into_another_one_beside_it_with_the_values_given(folder: Path) -> None:
    cells = [
        nbformat.v4.new_code_cell("epochs = 1", metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell("import os\nprint('epochs', epochs, os.getcwd())"),
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.write(notebook, folder / "my lesson.ipynb")

    said = followed(folder, job_id := submitted(folder, "my lesson.ipynb", "--hours=0.5", "--", "epochs=3"))

    output = folder / f"my_lesson-{job_id}.ipynb"
    assert f"done: {output}" in said
    assert f"epochs 3 {folder}" in json.dumps(nbformat.read(output, 4))
    assert f"output     {output}" in portal_job(folder, "show", job_id)[1]


def test_a_python_program_runs_once_in_each_task_with_its_module(folder: Path) -> None:
    program = "import os, sys\nprint('task', os.environ['SLURM_PROCID'], sys.argv[1:], os.environ['LOADEDMODULES'])\n"
    (folder / "work.py").write_text(program)

    job_id = submitted(folder, "work.py", "--tasks=2", "--module=shared", "--module=cuda91/toolkit", "--", "--a", "b c")

    said = followed(folder, job_id)
    for task in range(2):
        assert re.search(rf"task {task} \['--a', 'b c'\] {SHARED}:cuda91/toolkit", said)


def test_in_a_folder_that_others_can_change_each_task_runs_what_was_submitted(folder: Path) -> None:
    """Far more than a pipe holds, on two nodes, with what lies beside it; and a notebook, and a batch script."""
    (folder / "helper.py").write_text("WHO = 'beside'\n")
    program = "import os, sys\nfrom helper import WHO\nprint(WHO, os.environ['SLURM_PROCID'], repr(sys.stdin.read()))\n"
    (folder / "work.py").write_text(f"{program}# {'x' * 2**21}\nprint('last', __file__)\n")
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    cells = [nbformat.v4.new_code_cell("print('a cell')")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), folder / "learn.ipynb")
    sh("chown", "-R", PERSON, str(folder))
    folder.chmod(0o777)

    (folder / "look.sh").write_text("#!/bin/sh\nscontrol show job $SLURM_JOB_ID | grep -o 'Command=.*'\n")
    sh("scontrol", "update", "partition=sxm2", "state=down")  # it takes jobs, and begins none
    try:
        jobs = [
            submitted(folder, file, "--partition=sxm2", *options)
            for file, *options in (["work.py", "--nodes=2", "--tasks=2"], ["learn.ipynb"], ["look.sh"])
        ]
        for file in ("work.py", "learn.ipynb"):
            (folder / file).write_text("theirs")
    finally:
        sh("scontrol", "update", "partition=sxm2", "state=up")

    said = followed(folder, jobs[0])
    for task in range(2):
        assert f"beside {task} ''\n" in said
    assert said.count(f"last {folder}/work.py\n") == 2
    assert "done: " in followed(folder, jobs[1])
    assert f"Command={folder}/look.sh\n" in followed(folder, jobs[2])


def test_each_task_of_an_array_has_its_own_log(folder: Path) -> None:
    (folder / "part.py").write_text("import os\nprint('part', os.environ['SLURM_ARRAY_TASK_ID'])\n")

    job_id = submitted(folder, "part.py", "--array=1-2")

    eventually(lambda: not jobs_of(PERSON), "the tasks have ended")
    for task in (1, 2):
        assert f"part {task}" in followed(folder, f"{job_id}_{task}")
        assert (folder / f"part-{job_id}_{task}.log").is_file()


def test_a_job_that_waits_says_why_and_is_cancelled(folder: Path) -> None:
    (folder / "later.sh").write_text("#!/bin/sh\n#SBATCH --begin=now+1hour\nsleep 600\n")
    job_id = submitted(folder, "later.sh")

    shown = portal_job(folder, "show", job_id)[1]
    assert "PENDING: waits: it was put off until then; Slurm expects it to start at 20" in shown
    assert portal_job(folder, "cancel", job_id) == (0, f"job {job_id} is cancelled\n")
    assert f"{job_id:<12} CANCELLED" in portal_job(folder, "list")[1]


def test_a_failed_job_has_its_exit_status_in_words(folder: Path) -> None:
    (folder / "fails.sh").write_text("#!/bin/sh\nexit 3\n")
    followed(folder, job_id := submitted(folder, "fails.sh"))

    assert "FAILED: failed with exit status 3" in portal_job(folder, "show", job_id)[1]


REFUSALS = {
    "--partition=nope": "There is no such partition",
    "--gpus=99": "No node there has so much",
    "--hours=300": "So many hours are not allowed there",
    "--nodes=50": "fewer",
    "--module=nope/1": "module load nope/1 failed",
    "--cores=-1": "cores: -1 is not possible here. Allowed: a whole number from 0 to 10000.",
    "--array=x": "array: 'x' is not possible here.",
}


@pytest.mark.parametrize("option", REFUSALS)
def test_a_refusal_says_what_to_do(folder: Path, option: str) -> None:
    (folder / "job.sh").write_text("#!/bin/sh\ntrue\n")

    status, said = portal_job(folder, "submit", "job.sh", option)

    assert status == 1
    assert REFUSALS[option] in said
    assert "Traceback" not in said


def test_the_jobs_of_others_are_not_to_be_had(folder: Path) -> None:
    (folder / "theirs.sh").write_text("#!/bin/sh\nsleep 600\n")
    theirs = sh(
        "sbatch", "--parsable", "--output=/dev/null", f"--chdir={folder}", str(folder / "theirs.sh"), user="bob"
    )

    for verb in ("show", "log", "cancel"):
        status, said = portal_job(folder, verb, theirs.strip())
        assert status == 1
        assert f"job: '{theirs.strip()}' is not possible here. Allowed: your own jobs: " in said
    sh("scancel", theirs.strip())
