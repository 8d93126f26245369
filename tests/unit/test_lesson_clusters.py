"""Where keys, logs and scratch files of the lessons' clusters lie: nobody else can exchange them.

The lessons themselves run on a cluster (tests/notebooks/test_dask.py and test_ray.py); here Dask is a double.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from portal.lessons.lesson_folders import private
from tests.lessons import module_of
from tests.unit.test_lesson_folders import mode, project

__all__ = ["project"]  # a fixture
OF_DASK = ("dask_jobqueue.slurm", "distributed", "distributed.http.routing")


class KnownPlaceScheduler:
    """As far as folders go the scheduler of distributed 2026.8.0: core.py, ``Server.__init__`` and ``close``."""

    def __init__(self, local_directory: str | None = None, **options: Any) -> None:
        place = Path(local_directory or tempfile.gettempdir()) / "dask-scratch-space"
        place.mkdir(exist_ok=True)
        self.local_directory = tempfile.mkdtemp(prefix="scheduler-", dir=place)
        sys.path.insert(0, self.local_directory)

    async def close(self, **options: Any) -> None:
        if sys.path[0] == self.local_directory:
            sys.path.remove(self.local_directory)


class StartedWorker:
    """A worker that notes where it works."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.options = options


class NotedCluster:
    """A ``SLURMCluster`` that notes what it is made with."""

    def __init__(self, **options: Any) -> None:
        self.options = options


class AnySecurity:
    """Keys that nobody uses."""

    @classmethod
    def temporary(cls) -> AnySecurity:
        return cls()


@pytest.fixture
def dask(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModuleType]:
    """The module of the lesson on Dask, on doubles of it, with temporary files in a folder of its own."""
    modules = [ModuleType(name) for name in OF_DASK]
    vars(modules[0]).update(SLURMCluster=NotedCluster, SLURMJob=object)
    vars(modules[1]).update(Scheduler=KnownPlaceScheduler, Security=AnySecurity, Worker=StartedWorker)
    vars(modules[2]).update(RoutingApplication=object)
    for module in modules:
        monkeypatch.setitem(sys.modules, module.__name__, module)
    (tmp_path / "tmp").mkdir(mode=0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield from loaded("dask/lesson_folders.py", "dask/lesson_jobs.py", "dask/private_dask.py")


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module of the lesson on Ray, which asks for Ray itself late."""
    names = ("lesson_folders", "lesson_jobs", "private_keys", "private_dashboard", "private_ray")
    yield from loaded(*(f"ray/{name}.py" for name in names))


def loaded(*places: str) -> Iterator[ModuleType]:
    """The last of the modules, with the others as its neighbours."""
    with ExitStack() as stack:
        yield [stack.enter_context(module_of(place)) for place in places][-1]


def test_a_dask_cluster_has_its_keys_in_a_private_folder(dask: ModuleType, tmp_path: Path) -> None:
    options = dask.Cluster(tmp_path / "cluster", 1, "1GiB").options
    assert options["shared_temp_directory"] == options["log_directory"] == str(tmp_path / "cluster")
    assert mode(tmp_path / "cluster") == mode(tmp_path / "runtime/sockets") == 0o700


def test_its_dashboard_is_where_the_session_looks(
    dask: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORTAL_RUNTIME_DIR", str(tmp_path / "session"))
    cluster = dask.Cluster(tmp_path / "cluster", 1, "1GiB")
    assert cluster.socket == tmp_path / "session/sockets" / f"{cluster.page}.sock"


def test_a_folder_in_the_home_is_named_as_in_a_shell(
    dask: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert dask.Cluster("~/cluster", 1, "1GiB").options["log_directory"] == str(tmp_path / "cluster")


def test_a_dask_cluster_takes_no_folder_that_others_can_exchange(dask: ModuleType, project: Path) -> None:
    with pytest.raises(ValueError, match=f"Somebody else can change {project}, .*name a folder in your home"):
        dask.Cluster(project / "cluster", 1, "1GiB")
    assert list(project.iterdir()) == []


def test_a_dask_scheduler_works_in_a_new_private_folder_and_takes_it_along(dask: ModuleType, tmp_path: Path) -> None:
    known = tmp_path / "tmp/dask-scratch-space"
    known.mkdir()
    known.chmod(0o777)  # a neighbour was first
    scheduler = dask.SocketScheduler(dashboard=True)
    own_folder = Path(scheduler.local_directory).parents[1]
    assert own_folder.parent == tmp_path / "tmp"
    assert [mode(own_folder), list(known.iterdir())] == [0o700, []]
    sys.path.insert(0, "/what/the/person/has/added")
    asyncio.run(scheduler.close())
    assert not own_folder.exists()
    assert scheduler.local_directory not in sys.path, "others can make a folder of that name now"


def test_a_dask_scheduler_that_does_not_start_leaves_no_folder(
    dask: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: object, **options: object) -> None:
        raise RuntimeError("no address")

    monkeypatch.setattr(KnownPlaceScheduler, "__init__", fails)
    with pytest.raises(RuntimeError, match="no address") as error:
        dask.SocketScheduler()
    del error
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_dask_worker_starts_where_keys_and_scratch_files_are_its_persons(dask: ModuleType, tmp_path: Path) -> None:
    private(tmp_path / "cluster")
    security = {"tls_ca_file": str(tmp_path / "cluster/ca")}
    worker = dask.QuietWorker("tls://head", security=security, local_directory=str(tmp_path / "tmp"), nthreads=1)
    assert worker.options == {"security": security, "local_directory": str(tmp_path / "tmp"), "nthreads": 1}
    cleaner = os.open(tmp_path / "tmp", os.O_RDONLY | os.O_DIRECTORY)
    with pytest.raises(BlockingIOError):  # what cleans /tmp leaves it: tmpfiles.d(5)
        fcntl.flock(cleaner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(cleaner)


@pytest.mark.parametrize("of_others", ["cluster", "tmp"])
def test_a_dask_worker_refuses_a_folder_that_others_can_exchange(
    dask: ModuleType, project: Path, tmp_path: Path, of_others: str
) -> None:
    folders = {"cluster": tmp_path, "tmp": tmp_path, of_others: project}
    for name, place in folders.items():
        (place / name).mkdir(mode=0o700, exist_ok=True)
    security = {"tls_ca_file": str(folders["cluster"] / "cluster/ca")}
    with pytest.raises(ValueError, match=f"change {project},"):
        dask.QuietWorker("tls://head", security=security, local_directory=str(folders["tmp"] / "tmp"))


def test_a_ray_cluster_takes_no_folder_that_others_can_exchange(ray: ModuleType, project: Path) -> None:
    with pytest.raises(ValueError, match=f"Somebody else can change {project}, .*name a folder in your home"):
        ray.Cluster(project / "cluster", 1, 1024)
    assert list(project.iterdir()) == []


def test_the_keys_of_a_ray_cluster_are_made_and_read_only_where_nobody_else_can_put_others(
    ray: ModuleType, project: Path, tmp_path: Path
) -> None:
    keys = ray.private_keys
    node = private(tmp_path / "node")
    keys.for_cluster(private(tmp_path / "cluster") / "keys")
    keys.for_node(tmp_path / "cluster/keys", node, "127.0.0.1")
    assert sorted(one.name for one in node.iterdir()) == ["node.crt", "node.key"]

    with pytest.raises(ValueError, match=f"{project} is open to others"):
        keys.for_cluster(project / "keys")
    (tmp_path / "cluster").rename(project / "cluster")  # of the same name on another node
    with pytest.raises(ValueError, match=f"change {project},"):
        keys.for_node(project / "cluster/keys", node, "127.0.0.1")


def test_a_ray_worker_that_refuses_its_keys_leaves_no_folder(
    ray: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)
    node = private(tmp_path / "node")
    with pytest.raises(ValueError, match="is not on this node"):
        ray.run(node, tmp_path / "cluster/keys", "127.0.0.1", [])
    assert not node.exists()


def test_what_ray_puts_anywhere_lies_in_the_private_folder_of_its_node(
    ray: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(ray, "LONGEST_PLACE", 200)
    node = ray.own_folder()
    told = ray.environment(tmp_path / "keys", node)
    assert [node.parent, mode(node)] == [tmp_path, 0o700]
    assert told["RAY_TMPDIR"] == str(node), "ray/_common/utils.py, get_default_system_temp_dir"
    assert Path(told["TPU_LOG_DIR"]).parent == node, "ray/_private/node.py, _init_temp"
    assert Path(told["TPU_LOG_DIR"]).is_dir(), "else Ray takes one that everybody knows"


def test_a_node_of_ray_takes_no_temporary_folder_that_others_can_exchange(
    ray: ModuleType, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(project))
    monkeypatch.setattr(ray, "LONGEST_PLACE", 200)
    with pytest.raises(ValueError, match=f"change {project}, .* TMPDIR"):
        ray.own_folder()
    assert list(project.iterdir()) == []
