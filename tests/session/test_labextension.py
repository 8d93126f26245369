"""The built Lab extension that is committed. That it is the build of its sources: ``lab/check_build.py``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.session.session_server import CHECKOUT

LAB = CHECKOUT / "templates" / "lab"
BUILT = CHECKOUT / "portal" / "labextension"


def test_the_build_is_small_and_has_no_source_maps() -> None:
    built = {file.name: file.stat().st_size for file in BUILT.rglob("*") if file.is_file()}
    assert sum(built.values()) < 120_000
    assert not [name for name in built if name.endswith(".map")]


def test_the_build_has_the_version_and_the_settings_of_the_sources() -> None:
    sources, built = (json.loads((folder / "package.json").read_text()) for folder in (LAB, BUILT))
    assert built["version"] == sources["version"]
    assert built["dependencies"] == sources["dependencies"]
    assert (BUILT / "schemas/dsportal-lab/plugin.json").read_text() == (LAB / "schema/plugin.json").read_text()


def test_the_lock_file_names_no_registry() -> None:
    packages = json.loads((LAB / "package-lock.json").read_text())["packages"]
    assert [name for name, package in packages.items() if "resolved" in package] == []


def test_jupyterlab_opens_and_imports_workspaces_where_the_extension_asks_before() -> None:
    """``workspaces.ts`` stands before these; that it does: ``security/in_a_session/test_workspaces``, in Chromium."""
    (core,) = (Path(sys.prefix) / "share/jupyter/lab/static").glob("jlab_core.*.js")
    script = core.read_text()
    assert 'super({name:"Workspace loader"' in script
    assert "e.ready.then(async()=>{var t;let i=e.model.toJSON(),n=e.path,r=i.metadata.id;" in script
    assert "await e.serviceManager.workspaces.save(i.metadata.id,i)" in script
    assert 'e.importWorkspace="workspace-ui:import"' in script
