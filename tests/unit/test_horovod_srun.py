"""The meeting of Horovod's ranks under srun: the pure part, without Horovod."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.lessons import module_of

STEP = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "3", "SLURM_NTASKS": "5", "SLURM_LOCALID": "1",
        "SLURM_NODEID": "1", "SLURM_STEP_TASKS_PER_NODE": "2(x2),1", "SLURM_TASKS_PER_NODE": "9"}  # fmt: skip


@pytest.fixture(scope="module")
def srun() -> Iterator[ModuleType]:
    with module_of("horovod/horovod_srun.py") as module:
        yield module


@pytest.mark.parametrize(
    ("text", "expected"), [("1", (1,)), ("2(x3),1", (2, 2, 2, 1)), ("4,2(x2)", (4, 2, 2)), ("10(x1)", (10,))]
)
def test_slurms_short_form_of_a_layout_is_read(srun: ModuleType, text: str, expected: tuple[int, ...]) -> None:
    assert srun.tasks_per_node(text) == expected


@pytest.mark.parametrize("text", ["", "2(x3", "two", "2,,1", "-1"])
def test_what_is_no_layout_is_named(srun: ModuleType, text: str) -> None:
    with pytest.raises(srun.LaunchError, match="is not a layout of tasks"):
        srun.tasks_per_node(text)


def test_a_task_gets_its_place_as_horovod_wants_it(srun: ModuleType) -> None:
    assert srun.Task.of(STEP).variables == {
        "HOROVOD_HOSTNAME": "node1",
        "HOROVOD_RANK": "3",
        "HOROVOD_SIZE": "5",
        "HOROVOD_LOCAL_RANK": "1",
        "HOROVOD_LOCAL_SIZE": "2",
        "HOROVOD_CROSS_RANK": "1",
        "HOROVOD_CROSS_SIZE": "2",  # the third node has no second task
    }


def test_the_places_of_all_tasks_fit_together(srun: ModuleType) -> None:
    layout = (1, 3, 2)
    tasks = [(node, local) for node, count in enumerate(layout) for local in range(count)]
    places = [srun.Task(rank, 6, local, node, layout).variables for rank, (node, local) in enumerate(tasks)]
    for local in range(3):
        same = [place for place in places if place["HOROVOD_LOCAL_RANK"] == str(local)]
        assert [int(place["HOROVOD_CROSS_RANK"]) for place in same] == list(range(len(same)))
        assert {place["HOROVOD_CROSS_SIZE"] for place in same} == {str(len(same))}


@pytest.mark.parametrize(
    "wrong", [{"SLURM_NTASKS": "6"}, {"SLURM_NODEID": "3"}, {"SLURM_LOCALID": "2"}, {"SLURM_PROCID": "x"}]
)
def test_variables_that_do_not_fit_are_refused(srun: ModuleType, wrong: dict[str, str]) -> None:
    with pytest.raises(srun.LaunchError):
        srun.Task.of({**STEP, **wrong})


@pytest.mark.parametrize("other", ["HOROVOD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK"])
def test_another_launcher_is_left_alone(srun: ModuleType, other: str, tmp_path: Path) -> None:
    variables = {**STEP, other: "0"}
    assert srun.prepare(variables, tmp_path) is False
    assert set(variables) - set(STEP) == {other, *srun.LIMITS}


@pytest.mark.parametrize("alone", [{}, {**STEP, "SLURM_NTASKS": "1"}])
def test_a_process_by_itself_needs_no_mpi(srun: ModuleType, alone: dict[str, str], tmp_path: Path) -> None:
    variables = dict(alone)
    assert srun.prepare(variables, tmp_path) is False
    assert variables["HOROVOD_CONTROLLER"] == "gloo"
    assert "HOROVOD_RANK" not in variables
    assert list(tmp_path.iterdir()) == []


def test_the_limits_that_a_person_sets_stay(srun: ModuleType, tmp_path: Path) -> None:
    variables = {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "900"}
    srun.prepare(variables, tmp_path)
    assert variables["HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"] == "900"


def test_a_rank_reads_where_rank_0_is(srun: ModuleType, tmp_path: Path) -> None:
    meeting = tmp_path / ".horovod-7.0.0"
    srun.announce(meeting, "10.0.0.1 4242")
    assert meeting.stat().st_mode & 0o777 == 0o600
    variables = dict(STEP)
    assert srun.prepare(variables, tmp_path) is True
    assert (variables["HOROVOD_GLOO_RENDEZVOUS_ADDR"], variables["HOROVOD_GLOO_RENDEZVOUS_PORT"]) == (
        "10.0.0.1",
        "4242",
    )
    srun.clean(STEP, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_somebody_else_left_in_the_folder_is_neither_written_through_nor_believed(
    srun: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hers = tmp_path / "thesis.tex"
    hers.write_text("hers")
    meeting = tmp_path / ".horovod-7.0.0"
    meeting.symlink_to(hers)
    (tmp_path / ".horovod-7.0.0.new").symlink_to(hers)
    assert srun.own_text(meeting) == ""
    srun.announce(meeting, "10.0.0.1 4242")
    assert (hers.read_text(), srun.own_text(meeting)) == ("hers", "10.0.0.1 4242")
    monkeypatch.setattr(srun.os, "getuid", lambda: 4_000_000)
    assert srun.own_text(meeting) == ""
    monkeypatch.undo()
    (tmp_path / "folder").mkdir()
    assert srun.own_text(tmp_path / "folder") == ""


def test_a_rank_0_that_never_comes_is_not_waited_for_without_end(srun: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(srun.LaunchError, match=r"rank 0 did not write .*\.horovod within 0 s"):
        srun.wait_for(tmp_path / ".horovod", within_s=0)


def test_a_node_without_an_address_is_named(srun: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(srun.socket, "gethostname", lambda: "no.such.host.invalid")
    monkeypatch.setattr(srun, "_sends_from", list)
    with pytest.raises(srun.LaunchError, match=r"no address is known for gone\.invalid or no\.such\.host\.invalid"):
        srun.address({"SLURMD_NODENAME": "gone.invalid"})


def test_an_address_that_means_each_node_itself_is_announced_to_others_as_a_last_resort_only(
    srun: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    known = {"n1": ["127.0.1.1"], "n1.cluster": ["127.0.1.1", "10.1.0.1"]}
    step = {"SLURMD_NODENAME": "n1", "SLURM_NNODES": "2"}
    monkeypatch.setattr(srun, "_addresses", lambda name: known.get(name, []))
    monkeypatch.setattr(srun, "_sends_from", list)
    monkeypatch.setattr(srun.socket, "gethostname", lambda: "n1.cluster")
    assert srun.address(step) == "10.1.0.1"
    monkeypatch.setattr(srun.socket, "gethostname", lambda: "n1")
    assert srun.address({**step, "SLURM_NNODES": "1"}) == "127.0.1.1"
    assert capsys.readouterr().err == ""
    assert srun.address(step) == "127.0.1.1"
    assert capsys.readouterr().err.startswith(
        "n1: the only known address is 127.0.1.1, which nodes on another host cannot reach"
    )
    monkeypatch.setattr(srun, "_sends_from", lambda: ["192.168.0.7"])
    assert srun.address(step) == "192.168.0.7"


def test_it_can_be_imported_before_horovod(srun: ModuleType) -> None:
    assert "horovod" not in sys.modules
    assert srun.OTHER_LAUNCHERS
    assert os.environ.get("HOROVOD_RANK") is None
