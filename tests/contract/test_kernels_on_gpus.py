"""`portal kernels test` in a job of a GPU partition: what Slurm gave beside what a kernel's framework sees."""

from __future__ import annotations

import subprocess

from tests.inside import SITE_FILE, VENV_BIN, home, sh

PERSON = "alice"


def kernels_test(*options: str) -> tuple[int, str]:
    """Run as a person, from a shell without anything of theirs; its exit status and what it printed."""
    clean = ["env", "-i", "PATH=/usr/bin:/bin", f"HOME={home(PERSON)}", f"USER={PERSON}"]
    argv = [*clean, str(VENV_BIN / "portal"), "kernels", "test", "--site", str(SITE_FILE), *options]
    done = subprocess.run(
        ["runuser", "-u", PERSON, "--", *argv], capture_output=True, text=True, timeout=180, check=False, cwd="/"
    )
    return done.returncode, done.stdout + done.stderr


def test_a_kernel_for_cpus_in_a_job_with_two_gpus_is_told_so_in_one_sentence() -> None:
    status, said = kernels_test("--partition", "sxm2", "--gpus", "2", "tensorflow")

    words = "Slurm gave this job 2 GPUs, but TensorFlow sees 0: this kernel's environment is built for CPUs. Choose a"
    assert f"tensorflow: {words} kernel for GPUs, or ask your administrator.\n" in said
    assert status == 1
    assert "is submitted; Ctrl-C takes it back" in said
    assert sh("find", str(home(PERSON)), "-maxdepth", "1", "-name", ".dsportal-kernels-test-*") == ""


def test_outside_of_a_job_nothing_is_compared_and_what_the_site_does_not_offer_is_refused() -> None:
    status, said = kernels_test("python3")
    assert said.splitlines() == [
        "This is no job of Slurm, so there is nothing to compare: --partition NAME asks in a job.",
        "python3: it has none of TensorFlow, PyTorch, JAX, ONNX Runtime, MXNet",
    ]
    assert status == 0
    status, said = kernels_test("--partition", "nope", "python3")
    assert "partition: 'nope' is not possible here. Allowed: one of sxm2, hipri, iq, requestq." in said
    assert status == 1
