"""A whole system out of packages, without a cluster in it: what builds the portal's environment on that one's Python.

Everything of the host but its own system is at its place, and its network. ``enter_system PLAN FOLDER COMMAND…`` runs
in namespaces of its own, and becomes the command.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from deploy import run_module
from deploy.demo import rootfs, services
from deploy.demo.start_plan import Plan

UNSHARE = {
    "root": ["unshare", "--mount"],
    "rootless": ["unshare", "--user", "--map-root-user", "--map-auto", "--mount"],
}
SYSTEM = {"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "sys", "usr", "var"}
FOLDERS = ("usr", "etc", "dev", "proc", "sys", "run", "var/tmp", "old")
DROPPED = ("LD_", "PYTHON", "VIRTUAL_ENV")  # of the host's own programs


def command(plan: Plan, folder: Path, arguments: list[str]) -> list[str]:
    """The argv that runs ``arguments`` in the system, in ``folder``."""
    module = run_module.command("deploy.demo.enter_system")
    return [*UNSHARE[plan.variant], "--propagation", "private", "--", *module, plan.dumps(), str(folder), *arguments]


def environment(variables: dict[str, str]) -> dict[str, str]:
    """The caller's environment, the ways to packages among it, without what misleads another system's programs."""
    kept = {key: value for key, value in variables.items() if not key.startswith(DROPPED)}
    return {**kept, "PATH": services.PATH, "LANG": "C.UTF-8"}


def build(plan: Plan) -> None:
    """Make the system our root."""
    new = plan.path("ns")
    new.mkdir(exist_ok=True)
    rootfs.mount("-t", "tmpfs", "-o", "mode=755", "dsportal", new)
    rootfs.mount("--make-unbindable", new)
    for name in FOLDERS:
        (new / name).mkdir(parents=True)
    rootfs.link_merged(new)
    rootfs.make_system(plan, new)
    for name in ("dev", "proc", "sys"):
        rootfs.mount("--rbind", Path("/", name), new / name)
    for folder in Path("/").iterdir():
        if folder.name not in SYSTEM and folder.is_dir() and not folder.is_symlink():
            (new / folder.name).mkdir(exist_ok=True)
            rootfs.mount("--rbind", folder, new / folder.name)
    rootfs.pivot(new)


def main(arguments: list[str]) -> None:
    """Build, and become the command."""
    text, folder, *rest = arguments
    build(Plan.loads(text))
    os.chdir(folder)
    try:
        os.execvpe(rest[0], rest, environment(dict(os.environ)))  # noqa: S606
    except OSError as error:
        sys.exit(f"{rest[0]}: {error.strerror}")


def run(plan: Plan, arguments: list[str]) -> int:
    """Run a command in the system, from the folder that one is in; its exit status."""
    return subprocess.run(command(plan, Path.cwd(), arguments), check=False).returncode


if __name__ == "__main__":
    main(sys.argv[1:])
