"""Start a web tool in the environment of its modules, and end it with the session: the parent of every tool.

    <portal's python> -I -S <this file> --name NAME --module M … -- PROGRAM ARGUMENT …

Its options are those of :mod:`portal.kernels.run_kernel`. The tool is in a process group of its own. When this one's
standard input ends, because the session's server is gone or stops the tool, or when it is asked to end, so does the
whole group.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from typing import Any

if __name__ == "__main__":  # behind the standard library: only this package itself is missing from the path
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from portal.errors import KernelError
from portal.kernels.run_kernel import Launch

END_TIMEOUT_S = 4


def main(options: list[str]) -> int:
    """Run the tool; its exit status, or 1 with one line that says why it cannot start."""
    launch = Launch.from_options(options)
    if launch is None or not launch.command:
        print("portal: run_tool.py needs --name NAME [--module M]… -- PROGRAM…", file=sys.stderr)
        return 2
    os.umask(0o077)
    try:
        command, env = launch.ready(os.environ)
        tool = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, start_new_session=True)
    except (KernelError, OSError) as error:
        words = error.message if isinstance(error, KernelError) else str(error)
        print(f"portal: {launch.name} cannot start: {words}", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: _ask(tool))
    threading.Thread(target=_end_with_server, args=(tool,), daemon=True).start()
    status = tool.wait()
    _signal(tool, signal.SIGKILL)  # what it has started goes with it
    return status if status >= 0 else 128 - status


def _end_with_server(tool: subprocess.Popen[Any]) -> None:
    while os.read(0, 4096):
        pass
    _ask(tool)


def _ask(tool: subprocess.Popen[Any]) -> None:
    """Ask it to end, and insist a little later."""
    _signal(tool, signal.SIGTERM)
    insist = threading.Timer(END_TIMEOUT_S, _signal, (tool, signal.SIGKILL))
    insist.daemon = True
    insist.start()


def _signal(tool: subprocess.Popen[Any], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(tool.pid, number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
