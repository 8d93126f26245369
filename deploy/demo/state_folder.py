"""The demo's state folder: where everything lies, who runs it, and how it is recognised."""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from deploy.demo.console import DemoError
from deploy.demo.releases import OLDEST
from deploy.demo.requirements import name_of

CHECKOUT = Path(__file__).resolve().parents[2]
MARKER = ".dsportal-demo"
# What the demo and the environment scripts put there; anything else means that the folder is not ours.
CONTENTS = {
    MARKER,
    "apt",
    "cache",
    "cluster",
    "cm",
    "debs",
    "demo.log",
    "init.log",
    "local",
    "lock",
    "ns",
    "root",
    "run.json",
    "run.json.new",
}


@dataclass(frozen=True)
class Run:
    """A running demo: its supervisor, PID 1 of the namespaces as the host counts, and how it was started."""

    supervisor_pid: int
    init_pid: int
    variant: str
    port: int  # 0 = no hub


@dataclass(frozen=True)
class State:
    """One state folder. Two of them never share anything but the checkout."""

    folder: Path

    @property
    def debs(self) -> Path:
        """The downloaded packages."""
        return self.folder / "debs"

    @property
    def cluster(self) -> Path:
        """The cluster's live state: /cluster inside."""
        return self.folder / "cluster"

    @property
    def log(self) -> Path:
        """The output of the supervisor of a demo in the background."""
        return self.folder / "demo.log"

    def tree(self, group: str) -> Path:
        """The unpacked packages of one group."""
        return self.folder / "root" / group

    def make(self) -> None:
        """Make the folder, closed to others: it holds set-user-id programs and secrets.

        Raises ``DemoError`` when the folder holds something else, or is somebody else's.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self.check_owner()
        if not is_state(self.folder):
            raise DemoError(f"{self.folder} holds other files: choose an empty folder (--state or DSPORTAL_DEMO)")
        self.folder.chmod(0o700)
        (self.folder / MARKER).write_text("The Data Scientist Portal's demo: `demo clean` removes this folder.\n")

    def check_owner(self) -> None:
        """Use no folder that somebody else made, where programs and names of processes could be put in place.

        That of the checkout's owner is as good: its code runs.

        Raises ``DemoError`` where it is another account's.
        """
        usual = {os.geteuid(), CHECKOUT.stat().st_uid}
        for found in (self.folder.lstat, self.folder.stat):  # a link, and where it leads to
            with suppress(FileNotFoundError):
                owner = found().st_uid
                if owner not in usual:
                    raise DemoError(
                        f"{self.folder} belongs to {name_of(owner)}, and this is {name_of(os.geteuid())}: "
                        "choose a folder of your own (--state or DSPORTAL_DEMO)"
                    )

    def keep_release(self, version: str) -> None:
        """Note the Debian whose programs write the live state: another one's Slurm and MariaDB may not read it.

        Raises ``DemoError`` when it was written by another one's.
        """
        note = self.cluster / "debian"
        unnoted = OLDEST.version if (self.cluster / "slurm").is_dir() else ""  # there was no other before
        made_by = note.read_text().strip() if note.exists() else unnoted
        if made_by and made_by != version:
            raise DemoError(
                f"the cluster in {self.folder} was made with Debian {made_by}, and {version} does not read its state: "
                "choose another folder (--state), or take that state away, with people's files and jobs: "
                "deploy/demo/demo clean --live"
            )
        self.cluster.mkdir(exist_ok=True)
        note.write_text(f"{version}\n")

    def lock(self) -> IO[str] | None:
        """Take the folder for one supervisor; None when another has it. A supervisor that dies frees it."""
        stream = (self.folder / "lock").open("a+")
        if not locked(stream, fcntl.LOCK_EX):
            stream.close()
            return None
        stream.truncate(0)
        print(os.getpid(), file=stream, flush=True)
        return stream

    def write_run(self, run: Run) -> None:
        """Note who runs, for the other verbs, which find the whole of it or nothing."""
        unfinished = self.folder / "run.json.new"
        unfinished.write_text(json.dumps(asdict(run)))
        unfinished.replace(self.folder / "run.json")

    def forget_run(self) -> None:
        """The demo has ended."""
        (self.folder / "run.json").unlink(missing_ok=True)

    def running(self) -> Run | None:
        """The demo that is ready in this folder, or None."""
        if not self.is_taken():
            return None
        try:
            return Run(**json.loads((self.folder / "run.json").read_text()))
        except (FileNotFoundError, ValueError, TypeError):  # none, half of one, or that of another version
            return None

    def is_taken(self) -> bool:
        """Whether a supervisor, ready or not, has the folder."""
        try:
            with (self.folder / "lock").open() as stream:
                return not locked(stream, fcntl.LOCK_SH)
        except FileNotFoundError:
            return False

    def supervisor(self) -> int | None:
        """The process that has the folder."""
        if not self.is_taken():
            return None
        text = (self.folder / "lock").read_text().strip()
        return int(text) if text.isdigit() else None

    def why_not_clean(self) -> str:
        """Why the folder must not be removed; '' when it may."""
        if not self.folder.is_dir():
            return f"there is no folder {self.folder}"
        if self.is_taken():
            return f"a demo runs in {self.folder}: make demo-down ends it"
        strangers = sorted({entry.name for entry in self.folder.iterdir()} - CONTENTS)
        if not (self.folder / MARKER).exists() or strangers:
            return f"{self.folder} is not a demo's state folder ({', '.join(strangers[:5]) or 'no ' + MARKER} in it)"
        return ""


def locked(stream: IO[str], kind: int) -> bool:
    """Take a lock, if nobody else has it. Tried for a moment: a `demo status` holds it that long."""
    for _ in range(10):
        try:
            fcntl.flock(stream, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.02)
        else:
            return True
    return False


def is_state(folder: Path) -> bool:
    """Whether a folder is a demo's, or empty enough to become one."""
    names = {entry.name for entry in folder.iterdir()}
    return MARKER in names or names <= CONTENTS


def chosen(option: str | None) -> State:
    """The folder of ``--state``, else of DSPORTAL_DEMO, else ``.demo`` of the checkout.

    Raises ``DemoError`` where it is another account's.
    """
    name = option or os.environ.get("DSPORTAL_DEMO") or str(CHECKOUT / ".demo")
    state = State(Path(name).absolute())
    state.check_owner()
    return state
