"""Can this machine run the private cluster? The facts are gathered in one place, the decision is pure."""

from __future__ import annotations

import os
import platform
import pwd
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from deploy.demo.releases import RELEASES, Release

RELEASE_FILE = Path("/etc/os-release")
CHECKOUT = Path(__file__).resolve().parents[2]
TOOLS = {
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "mount": "mount",
    "pivot_root": "util-linux",
    "dpkg-deb": "dpkg",
    "apt-get": "apt",
    "tar": "tar",
}
ROOT_UNSHARE = ["unshare", "--mount", "--pid", "--net", "--ipc", "--uts", "--cgroup", "--fork", "--kill-child"]
ROOTLESS_UNSHARE = ["unshare", "--user", "--map-root-user", "--map-auto", *ROOT_UNSHARE[1:]]
SUBIDS = 65536
APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")


@dataclass(frozen=True)
class Facts:
    """What was seen on the machine."""

    system: str  # ID of /etc/os-release
    version: str
    machine: str
    user: str
    is_root: bool
    missing_tools: tuple[str, ...]
    has_newuidmap: bool
    subuids: int  # the largest range that /etc/subuid and /etc/subgid both give
    probe: str  # what unshare said when it failed; "" = namespaces can be made
    python: str = "/usr/bin"  # where the Python is that the portal's environment is made of
    venv_python: str = ""  # its version, as 3.11
    apparmor: bool = False  # whether AppArmor keeps ordinary users from them, as on Ubuntu 24.04


def reason(facts: Facts, variant: str, debian: str) -> str | None:
    """Why the private cluster of a Debian cannot run here, with how to get what is missing; None when it can."""
    if words := release_fault(facts, RELEASES[debian]):
        return words
    if facts.machine != "x86_64":
        return f"the demo cluster's packages are pinned for x86_64, and this machine is {facts.machine}"
    if facts.missing_tools:
        packages = sorted({TOOLS[tool] for tool in facts.missing_tools})
        return f"{' and '.join(facts.missing_tools)} missing: sudo apt install {' '.join(packages)}"
    if not Path(facts.python).is_relative_to("/usr"):
        return f"the cluster does not see the portal's Python in {facts.python}: make setup PYTHON=/usr/bin/python3"
    if variant == "rootless" and not facts.has_newuidmap:
        return "newuidmap is missing, which gives the cluster's accounts their ids: sudo apt install uidmap"
    if variant == "rootless" and facts.subuids < SUBIDS:
        ranges = f"--add-subuids 200000-265535 --add-subgids 200000-265535 {facts.user}"
        return f"{facts.user} has no range of {SUBIDS} subordinate ids: sudo usermod {ranges}"
    if variant == "root" and not facts.is_root:
        return "the variant 'root' was asked for, and this is not root: leave --variant out"
    if facts.probe:
        return f"no namespaces can be made here ({facts.probe}): {permission_hint(facts)}"
    return None


def release_fault(facts: Facts, release: Release) -> str:
    """Why a cluster of this release cannot be made on this system; '' when it can."""
    if facts.system != "debian":
        made_of = " or ".join(RELEASES)
        return (
            f"the demo cluster is made of the packages of Debian {made_of}, and this is {facts.system} {facts.version}"
        )
    if facts.version == release.version:
        return ""
    if not release.is_whole:
        return f"a cluster of Debian {release.version} starts on Debian {release.version}, and this is {facts.version}"
    if facts.venv_python and facts.venv_python != release.python:
        return (
            f"the portal's environment is of Python {facts.venv_python}, and Debian {release.version} has "
            f"{release.python}: DSPORTAL_VENV names another (make test-debian builds one)"
        )
    return ""


def permission_hint(facts: Facts) -> str:
    """What may help where the kernel refuses namespaces."""
    if facts.is_root:
        return "in a container, start it with --privileged"
    if facts.apparmor:
        return "an administrator can allow them (sysctl kernel.apparmor_restrict_unprivileged_userns=0)"
    return "an administrator can allow them (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone=1)"


def gather(variant: str) -> Facts:
    """Gather the facts of this machine. The probe makes namespaces for a moment."""
    release = release_of_host()
    venv = Path(os.environ.get("DSPORTAL_VENV") or CHECKOUT / ".venv")
    user = name_of(os.geteuid())
    missing = tuple(tool for tool in TOOLS if shutil.which(tool) is None)
    return Facts(
        system=release.get("ID", "unknown"),
        version=release.get("VERSION_ID", ""),
        machine=platform.machine(),
        user=user,
        is_root=os.geteuid() == 0,
        missing_tools=missing,
        has_newuidmap=shutil.which("newuidmap") is not None,
        subuids=min(subids(user, Path("/etc/subuid")), subids(user, Path("/etc/subgid"))),
        probe="" if missing else probe(variant),
        python=home_of_python(venv),
        venv_python=version_of_python(venv),
        apparmor=APPARMOR.exists() and APPARMOR.read_text().strip() == "1",
    )


def release_of_host() -> dict[str, str]:
    """What the machine says that it is."""
    return os_release(RELEASE_FILE.read_text() if RELEASE_FILE.exists() else "")


def debian_of_host() -> str:
    """The number of the machine's Debian; '' for anything else."""
    release = release_of_host()
    return release.get("VERSION_ID", "") if release.get("ID") == "debian" else ""


def name_of(account: int) -> str:
    """An account's name; its number where the machine knows no name for it, as in a container."""
    try:
        return pwd.getpwuid(account).pw_name
    except KeyError:
        return str(account)


def home_of_python(venv: Path) -> str:
    """The folder of the Python that an environment is made of, all links followed; the system's where there is none."""
    config = venv / "pyvenv.cfg"
    found = re.search(r"^home = (.+)$", config.read_text(), re.MULTILINE) if config.is_file() else None
    return str(Path(found[1]).resolve()) if found else "/usr/bin"


def version_of_python(venv: Path) -> str:
    """The version of the Python that an environment is made of, as 3.11; '' where there is none."""
    config = venv / "pyvenv.cfg"
    found = re.search(r"^version = (\d+\.\d+)", config.read_text(), re.MULTILINE) if config.is_file() else None
    return found[1] if found else ""


def search_path() -> str:
    """The PATH with the folders of administrators' tools, which ordinary users lack."""
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/bin:/bin"


def os_release(text: str) -> dict[str, str]:
    """Read /etc/os-release."""
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {key: value.strip("\"'") for key, value in pairs}


def subids(user: str, file: Path) -> int:
    """The largest range of subordinate ids that a file gives to ``user``."""
    lines = file.read_text().splitlines() if file.exists() else []
    ranges = [line.split(":") for line in lines]
    names = {user, str(os.geteuid())}
    return max((int(fields[2]) for fields in ranges if len(fields) == 3 and fields[0] in names), default=0)


def probe(variant: str) -> str:
    """Make the namespaces for a moment; what unshare says when it cannot."""
    command = ROOT_UNSHARE if variant == "root" else ROOTLESS_UNSHARE
    done = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    words = done.stderr.strip().splitlines() or [f"{command[0]} ended with status {done.returncode}"]
    return "" if done.returncode == 0 else words[-1]
