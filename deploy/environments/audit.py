"""What the portal is made of, and whether something is known against it: what `make audit` calls.

Known vulnerabilities (pip-audit, npm audit), licences (pip-licenses, npm's locks) and the list of all parts (an SBOM in
CycloneDX's form) of the portal's own environment; of the web tools' environments, Dask's and Ray's all but that list.
The tools that look have an environment of their own. What could not be asked is said: a machine without a way to the
registries' advisories learns nothing about vulnerabilities, and the licences of an environment are told where it is
built.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.demo import state_folder
from deploy.demo.console import DemoError, say
from deploy.environments import node_packages, portal_venv
from deploy.environments.portal_venv import CHECKOUT, LOCKS, STATE, STORE, VENV
from deploy.environments.recipes import ENVIRONMENTS
from deploy.environments.wheels import BuildError, Pip

TOOLS = STATE / "cache" / "audit"
LOCK = LOCKS / "audit.lock"
PORTAL_LOCKS = (LOCKS / "portal.lock", *(LOCKS / f"{name}.lock" for name in portal_venv.DATABASES))
NODE_PARTS = {"proxy": CHECKOUT / "deploy" / "proxy", "Lab extension": CHECKOUT / "templates" / "lab"}
OF_TOOLS = ("mlflow", "dask", "ray", "code-server", "image-trainer")
CM = STATE / "cm"
NODE_LOCKS = ("npm-shrinkwrap.json", "package-lock.json")  # npm takes the first that there is
SBOM = CHECKOUT / "dist" / "sbom.cdx.json"
MIT_TEXT = "Permission is hereby granted, free of charge"  # where it stands in the place of its name
ALLOWED = (  # parts of the names that packages give their licences
    "MIT",
    "BSD",
    "Apache",
    "ISC",
    "PSF",
    "Python Software Foundation",
    "MPL",
    "LGPL",
    "BlueOak",
    "Unlicense",
    MIT_TEXT,
)
WITHIN_S = 600
NOT_TOLD = "not told"  # nobody could be asked
NOT_BUILT = f"{NOT_TOLD}: it is not built here (make environments ALL=1)"
Told = tuple[list[str], str]  # what is known against a part, and what to say of it in words


def tools() -> None:
    """Make the tools' environment, unless it is there as locked."""
    stamp = TOOLS / ".lock"
    if stamp.is_file() and stamp.read_text() == LOCK.read_text():
        return
    portal_venv.call([sys.executable, "-I", "-m", "venv", "--without-pip", "--clear", str(TOOLS)])
    scratch = STATE / "cache" / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    pip = Pip(portal_venv.find_pip(), TOOLS / "bin" / "python", scratch, say)
    pip.fetch(LOCK.read_text(), STORE)
    pip.install(LOCK, STORE)
    stamp.write_text(LOCK.read_text())


def output(argv: Sequence[str], cwd: Path = CHECKOUT) -> tuple[int, str, str]:
    """Exit status, output and errors of a tool."""
    done = subprocess.run(
        argv, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    return done.returncode, done.stdout, done.stderr


def json_of(text: str) -> Any:
    """What a tool printed as JSON; ``None`` when it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return None


@dataclass(frozen=True)
class PythonPart:
    """Python packages out of locks, and the Python of the environment that they are in."""

    locks: tuple[Path, ...]
    python: Path


def python_parts() -> dict[str, PythonPart]:
    """The portal's own environment and those of the tools, by name."""
    tools = (ENVIRONMENTS[name] for name in OF_TOOLS)
    parts = {one.title: PythonPart((one.lock,), one.folder(CM) / "bin" / "python") for one in tools}
    return {"Python": PythonPart(PORTAL_LOCKS, VENV / "bin" / "python"), **parts}


def node_parts() -> dict[str, Path]:
    """The folders with locks of npm, by name; those within a tool's package are known where it is built."""
    parts = dict(NODE_PARTS)
    for one in (ENVIRONMENTS[name] for name in OF_TOOLS if ENVIRONMENTS[name].is_of_npm):
        built = one.folder(CM) / "node"
        parts[f"{one.title}, npm"] = built if built.is_dir() else one.lock.with_suffix("")
        parts |= {f"{one.title}, {part.name}": built / part for part in node_packages.PARTS}
    return parts


def python_vulnerabilities(locks: Sequence[Path]) -> Told:
    """Known vulnerabilities of the locked Python packages, and in words how many could be asked about."""
    argv = [str(TOOLS / "bin" / "pip-audit"), "--no-deps", "--disable-pip", "--progress-spinner=off", "--format=json"]
    _, printed, errors = output([*argv, *(word for lock in locks for word in ("-r", str(lock)))])
    return told_by_pip_audit(json_of(printed), errors)


def told_by_pip_audit(found: Any, errors: str) -> Told:
    """What pip-audit found, out of its JSON."""
    if found is None:
        return [], f"{NOT_TOLD}: {last_line(errors)}"
    packages = found["dependencies"]
    asked = [one for one in packages if "skip_reason" not in one]
    known = [f"{one['name']} {one['version']}: {fault['id']}" for one in asked for fault in one["vulns"]]
    if not asked:
        return [], f"{NOT_TOLD}: no advisories can be had here for any of {len(packages)} packages"
    return known, f"{len(known)} known in {len(asked)} of {len(packages)} packages; the others could not be asked about"


def node_vulnerabilities(folder: Path) -> Told:
    """Known vulnerabilities of what a lock of npm names for use, not for building."""
    if not folder.is_dir():
        return [], NOT_BUILT
    npm = ["env", "NODE_DISABLE_COMPILE_CACHE=1", str(VENV / "bin" / "npm")]  # else code from a known name in /tmp
    _, printed, _ = output([*npm, "audit", "--json", "--omit=dev", "--package-lock-only"], folder)
    return told_by_npm(json_of(printed))


def told_by_npm(found: Any) -> Told:
    """What npm found, out of its JSON."""
    if not isinstance(found, dict) or "vulnerabilities" not in found:
        return [], f"{NOT_TOLD}: no advisories can be had here"
    known = [f"{name}: {fault['severity']}" for name, fault in found["vulnerabilities"].items()]
    return known, f"{len(known)} known"


def python_licences(part: PythonPart) -> Told:
    """The packages whose licence is none of :data:`ALLOWED`, and the licences in words."""
    if not part.python.exists():
        return [], NOT_BUILT
    names = [name for lock in part.locks for name in re.findall(r"(?m)^([A-Za-z0-9._-]+)==", lock.read_text())]
    argv = [str(TOOLS / "bin" / "pip-licenses"), "--python", str(part.python), "--from=mixed", "--format=json"]
    argv += ["--with-license-file", "--no-license-path", "--with-system", "--packages", *names]
    status, printed, errors = output(argv)
    found = json_of(printed)
    if status or found is None:
        raise BuildError(f"pip-licenses: {last_line(errors)}")
    return told_by_pip_licenses(found)


def told_by_pip_licenses(found: Sequence[Mapping[str, str]]) -> Told:
    """What pip-licenses found, out of its JSON; where a name is missing the text may be MIT's."""
    others = [
        f"{one['Name']}: {one['License'][:60]!r}"
        for one in found
        if not is_allowed(one["License"]) and MIT_TEXT not in " ".join(one.get("LicenseText", "").split())
    ]
    return others, f"{len(found)} packages, {len(others)} to look at"


def node_licences(folder: Path) -> Told:
    """The same of what a lock of npm names for use; a licence that it does not name stands beside the package."""
    if not folder.is_dir():
        return [], NOT_BUILT
    lock = next(file for name in NODE_LOCKS if (file := folder / name).is_file())
    packages = json.loads(lock.read_text())["packages"]
    used = {name: found for name, found in packages.items() if name and not found.get("dev")}
    told = {name: str(found.get("license") or _beside(folder / name) or "") for name, found in used.items()}
    others = [f"{name}: {licence!r}" for name, licence in told.items() if licence and not is_allowed(licence)]
    missing = sum(not licence for licence in told.values())
    words = f"; {missing} do not say it in the lock, and are not installed here" if missing else ""
    return others, f"{len(told)} packages, {len(others)} to look at{words}"


def _beside(package: Path) -> object:
    """The licence that a package of npm states itself, where it is installed."""
    file = package / "package.json"
    stated = json.loads(file.read_text()) if file.is_file() else {}
    return stated.get("license") or stated.get("licenses")


def is_allowed(licence: str) -> bool:
    """Whether a licence is one of those that the portal may stand on."""
    return any(name in licence.replace("Lesser General Public", "LGPL") for name in ALLOWED)


def sbom() -> str:
    """Write the list of all parts; answers what it holds, in words."""
    SBOM.parent.mkdir(exist_ok=True)
    argv = [str(TOOLS / "bin" / "cyclonedx-py"), "environment", "--output-reproducible", "-o", str(SBOM)]
    status, _, errors = output([*argv, str(VENV / "bin" / "python")])
    if status:
        raise BuildError(f"cyclonedx-py: {last_line(errors)}")
    parts = json.loads(SBOM.read_text())["components"]
    return f"{len(parts)} Python packages in {SBOM.relative_to(CHECKOUT)}; Node's are in their package-lock.json"


def last_line(text: str) -> str:
    """The last line that is not empty."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no word")


def main() -> int:
    """Look, and tell; 1 when something is known against a part."""
    state_folder.chosen(None)  # what looks lies there
    if not (VENV / "bin" / "python").exists():
        raise DemoError("the portal's environment is missing: run 'make setup' first")
    tools()
    looks = {f"vulnerabilities, {name}": python_vulnerabilities(part.locks) for name, part in python_parts().items()}
    looks |= {f"vulnerabilities, {name}": node_vulnerabilities(folder) for name, folder in node_parts().items()}
    looks |= {f"licences, {name}": python_licences(part) for name, part in python_parts().items()}
    looks |= {f"licences, {name}": node_licences(folder) for name, folder in node_parts().items()}
    for what, (found, words) in looks.items():
        say(f"{what}: {words}")
        for line in found:
            say(f"    {line}")
    say(f"SBOM: {sbom()}")
    return int(any(found for found, _ in looks.values()))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (BuildError, DemoError) as error:
        sys.exit(f"audit: {error}")
