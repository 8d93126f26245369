"""The rooms of the portal: who may import whom."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PURE = {
    "errors",
    "site",
    "request",
    "script",
    "slurm",
    "session",
    "faults",
    "scontrol",
    "nodes",
    "forecast",
    "slurm_json",
}
HUB_SIDE = {
    "hub",
    "auth",
    "database",
    "bench",
    "cluster",
    "runner",
    "directory",
    "doctor",
    "checks",
    "checks_host",
    "cli",
}
JOB_SIDE = {
    "server", "quick_start", "ending", "extension", "tensorboard", "launcher", "kernel_manager", "provisioner",
    "run_kernel", "modules",
}  # fmt: skip
ONLY_IN = {
    "subprocess": {"launcher", "modules", "module_output", "kernels", "tensorboard", "tensorboard_server"},
    "ldap3": {"directory"},
    "papermill": {"notebooks"},
    "sqlite3": {"database"},
    "batchspawner": {"slurm", "ready"},
    "wrapspawner": {"profiles"},
}


def imports(path: Path) -> set[str]:
    """Everything a module imports, as dotted names, wherever in the file."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def modules(package: str) -> dict[str, set[str]]:
    return {path.stem: imports(path) for path in (ROOT / package).glob("*.py")}


def test_pure_rooms_import_no_effects() -> None:
    forbidden = {"os", "asyncio", "subprocess", "socket", "jupyterhub", "tornado", "traitlets", "ldap3"}
    for name, found in modules("portal").items():
        if name in PURE:
            assert not {dotted.split(".")[0] for dotted in found} & forbidden, name


def test_the_portal_never_imports_the_spawners_but_by_the_hubs_configuration() -> None:
    for name, found in modules("portal").items():
        if name != "hub":
            assert not [dotted for dotted in found if dotted.startswith("spawners")], name


def test_the_job_side_never_imports_the_hub_side() -> None:
    forbidden = {f"portal.{name}" for name in HUB_SIDE}
    for name, found in modules("portal").items():
        if name in JOB_SIDE:
            assert not found & forbidden, name


@pytest.mark.parametrize("library", sorted(ONLY_IN))
def test_each_outside_thing_has_one_owner(library: str) -> None:
    for package in ("portal", "spawners"):
        for name, found in modules(package).items():
            if name not in ONLY_IN[library]:
                assert library not in {dotted.split(".")[0] for dotted in found}, f"{package}/{name}.py"


def test_tensorflow_and_horovod_belong_to_kernels() -> None:
    for package in ("portal", "spawners"):
        for name, found in modules(package).items():
            assert not {dotted.split(".")[0] for dotted in found} & {"tensorflow", "horovod", "keras"}, name


def test_rooms_stay_small() -> None:
    for package in ("portal", "spawners"):
        for path in (ROOT / package).glob("*.py"):
            text = path.read_text()
            assert len(text.splitlines()) <= 300, path.name
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    assert (node.end_lineno or 0) - node.lineno < 60, f"{path.name}: {node.name}"
