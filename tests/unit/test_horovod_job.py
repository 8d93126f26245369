"""The job script of Horovod's ResNet50 lesson: mpirun keeps nothing in /tmp, whatever modules bring it."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "notebooks/horovod/resnet50.ipynb"
OWN = {"OMPI_MCA_orte_tmpdir_base": "/scratch/alice"}
BELOW_HOME = "/home/alice/.cache/dsportal-openmpi"


@pytest.fixture
def script(tmp_path: Path) -> str:
    """The script that the lesson's own cell writes, without its modules and trainings."""
    cells = {cell["id"]: "".join(cell["source"]) for cell in json.loads(NOTEBOOK.read_text())["cells"]}
    names = {
        "folder": tmp_path, "gpus": 0, "gpus_per_process": 0, "horovod_modules": ["their/horovod"], "job_minutes": 1,
        "launchers": ["mpirun"], "mpirun_options": "", "needed_mib": 1, "nodes": 1, "partition": "",
        "processes_per_node": 1, "sbatch_options": "", "shlex": shlex, "threads": 1, "training": lambda _: ["true"],
    }  # fmt: skip
    exec(cells["job-script"], names)  # noqa: S102  the lesson's own code
    return f"module() {{ :; }}; mpirun() {{ env; }}\n{(tmp_path / 'job.sh').read_text()}"


@pytest.mark.parametrize("own", [{}, OWN])
def test_mpirun_of_a_sites_own_module_has_its_files_below_the_home_too(script: str, own: dict[str, str]) -> None:
    environ = {"PATH": "/bin:/usr/bin", "HOME": "/home/alice"} | own
    done = subprocess.run(["bash", "-c", script], env=environ, capture_output=True, text=True, check=True)
    for name in ("OMPI_MCA_orte_tmpdir_base", "PRTE_MCA_prte_tmpdir_base"):
        assert f"{name}={own.get(name, BELOW_HOME)}" in done.stdout.splitlines()
