"""What comes before the Python of every kernel that a session starts: it keeps the kernel from opening ports.

It works in any environment, a person's own included, because nothing in the environment is changed: Python is told by
PYTHONPATH to look into one folder more, and the kernel takes that back out of its environment at once. The folder lies
with the kernel's sockets, where a kernel in a container finds it, too.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from portal.kernels.delta import Environment

FIRST = Path(__file__).with_name("startup") / "sitecustomize.py"
DEBUGGER = "DSPORTAL_KERNEL_DEBUGGER"  # its name in that file


def prepared(env: Environment, runtime: Path, *, debugger: bool) -> Environment:
    """``env`` for a Python kernel.

    Arguments:
        runtime: the folder of the session's sockets, which only the person can read.
        debugger: whether the kernel may open the port of its debugger.
    """
    folder = runtime / "startup"
    folder.mkdir(mode=0o700, exist_ok=True)
    file = folder / FIRST.name
    if not file.exists():
        shutil.copyfile(FIRST, file)
    path = ":".join(filter(None, [str(folder), env.get("PYTHONPATH", "")]))
    return env | {"PYTHONPATH": path} | ({DEBUGGER: "1"} if debugger else {})
