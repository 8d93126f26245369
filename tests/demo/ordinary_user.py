"""Run a command as an ordinary user of a machine that has none, leaving the machine as it was.

    python3 -m tests.demo.ordinary_user [--home FOLDER] [--cwd FOLDER] -- COMMAND…

It runs as root and passes on the exit status. The user ``ordinary`` (uid 1500, with a range of subordinate ids and
newuidmap) exists only in a private mount namespace: an overlay over /etc, and the unpacked package ``uidmap`` over
/usr. A private PID namespace ends whatever the command leaves running. The home is given to the user; everything else
is as the machine has it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from deploy import run_module
from deploy.demo import fetch_debs, releases, requirements, unpack_debs
from deploy.demo.state_folder import State

NAME = "ordinary"
UID = 1500
FIRST_SUBID = 200000
LINES = {
    "passwd": f"{NAME}:x:{UID}:{UID}:Ordinary user:{{home}}:/bin/bash",
    "group": f"{NAME}:x:{UID}:",
    "subuid": f"{NAME}:{FIRST_SUBID}:65536",
    "subgid": f"{NAME}:{FIRST_SUBID}:65536",
}
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"
SPACES = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private", "--"]


def run(home: Path, command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> int:
    """Run ``command`` as the ordinary user, in ``home`` or ``cwd``; its exit status."""
    with tempfile.TemporaryDirectory(prefix="ordinary-user-") as scratch:
        folder = Path(scratch)
        folder.chmod(0o755)
        unpack_uidmap(folder)
        arguments = ["--stage-two", str(folder), "--home", str(home), "--cwd", str(cwd or home), "--", *command]
        script = [*run_module.command("tests.demo.ordinary_user"), *arguments]
        return subprocess.run([*SPACES, *script], env=env, check=False).returncode


def unpack_uidmap(folder: Path) -> None:
    """newuidmap and its library below ``folder``/uidmap, set-user-id root."""
    state = State(folder / "packages")
    state.folder.mkdir()
    release = releases.RELEASES[releases.of_host(requirements.debian_of_host())]
    unpack_debs.unpack(fetch_debs.fetch(state, "rootless-test", release), folder / "uidmap", "once")


def become(folder: Path, home: Path, cwd: Path, command: list[str]) -> None:
    """In the private namespaces: make the user, and become it and the command."""
    private = folder / "private"
    private.mkdir()
    mount("-t", "tmpfs", "tmpfs", str(private))
    (private / "upper").mkdir()
    (private / "work").mkdir()
    mount("-t", "overlay", "overlay", "-o", f"lowerdir={folder}/uidmap/usr:/usr", "/usr")
    layers = f"lowerdir=/etc,upperdir={private}/upper,workdir={private}/work"
    mount("-t", "overlay", "overlay", "-o", layers, "/etc")
    for name, line in LINES.items():
        with Path("/etc", name).open("a") as file:
            file.write(line.format(home=home) + "\n")
    home.mkdir(parents=True, exist_ok=True)
    if home.stat().st_uid != UID:  # a second time it may hold files of subordinate ids: they stay as they are
        subprocess.run(["chown", "-R", f"{UID}:{UID}", str(home)], check=True)
    os.setgroups([])
    os.setgid(UID)
    os.setuid(UID)
    os.chdir(cwd)
    changed = {"HOME": str(home), "USER": NAME, "LOGNAME": NAME, "SHELL": "/bin/bash", "PATH": PATH}
    os.execvpe(command[0], command, {**os.environ, **changed})  # noqa: S606


def mount(*arguments: str) -> None:
    """Run mount(8)."""
    subprocess.run(["mount", *arguments], check=True)


def main() -> int:
    """The command line of both stages."""
    parser = argparse.ArgumentParser(
        prog="ordinary_user", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--home", type=Path, help="the user's home (default: an empty one that is removed afterwards)")
    parser.add_argument("--cwd", type=Path, help="where the command starts (default: the home)")
    parser.add_argument("--stage-two", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("command", nargs="+")
    chosen = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("only root can make another user: as an ordinary user, run the command itself")
    if chosen.stage_two:
        become(chosen.stage_two, chosen.home, chosen.cwd, chosen.command)
    if chosen.home:
        return run(chosen.home.absolute(), chosen.command, chosen.cwd)
    with tempfile.TemporaryDirectory(prefix="ordinary-home-") as home:
        Path(home).chmod(0o700)
        return run(Path(home), chosen.command, chosen.cwd)


if __name__ == "__main__":
    sys.exit(main())
