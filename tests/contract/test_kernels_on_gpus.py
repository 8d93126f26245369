"""`portal kernels test` in a job of a GPU partition: kernels start, and see what Slurm gave, or not."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from portal.site import load
from portal.trials import record
from tests.inside import SITE_FILE, VENV_BIN, home, sh

PERSON = "alice"


def kernels_test(*options: str, user: str = PERSON) -> tuple[int, str]:
    """Run from a shell without anything of the person's; its exit status and what it printed."""
    clean = ["env", "-i", "PATH=/usr/bin:/bin", f"HOME={home(PERSON)}", f"USER={PERSON}"]
    argv = [*clean, str(VENV_BIN / "portal"), "kernels", "test", "--site", str(SITE_FILE), *options]
    done = subprocess.run(
        ["runuser", "-u", user, "--", *argv], capture_output=True, text=True, timeout=180, check=False, cwd="/"
    )
    return done.returncode, done.stdout + done.stderr


def test_a_kernel_for_cpus_in_a_job_with_two_gpus_is_told_so_in_one_sentence() -> None:
    status, said = kernels_test("--partition", "sxm2", "--gpus", "2", "pytorch")

    why = "this node has no driver of a GPU|this kernel's environment is built for CPUs"  # of a machine with GPUs
    words = rf"pytorch: Slurm gave this job 2 GPUs, but PyTorch sees 0: ({why})\. .* your administrator\.\n"
    assert re.search(words, said), said
    assert status == 1
    assert "is submitted; Ctrl-C takes it back" in said
    assert sh("find", str(home(PERSON)), "-maxdepth", "1", "-name", ".dsportal-kernels-test-*") == ""


def test_root_keeps_what_a_persons_job_found_and_the_list_shows_it() -> None:
    """Two kernels in one job: Python out of a module with a framework, and R."""
    folder = Path(load(str(SITE_FILE)).kernels.folder)
    status, said = kernels_test("--partition", "sxm2", "--gpus", "1", "--user", PERSON, "tensorflow", "ir", user="root")

    assert status == 1, said  # TensorFlow is built for CPUs there
    assert "is submitted; Ctrl-C takes it back" in said
    assert re.search(r"^ir: it starts in \d+\.\d s, R \d", said, re.MULTILINE), said
    kept = record.read(folder)
    assert kept["ir"].fault == ""
    assert (kept["tensorflow"].gpus, kept["tensorflow"].partition) == (1, "sxm2")
    (framework,) = kept["tensorflow"].frameworks
    assert (framework.name, framework.gpus) == ("TensorFlow", 0)
    assert framework.version.startswith("2.")
    assert ((folder / record.FILE).stat().st_uid, (folder / record.FILE).stat().st_mode & 0o777) == (0, 0o644)
    listed = sh(str(VENV_BIN / "portal"), "kernels", "list", "--site", str(SITE_FILE), user=PERSON, check=False)
    assert f"TensorFlow {framework.version}, sees 0 of 1 GPU, starts in " in listed


def test_outside_of_a_job_nothing_is_compared_and_what_the_site_does_not_offer_is_refused() -> None:
    status, said = kernels_test("python3")
    assert re.fullmatch(
        r"This is no job of Slurm, so there is nothing to compare: --partition NAME asks in a job\.\n"
        r"python3: it starts in \d+\.\d s, Python 3\.\d+\.\d+\n"
        r"python3: it has none of TensorFlow, PyTorch, JAX, ONNX Runtime, MXNet, PyTensor, Theano\n",
        said,
    ), said
    assert status == 0
    status, said = kernels_test("python3", user="root")
    assert "root starts no kernels: whoever can change an environment would have root's rights." in said
    assert status == 1
    status, said = kernels_test("--partition", "nope", "python3")
    assert "partition: 'nope' is not possible here. Allowed: one of sxm2, hipri, iq, requestq." in said
    assert status == 1
