"""Caches of compiled code: in sessions, kernels and jobs below the home, not under a known name in /tmp."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.kernelspec import KernelSpec

from portal.catalogue.tried import tried
from portal.homes import cache_folders, private_folder
from portal.jobs import environment
from portal.kernels.provisioner import ModuleProvisioner
from portal.session_settings import OfferedTool, SessionSettings
from portal.singleuser import server, spare_home
from portal.tensorboard import boards
from portal.webtools.tools import ToolPlace, WebTool

JOB = Path(__file__).parents[2] / "templates" / "job" / "job.sh"
SPILLED = f"/home/alice/.cache/dsportal-polars/{os.uname().nodename}"
NAMES = (
    *("TORCHINDUCTOR_CACHE_DIR", "CUTE_DSL_CACHE_DIR", "QUACK_CACHE_DIR", "TFHUB_CACHE_DIR", "POLARS_OOC_SPILL_DIR"),
    *("NUMBA_CACHE_DIR", "OMPI_MCA_orte_tmpdir_base", "PRTE_MCA_prte_tmpdir_base"),
)
WITH_OPEN_MPI = sorted((Path(__file__).parents[2] / "deploy/modulefiles/shared/shared").glob("horovod*/[0-9]*"))


@pytest.mark.parametrize("caches", ["", "relative"])
def test_compiled_code_is_kept_below_the_home(caches: str) -> None:
    found = cache_folders.with_own({"HOME": "/home/alice", "XDG_CACHE_HOME": caches})
    assert found["TORCHINDUCTOR_CACHE_DIR"] == "/home/alice/.cache/torchinductor"
    assert all(found[name].startswith("/home/alice/.cache/") for name in NAMES)


@pytest.mark.parametrize(
    ("name", "off", "on"),
    [
        ("TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS", "0", "1"),  # PyTorch 2.13, _inductor/codecache.py
        ("NODE_DISABLE_COMPILE_CACHE", "1", ""),  # Node's module.enableCompileCache()
        ("UCX_LOG_FILE", "", "/home/alice/ucx.log"),  # what UCX reads in the present folder counts after these
        ("UCX_HANDLE_ERRORS", "none", "bt"),
        ("PRTE_MCA_prte_silence_shared_fs", "1", "0"),  # else each mpirun warns of where it does not lie in /tmp
    ],
)
def test_what_would_be_kept_in_tmp_whatever_folder_is_set_is_not_kept(name: str, off: str, on: str) -> None:
    assert cache_folders.with_own({"HOME": "/home/alice"})[name] == off
    assert cache_folders.with_own({"HOME": "/home/alice", name: on})[name] == on


def test_it_lies_with_the_persons_other_caches() -> None:
    found = cache_folders.with_own({"HOME": "/home/alice", "XDG_CACHE_HOME": "/scratch/alice"})
    assert found["TORCHINDUCTOR_CACHE_DIR"] == "/scratch/alice/torchinductor"


def test_what_somebody_has_set_stays() -> None:
    given = dict.fromkeys(NAMES, "/scratch/alice/kept")
    assert cache_folders.with_own(given).items() >= given.items()


def test_polars_removes_what_is_left_in_a_folder_of_the_person_and_of_the_node() -> None:
    """At its import it removes each entry whose name is the number of no process here, behind a link, too (1.44.2).

    In /var/tmp/polars-NAME/spill, unless another folder is named, others can have made that; and a home has processes
    on other nodes.
    """
    assert cache_folders.with_own({"HOME": "/home/alice"})["POLARS_OOC_SPILL_DIR"] == SPILLED


@pytest.mark.parametrize("file", WITH_OPEN_MPI, ids=lambda file: file.parent.name)
def test_modules_with_an_open_mpi_keep_its_files_where_sessions_do_also_in_jobs_that_get_nothing_of_one(
    file: Path,
) -> None:
    """At its end mpirun removes /tmp/ompi.NODE.UID, behind links, too, where no other folder is named (4.1.4)."""
    place = cache_folders.with_own({"HOME": "$env(HOME)"})["OMPI_MCA_orte_tmpdir_base"]
    assert f"    setenv OMPI_MCA_orte_tmpdir_base {place}\n" in file.read_text()
    assert "![info exists env(OMPI_MCA_orte_tmpdir_base)]" in file.read_text(), "what a person has set counts"


@pytest.mark.parametrize("file", WITH_OPEN_MPI, ids=lambda file: file.parent.name)
def test_modules_with_an_open_mpi_let_no_file_of_the_present_folder_name_a_program_or_a_log(file: Path) -> None:
    of_sessions = cache_folders.with_own({})
    lines = file.read_text().splitlines()
    given = {name: value for name, value in of_sessions.items() if name.startswith("UCX_")}
    assert len(given) == 9
    for name, value in given.items():
        assert f"setenv {name} {value or '{}'}" in lines


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("/home/alice/.cache/dsportal-polars/elsewhere", SPILLED),
        ("/scratch/alice/spilled", "/scratch/alice/spilled"),
        (None, "None"),
    ],
)
def test_a_job_has_that_of_its_node_whatever_node_it_was_submitted_from(
    tmp_path: Path, given: str | None, found: str
) -> None:
    program = tmp_path / "program.py"
    program.write_text("import os; print(os.environ.get('POLARS_OOC_SPILL_DIR'))")
    environ = {"PATH": os.environ["PATH"]} | ({"POLARS_OOC_SPILL_DIR": given} if given else {})
    command = ["sh", str(JOB), "python", "-", "-", "-", str(program)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == found


def test_each_task_of_a_job_has_that_of_its_own_node(tmp_path: Path) -> None:
    """srun starts it there with the variables of the first node."""
    program = tmp_path / "program.py"
    program.write_text("import os, sys; print(os.environ['POLARS_OOC_SPILL_DIR'], *sys.argv[1:])")
    srun = tmp_path / "srun"
    elsewhere = "/home/alice/.cache/dsportal-polars/elsewhere"
    srun.write_text(f'#!/bin/sh\nPOLARS_OOC_SPILL_DIR={elsewhere} exec "$@"\n')
    srun.chmod(0o755)
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_NTASKS": "2", "POLARS_OOC_SPILL_DIR": elsewhere}
    command = ["sh", str(JOB), "python", "-", "-", "-", str(program), "a b", "$(touch x)"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == f"{SPILLED} a b $(touch x)"
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("of_site", [{}, {"POLARS_OOC_SPILL_DIR": "/local/spilled"}])
def test_web_tools_have_it_also_where_no_session_starts_them(tmp_path: Path, of_site: dict[str, str]) -> None:
    offered = OfferedTool("page", "Page", ("x", "{socket}"), environment=of_site)
    page = WebTool(offered, SessionSettings(), ToolPlace(tmp_path, "/", tmp_path))
    found = page.environment({"HOME": "/home/alice"})
    assert found["POLARS_OOC_SPILL_DIR"] == of_site.get("POLARS_OOC_SPILL_DIR", SPILLED)
    assert found["TORCHINDUCTOR_CACHE_DIR"] == "/home/alice/.cache/torchinductor"


def test_boards_have_it(tmp_path: Path) -> None:
    assert boards.environment({"HOME": "/home/alice"}, tmp_path)["POLARS_OOC_SPILL_DIR"] == SPILLED


@pytest.mark.parametrize("own", [{}, {"POLARS_OOC_SPILL_DIR": "/local/spilled"}])
def test_trials_of_kernels_have_it(own: dict[str, str]) -> None:
    environ = {"HOME": "/home/alice", "PATH": "/bin:/usr/bin"} | own
    done = tried(["printenv", "POLARS_OOC_SPILL_DIR"], environ, 60, {})
    assert done.stdout.strip() == own.get("POLARS_OOC_SPILL_DIR", SPILLED)


def test_jobs_have_it() -> None:
    found = environment.of_job({"HOME": "/home/alice", "PATH": "/bin", "TFHUB_CACHE_DIR": "/scratch/models"})
    assert found["TORCHINDUCTOR_CACHE_DIR"] == "/home/alice/.cache/torchinductor"
    assert found["TFHUB_CACHE_DIR"] == "/scratch/models"


def test_kernels_have_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provisioner: Any = ModuleProvisioner()
    provisioner.kernel_spec = KernelSpec(language="julia")
    monkeypatch.setattr("portal.kernels.other_starts.PREPARED", {})
    started = asyncio.run(provisioner._private(["julia"], {"HOME": "/home/alice", "PATH": "/bin"}, str(tmp_path)))
    assert started["env"]["TORCHINDUCTOR_CACHE_DIR"] == "/home/alice/.cache/torchinductor"


def test_sessions_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"HOME": "/home/alice"}
    monkeypatch.setattr(spare_home, "take", lambda settings, _: settings)
    server.place(SessionSettings(), environ)
    assert environ["TORCHINDUCTOR_CACHE_DIR"] == "/home/alice/.cache/torchinductor"


def test_where_the_home_does_not_work_keras_looks_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads its settings in /tmp/.keras where the home cannot be written (Keras 3, backend/config.py)."""
    monkeypatch.setenv("HOME", str(tmp_path / "missing"))
    environ = {private_folder.VARIABLE: str(tmp_path / "private")}
    server.place(SessionSettings(), environ)
    assert environ["KERAS_HOME"] == str(tmp_path / "private/cache/keras")
    assert environ["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "private/cache/torchinductor")
