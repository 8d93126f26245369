"""What the programs of the lessons' clusters import: nothing by chance out of a folder that others can change.

Dask and Ray are doubles here, in a folder of an environment's modules; their programs say what they have found.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from portal.lessons import lesson_jobs
from tests.lessons import NOTEBOOKS
from tests.unit.test_lesson_clusters import dask, ray
from tests.unit.test_lesson_folders import mode, project

__all__ = ["dask", "project", "ray"]  # fixtures
PROGRAMS = ("distributed/cli/dask_worker.py", "ray/scripts/scripts.py")
SAYS = """
import importlib.util, json, os, pathlib, sys
found = {"work": os.getcwd(), "words": sys.argv[1:]}
for name in ("tornado", "colour", "helper", "private_dask", "private_ray"):
    spec = importlib.util.find_spec(name)
    found[name] = spec.origin if spec else ""
pathlib.Path(os.environ["ANSWER"]).write_text(json.dumps(found))
import tornado
"""
OF_OTHERS = ("tornado", "yaml", "colour", "sitecustomize", "runpy", "lesson_folders", "lesson_jobs", "private_ray")
SRUN = '#!/bin/sh\nwhile case "$1" in --*) ;; *) false ;; esac; do shift; done\nexec "$@"\n'


class Place:
    """The folder of a notebook, in which somebody has put modules that leave a mark when they are imported."""

    def __init__(self, folder: Path, environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.environment, self.answer = folder, environment, environment / "answer.json"
        for program in PROGRAMS:
            file = environment / program
            file.parent.mkdir(parents=True)
            file.write_text(SAYS)
        (environment / "tornado.py").touch()
        (environment / "srun").write_text(SRUN)
        (environment / "srun").chmod(0o755)
        monkeypatch.setenv("PATH", f":{environment}:{os.environ['PATH']}")
        # As many a profile has it, with the folder in which a program starts.
        monkeypatch.setenv("PYTHONPATH", f":{environment}:.")
        monkeypatch.setenv("ANSWER", str(self.answer))
        monkeypatch.chdir(folder)

    def plant(self, *names: str) -> None:
        for name in names:
            (self.folder / f"{name}.py").write_text(f"open({str(self.folder / name)!r}, 'w').close()\n")

    def marks(self) -> list[str]:
        return [one.name for one in self.folder.iterdir() if not one.suffix]

    def said(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self.answer.read_text())
        return said


@pytest.fixture
def shared(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A folder of a group's."""
    return Place(project, tmp_path / "environment", monkeypatch)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A folder that nobody else can change."""
    (tmp_path / "own").mkdir(mode=0o700)
    return Place(tmp_path / "own", tmp_path / "environment", monkeypatch)


@pytest.fixture(params=["a worker of Dask", "the head of Ray", "a worker of Ray"])
def begun(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Place], None]:
    """Begins a program of a cluster, whose modules lie in the folder of the notebook, too."""
    lesson: ModuleType = request.getfixturevalue("dask" if "Dask" in request.param else "ray")
    begin = {"a worker of Dask": dask_worker, "the head of Ray": ray_head, "a worker of Ray": ray_worker}[request.param]

    def beginning(place: Place) -> None:
        monkeypatch.setattr(lesson, "HERE", place.folder)
        monkeypatch.setattr(f"{lesson.__name__}.Cluster._connect", lambda self: None, raising=False)
        begin(lesson, tmp_path / "cluster", monkeypatch)

    return beginning


def dask_worker(dask: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = dask.Cluster(folder, 1, "1GiB")
    python = cluster.options.get("python", sys.executable)
    command = f"{python} -m distributed.cli.dask_worker tls://head"  # dask_jobqueue 0.9.0, core.py
    subprocess.run(["bash", "-c", "\n".join([*cluster.options["job_script_prologue"], command])], check=True)


def ray_head(ray: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ray.Cluster(folder, 1, 1024, address="127.0.0.1")
    assert cluster.head.wait(60) == 0, cluster.log.read_text()


def ray_worker(ray: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = SimpleNamespace(terminate=lambda: None, wait=lambda: None)
    double = SimpleNamespace(Popen=lambda *_, **__: head, DEVNULL=subprocess.DEVNULL, STDOUT=subprocess.STDOUT)
    with monkeypatch.context() as without_head:
        without_head.setattr(ray, "subprocess", double)
        cluster = ray.Cluster(folder, 1, 1024, address="127.0.0.1")
    cluster.address = "127.0.0.1:9"
    subprocess.run(["bash"], input=cluster.job_script(), text=True, check=True)
    ray.remove(cluster.own)  # as its head does


def test_a_program_takes_no_module_of_a_folder_that_others_can_change(
    shared: Place, begun: Callable[[Place], None]
) -> None:
    shared.plant(*OF_OTHERS)
    begun(shared)
    said = shared.said()
    assert shared.marks() == [], "what was planted has run"
    assert said["tornado"] == str(shared.environment / "tornado.py")
    assert said["colour"] == "", "not even what the environment does not have"
    # The head runs no tasks; Ray's dashboard starts "python -c" from there (2.60.0, forkserver of multiprocessing).
    assert (said["work"] == str(shared.folder)) == ("--head" not in said["words"])


def test_a_program_has_the_lessons_modules_as_the_kernel_has_them(
    shared: Place, begun: Callable[[Place], None], tmp_path: Path
) -> None:
    begun(shared)
    found = [path for name, path in shared.said().items() if name.startswith("private_") and path]
    assert [Path(path).is_relative_to(tmp_path / "cluster") for path in found] == [True]


def test_a_program_imports_what_lies_beside_a_notebook_of_ones_own(own: Place, begun: Callable[[Place], None]) -> None:
    own.plant("helper")
    begun(own)
    assert own.said()["helper"] == str(own.folder / "helper.py")
    assert own.said()["work"] == str(own.folder)


@pytest.mark.parametrize(("rights", "is_found"), [(0o644, True), (0o664, False), (0o646, False)])
def test_a_module_that_others_can_change_is_not_found_in_a_folder_of_ones_own(
    own: Place, dask: ModuleType, rights: int, is_found: bool
) -> None:
    own.plant("helper")
    (own.folder / "helper.py").chmod(rights)
    (own.folder / "link").symlink_to("helper.py")

    assert dask.lesson_jobs.is_alone(str(own.folder)) == is_found


def test_a_dask_cluster_takes_its_modules_away(dask: ModuleType, tmp_path: Path) -> None:
    cluster = dask.Cluster(tmp_path / "cluster", 1, "1GiB")
    (code,) = (tmp_path / "cluster").iterdir()
    assert mode(code) == 0o700
    assert sorted(file.name for file in code.iterdir()) == ["lesson_folders.py", "lesson_jobs.py", "private_dask.py"]
    cluster.remove_code()
    assert list((tmp_path / "cluster").iterdir()) == []


def test_a_driver_of_ray_names_its_workers_no_folder_of_others(
    ray: ModuleType, shared: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its workers look for modules first where it works (ray 2.60.0, _private/worker.py, connect)."""
    where = []

    def init(**_: Any) -> SimpleNamespace:
        where.append(Path.cwd())
        return SimpleNamespace(dashboard_url="127.0.0.1:1")

    cluster = object.__new__(ray.Cluster)
    vars(cluster).update(own=tmp_path / "node", code=tmp_path / "code", keys=tmp_path / "keys", name="ray-1")
    for folder in ("node/ray", "code", "keys", "runtime"):
        (tmp_path / folder).mkdir(parents=True, mode=0o700)
    (tmp_path / "node/ray/ray_current_cluster").write_text("127.0.0.1:2")
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(init=init))
    monkeypatch.setattr(os, "environ", dict(os.environ) | {"JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime")})
    monkeypatch.setattr(ray.private_dashboard, "Forwarder", lambda *_: None)
    cluster._connect()
    assert [where, Path.cwd()] == [[tmp_path / "code"], shared.folder]


def test_an_environment_leads_nowhere_from_where_one_works() -> None:
    given = {"PATH": "/bin::.", "PYTHONPATH": "lib:", "LD_LIBRARY_PATH": ":", "HOME": "/home/alice"}
    found = lesson_jobs.environment(given, ["/code", "/own"])
    assert found == {"PATH": "/bin", "PYTHONPATH": "/code:/own", "HOME": "/home/alice"}
    assert lesson_jobs.environment({"PYTHONPATH": "/code:/lib"}, ["/code"]) == {"PYTHONPATH": "/code:/lib"}
    libraries = {"LD_LIBRARY_PATH": "/opt/a;"}  # as ld.so(8) reads it
    assert lesson_jobs.environment(libraries, ["/code"])["LD_LIBRARY_PATH"] == "/opt/a"


def test_no_lesson_runs_a_module_where_the_notebook_is() -> None:
    """``python -m`` looks for it there first; ``-I`` does not, nor does a program in a work folder of one's own."""
    found = []
    for lesson in NOTEBOOKS.glob("*/*.ipynb"):
        cells = json.loads(lesson.read_bytes())["cells"]
        code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
        found += [(lesson.name, line) for line in code.splitlines() if re.search(r"(python|executable)\W+-m\b", line)]
    torchrun = [line for _, line in found if "torch.distributed.run" in line]
    assert len(torchrun) == len(found) == 3, "these begin in a work folder"
