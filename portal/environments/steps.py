"""The commands that make an environment, and what their failures mean in a line. Pure.

Whatever somebody chose is an argument behind ``--`` or behind an option with ``=``: it is never read as an option.
Checked with Python 3.11's venv, pip 23.2 and 26.3, and uv 0.13; conda and mamba by their manuals alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from portal.environments.order import OF_CONDA, EnvironmentOrder, Tool
from portal.errors import printable

LONGEST = 300
LOG_READ_BYTES = 200_000
# pip's answer would else be put where these say, or taken from the person's other packages.
NOT_HANDED_ON = (
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_USER",
    "PIP_ROOT",
    "PYTHONHOME",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
)
_PIP = ("--no-input", "--disable-pip-version-check", "--progress-bar=off", "--retries=2", "--timeout=15")
SITE_OF_BASE = "import json, site; print(json.dumps(site.getsitepackages()))"
HAS_KERNEL = "import ipykernel"
HAS_PIP = "import pip"
HAS_ENSUREPIP = "import ensurepip"
SEEN = "packages-of-the-modules.pth"


def create_command(order: EnvironmentOrder, path: str, tool: str, python: str, *, with_pip: bool = True) -> list[str]:
    """The command line that makes an empty environment at ``path``.

    Arguments:
        tool: the whole path of uv, conda or mamba; of venv it is ``python`` itself.
        python: the whole path of the Python that it is made of; conda brings its own.
        with_pip: whether venv may use ensurepip, which some distributions leave out.
    """
    if order.tool is Tool.VENV:
        return [python, "-I", "-m", "venv", f"--prompt={order.name}", *([] if with_pip else ["--without-pip"]), path]
    if order.tool is Tool.UV:
        return [tool, "venv", "--seed", f"--python={python}", f"--prompt={order.name}", path]
    version = f"python={order.python}" if order.python else "python"
    return [tool, "create", "--yes", "--quiet", "--prefix", path, version, "pip", "ipykernel"]


def pip_command(order: EnvironmentOrder, path: str, tool: str, packages: Sequence[str]) -> list[str]:
    """The command line that installs packages into the environment at ``path``."""
    python = f"{path}/bin/python"
    if order.tool is Tool.UV:
        return [tool, "pip", "install", f"--python={python}", "--no-progress", "--", *packages]
    return [python, "-I", "-m", "pip", "install", *_PIP, "--", *packages]


def pip_from_outside(python: str, path: str) -> list[str]:
    """The command line by which a Python's own pip puts pip into an environment that has none (pip 22.3)."""
    return [python, "-I", "-m", "pip", f"--python={path}/bin/python", "install", *_PIP, "--", "pip"]


def ask_command(python: str, program: str) -> list[str]:
    """The command line by which a Python runs a constant line of ours, with nothing of the person's before it."""
    return [python, "-I", "-c", program]


def seen_packages(folders: Sequence[str]) -> str:
    """The text of a ``.pth`` file that shows an environment the packages of its modules, behind its own (site)."""
    return "".join(f"import site; site.addsitedir({folder!r})\n" for folder in folders)


def environ_for(environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` for the commands: what would lead a package elsewhere is left out."""
    kept = {name: value for name, value in environ.items() if name not in NOT_HANDED_ON}
    return kept | {"PYTHONNOUSERSITE": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def needs_tool(order: EnvironmentOrder) -> bool:
    """Whether a program beside Python makes it."""
    return order.tool is Tool.UV or order.tool in OF_CONDA


_CAUSES = (  # what is in a log, and what that means; the first one counts
    (r"No space left on device|\[Errno 28\]", "there is no room left on the disk: remove what you do not need"),
    (r"Disk quota exceeded|\[Errno 122\]", "your quota is full: remove what you do not need, or ask for more"),
    (
        r"Failed to establish a new connection|Max retries exceeded|NewConnectionError|Temporary failure in name resol"
        r"|CondaHTTPError|CONNECTION FAILED|error sending request|ProxyError",
        "no package index can be reached from this node: your administrator knows its mirror, for `pip config set`",
    ),
)
_FAULT = re.compile(r"^(?:ERROR|error|[A-Za-z]*Error|CondaError|PackagesNotFoundError):\s*(\S.*)$", re.MULTILINE)
_OF_UV = re.compile(r"^\s*(?:×|╰─▶|cause:)\s*(\S.*)$", re.MULTILINE)
_VERSIONS = re.compile(r"\(from versions: ([^)]*,[^)]*)\)")
VERSIONS_SHOWN = 3
_VAGUE = ("subprocess-exited-with-error", "metadata-generation-failed", "Exception:", "No solution found")


def fault_words(program: str, log: str) -> str:
    """Why a command failed, in a line: a cause that is known, and what the command said itself."""
    said = _said(log)
    cause = next((words for pattern, words in _CAUSES if re.search(pattern, log)), "")
    words = f"{cause} ({program} said: {said})" if cause else f"{program} said: {said}"
    return printable(words if len(words) <= LONGEST else f"{words[: LONGEST - 1]}…")


def _shortened(found: re.Match[str]) -> str:
    """Of the versions that there are the newest ones: pip names all of them, the oldest first."""
    newest = found[1].split(", ")[-VERSIONS_SHOWN:]
    return f"(the newest ones are {', '.join(newest)})"


def _said(log: str) -> str:
    """What a command said about its failure: the first plain error, else its last line."""
    log = _VERSIONS.sub(_shortened, log)
    found = [*_FAULT.findall(log), *_OF_UV.findall(log)]
    faults = [fault.strip() for fault in found if not fault.startswith(_VAGUE)]
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return faults[0] if faults else lines[-1] if lines else "nothing"
