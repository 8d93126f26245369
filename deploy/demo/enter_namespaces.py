"""Enter a running demo: the command line of nsenter, and (run inside) the switch to an account.

``enter_namespaces ACCOUNT FOLDER COMMAND…`` is what nsenter starts; it becomes the command.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import shlex
import signal
import subprocess
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from deploy import run_module
from deploy.demo.parent_death import ended_by, signal_at_parents_end
from deploy.demo.services import PATH
from deploy.demo.state_folder import Run

# What belongs to the caller's login outside, and would mislead inside.
DROPPED = ("XDG_", "DBUS_", "SSH_", "SUDO_", "LD_", "TMPDIR", "MAIL", "VIRTUAL_ENV", "OLDPWD")
# All that people have of it: whoever logs in to the demo as somebody reads what that person's processes have (proc(5)).
OF_PEOPLE = ("TERM", "COLORTERM", "NO_COLOR", "COLUMNS", "LINES", "LC_ALL", "LC_CTYPE", "DSPORTAL_CLUSTER")


def command(run: Run, arguments: list[str]) -> list[str]:
    """The argv that runs this module with ``arguments`` inside a running demo, as namespace root."""
    user = ["--user", "--setuid", "0", "--setgid", "0"] if run.variant == "rootless" else []
    spaces = ["--mount", "--pid", "--net", "--ipc", "--uts", "--cgroup", "--root", "--wd"]
    module = run_module.command("deploy.demo.enter_namespaces")
    return ["nsenter", "--target", str(run.init_pid), *user, *spaces, *module, *arguments]


def on_no_terminal_of_ours(argv: list[str]) -> list[str]:
    """The argv of a command that neither reads nor writes the caller's terminal itself, nor has it for its own.

    Whoever logs in to the demo as that person may take hold of the process. To be called right before it is started.
    """
    for number in (int(file.name) for file in Path("/proc/self/fd").iterdir()):
        with suppress(OSError):  # that of the listing
            os.set_inheritable(number, number < 3)
    terminals = [number for number in range(3) if os.isatty(number)]
    if len(terminals) == 3:
        return ["script", "-qec", shlex.join(argv), os.devnull]
    for number in terminals:
        _part_from(number)
    if os.getsid(0) == os.getpid():  # whoever leads a session would end all of it with that
        sys.exit(subprocess.run(argv, preexec_fn=_apart_from(os.getpid()), check=False).returncode)
    _leave_terminal()
    return argv


def _apart_from(starter: int) -> Callable[[], None]:
    """What ``preexec_fn`` runs for a command that leaves the terminal of ``starter``, and ends with it."""
    ends = ended_by(starter)

    def set_up() -> None:
        ends()
        _leave_terminal()

    return set_up


def _leave_terminal() -> None:
    with suppress(OSError), open("/dev/tty") as terminal:  # noqa: PTH123  a device
        fcntl.ioctl(terminal, termios.TIOCNOTTY)


def _part_from(terminal: int) -> None:
    """Have a process of ours write what comes for a terminal, one of the first three; nothing is read from it."""
    if terminal == 0:
        other = os.open(os.devnull, os.O_RDONLY)
    else:
        reading, other = os.pipe()
        subprocess.Popen(["cat"], stdin=reading, stdout=terminal)
        os.close(reading)
    os.dup2(other, terminal)
    os.close(other)


def environment(account: pwd.struct_passwd, variables: dict[str, str]) -> dict[str, str]:
    """The caller's environment, with what an account changes: all of it for root, a terminal's kind for people."""
    told = {key: value for key, value in variables.items() if not account.pw_uid or key in OF_PEOPLE}
    kept = {key: value for key, value in told.items() if not key.startswith(DROPPED)}
    name = account.pw_name
    home = account.pw_dir
    shell = account.pw_shell
    return {**kept, "PATH": PATH, "HOME": home, "USER": name, "LOGNAME": name, "SHELL": shell, "LANG": "C.UTF-8"}


def become(account: pwd.struct_passwd) -> None:
    """Take on an account, and die with the nsenter that started us."""
    if account.pw_uid:
        os.initgroups(account.pw_name, account.pw_gid)
        os.setgid(account.pw_gid)
        os.setuid(account.pw_uid)
    signal_at_parents_end(signal.SIGKILL)


def main(arguments: list[str]) -> None:
    """Become the account and then the command."""
    user, folder, *rest = arguments
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        sys.exit(f"no account {user!r} inside; people: getent passwd, or see what the demo printed at its start")
    become(account)
    try:
        os.chdir(folder or account.pw_dir)
    except OSError:
        os.chdir("/")
    variables = environment(account, dict(os.environ))
    try:
        os.execvpe(rest[0], rest, variables)  # noqa: S606
    except OSError as error:
        print(f"{rest[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)


if __name__ == "__main__":
    main(sys.argv[1:])
