"""What the lesson on one's own node makes of nodes that no test machine is: GPUs on two sockets, odd interfaces."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from portal.lessons import lesson_folders

LESSON = Path(__file__).parents[2] / "notebooks" / "cluster" / "know_your_node.ipynb"
SOURCES = {cell["id"]: "".join(cell["source"]) for cell in json.loads(LESSON.read_bytes())["cells"]}
# As driver 550 prints it on a node with two GPUs on each of two sockets.
TOPOLOGY = (
    "\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV2\tSYS\tSYS\tNODE\t0-3\t0\t\tN/A\nGPU1\tNV2\t X \tSYS\tSYS\tNODE\t0-3\t0\t\tN/A\n"
    "GPU2\tSYS\tSYS\t X \tNV2\tSYS\t4-5,6,7\t1\t\tN/A\nGPU3\tSYS\tSYS\tNV2\t X \tSYS\t4-7\t1\t\tN/A\n"
    "NIC0\tNODE\tNODE\tSYS\tSYS\t X \t\t\t\t\n\nLegend:\n\n  X    = Self\n"
)


def functions(cell: str, *names: str, **known: object) -> Any:
    """Functions of a cell, with what they need of the cells before."""
    cell_body = ast.parse(SOURCES[cell]).body
    found = [part for part in cell_body if isinstance(part, ast.FunctionDef) and part.name in names]
    assert len(found) == len(names), [part.name for part in found]
    space: dict[str, Any] = {"re": re, **known}
    exec(compile(ast.Module([*found], []), cell, "exec"), space)  # noqa: S102  the lesson's own source
    return SimpleNamespace(**{name: space[name] for name in names})


def near(text: str) -> dict[int, list[int]]:
    """What the lesson reads out of `nvidia-smi topo -m`."""
    numbers = functions("imports", "numbers").numbers
    found: dict[int, list[int]] = functions("gpu-list", "gpu_cores", numbers=numbers).gpu_cores(text)
    return found


def pins(cores_near: Mapping[int, list[int]], visible: str | None, gpus: int, cores: int = 8) -> list[list[int]]:
    """The cores of each rank on a node with so many cores, the first half of them on one socket."""
    allowed = list(range(cores))
    space: dict[str, Any] = {
        "processes": 0, "gpu_count": gpus, "gpus": gpus, "usable": cores, "allowed": allowed, "visible": visible,
        "cores_near": cores_near, "numa_of": {core: core * 2 // cores for core in allowed},
        "place_of": {core: (core * 2 // cores, core) for core in allowed},
    }  # fmt: skip
    exec(SOURCES["pin-ranks"], space)  # noqa: S102  the lesson's own source
    found: list[list[int]] = space["pins"]
    return found


def test_a_rank_gets_the_cores_near_its_gpu_and_shares_them_with_its_neighbour() -> None:
    assert near(TOPOLOGY) == {0: [0, 1, 2, 3], 1: [0, 1, 2, 3], 2: [4, 5, 6, 7], 3: [4, 5, 6, 7]}
    assert pins(near(TOPOLOGY), None, 4) == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_the_gpus_that_slurm_chose_count_not_the_first_ones() -> None:
    assert pins(near(TOPOLOGY), "3,0", 2) == [[4, 5, 6, 7], [0, 1, 2, 3]]


def test_more_ranks_than_cores_near_a_gpu_share_them() -> None:
    assert pins({gpu: [0] for gpu in range(3)}, None, 3, cores=2) == [[0], [0], [0]]


@pytest.mark.parametrize(
    "text", ["", "\tGPU0\tNIC0\nGPU0\t X \tSYS\n", TOPOLOGY.replace("0-3", "N/A").replace("4-", "N/A")]
)
def test_where_nvidia_smi_names_no_cores_they_are_divided_in_order(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pins(near(text), None, 2) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert "nvidia-smi names no cores near a GPU" in capsys.readouterr().out


def test_gpus_named_by_their_ids_are_taken_in_order() -> None:
    assert pins(near(TOPOLOGY), "GPU-8932f937,GPU-45cb7a1c", 2) == [[0, 1], [2, 3]]


def test_a_gpu_on_a_socket_where_the_session_has_no_core_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert pins({0: [0, 1], 1: [40, 41]}, None, 2, cores=2) == [[0, 1], [1]]
    assert "No core of this session is near GPU 1: ask for whole sockets" in capsys.readouterr().out


def test_an_interface_without_an_address_for_others_is_none_to_meet_at() -> None:
    inet, inet6, packet = 2, 10, 17
    entries = {
        "ib0": [(inet, "10.9.0.1"), (inet6, "fe80::1%ib0")],
        "eno1": [(packet, "aa:bb:cc:dd:ee:ff")],
        "usb0": [(inet, "169.254.3.1"), (inet6, "fe80::2%usb0")],
        "six": [(inet6, "2001:db8::7")],
    }
    listed = {
        name: [SimpleNamespace(family=kind, address=text) for kind, text in found] for name, found in entries.items()
    }
    psutil = SimpleNamespace(net_if_addrs=lambda: listed)
    family = SimpleNamespace(AF_INET=inet, AF_INET6=inet6)
    addresses_of = functions("interfaces", "addresses_of", psutil=psutil, socket=family).addresses_of
    found = {name: addresses_of(name) for name in [*entries, "gone"]}
    assert found == {"ib0": ["10.9.0.1"], "eno1": [], "usb0": [], "six": ["2001:db8::7"], "gone": []}


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the lesson knows in a folder in which others have left modules, with a work folder elsewhere."""
    (beside := tmp_path / "beside").mkdir()
    for name in ("torch", "json", "multiprocessing"):
        (beside / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('{name} ')\n")
    beside.chmod(0o777)
    monkeypatch.chdir(beside)
    # In the place of the login shell that loads modules: what it starts has this Python.
    (tmp_path / "bash").write_text(f'#!/bin/sh\nshift 3\nexec {sys.executable} "$@"\n')
    (tmp_path / "bash").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return {
        "json": json, "lesson_folders": lesson_folders, "os": os, "shutil": shutil, "subprocess": subprocess,
        "sys": sys, "time": time, "work": lesson_folders.unshared(tmp_path / "work"),
    }  # fmt: skip


def test_pytorch_is_asked_for_elsewhere_than_in_the_notebooks_folder(tmp_path: Path, beside: dict[str, Any]) -> None:
    said = functions("imports", "said", **beside).said
    known: dict[str, Any] = {"said": said, "torch": None, "torch_modules": ["shared"], "meeting": "lo"}
    exec(SOURCES["all-reduce-test"].partition("\n\n\n")[0], beside | known)  # noqa: S102  the lesson's own source
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()


def test_what_the_lesson_measures_with_begins_in_its_work_folder(beside: dict[str, Any]) -> None:
    """So do the Pythons that libraries start for it, which look for modules where they begin."""
    where = "import json, os; print(json.dumps({'right': True, 'cwd': os.getcwd()}))"
    (beside["work"] / "all_reduce.py").write_text(where)
    (beside["work"] / "pair.py").write_text(where)
    known: dict[str, Any] = {"measure_seconds": 0, "pins": [[0]], "ranks": 1, "python": [sys.executable], "places": [0]}
    beside |= {"copy_mib": 1, "seconds_per_pair": 0, "variables": os.environ} | known
    _, program, rest = SOURCES["core-matrix"].partition("program = [")
    exec(program + rest.partition("wrong = ")[0], beside)  # noqa: S102  the lesson's own source
    (rank,) = functions("all-reduce-test", "all_reduce", **beside).all_reduce([1])
    assert [rank["cwd"], beside["pairs"][0]["cwd"]] == [str(beside["work"])] * 2
