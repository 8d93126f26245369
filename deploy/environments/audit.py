"""What the portal is made of, and whether something is known against it: what `make audit` calls.

Known vulnerabilities (pip-audit, npm audit), licences (pip-licenses) and the list of all parts (an SBOM in CycloneDX's
form) of the portal's own environment. The tools have an environment of their own. What could not be asked is said: a
machine without a way to the registries' advisories learns nothing about vulnerabilities.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deploy.demo.console import DemoError, say
from deploy.environments import portal_venv
from deploy.environments.portal_venv import CHECKOUT, LOCKS, STATE, STORE, VENV
from deploy.environments.wheels import BuildError, Pip

TOOLS = STATE / "cache" / "audit"
LOCK = LOCKS / "audit.lock"
PORTAL_LOCKS = (LOCKS / "portal.lock", *(LOCKS / f"{name}.lock" for name in portal_venv.DATABASES))
NODE_PARTS = {"proxy": CHECKOUT / "deploy" / "proxy", "Lab extension": CHECKOUT / "templates" / "lab"}
SBOM = CHECKOUT / "dist" / "sbom.cdx.json"
ALLOWED = (  # parts of the names that packages give their licences
    "MIT",
    "BSD",
    "Apache",
    "ISC",
    "PSF",
    "Python Software Foundation",
    "MPL",
    "LGPL",
    "Permission is hereby granted, free of charge",  # the text of MIT's in the place of its name
)
WITHIN_S = 600
NOT_TOLD = "not told"  # nobody could be asked


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


def python_vulnerabilities() -> tuple[list[str], str]:
    """Known vulnerabilities of the locked Python packages, and in words how many could be asked about."""
    argv = [str(TOOLS / "bin" / "pip-audit"), "--no-deps", "--disable-pip", "--progress-spinner=off", "--format=json"]
    _, printed, errors = output([*argv, *(word for lock in PORTAL_LOCKS for word in ("-r", str(lock)))])
    return told_by_pip_audit(json_of(printed), errors)


def told_by_pip_audit(found: Any, errors: str) -> tuple[list[str], str]:
    """What pip-audit found, out of its JSON."""
    if found is None:
        return [], f"{NOT_TOLD}: {last_line(errors)}"
    packages = found["dependencies"]
    asked = [one for one in packages if "skip_reason" not in one]
    known = [f"{one['name']} {one['version']}: {fault['id']}" for one in asked for fault in one["vulns"]]
    if not asked:
        return [], f"{NOT_TOLD}: no advisories can be had here for any of {len(packages)} packages"
    return known, f"{len(known)} known in {len(asked)} of {len(packages)} packages; the others could not be asked about"


def node_vulnerabilities(folder: Path) -> tuple[list[str], str]:
    """Known vulnerabilities of what a ``package-lock.json`` names for use, not for building."""
    argv = [str(VENV / "bin" / "npm"), "audit", "--json", "--omit=dev", "--package-lock-only"]
    _, printed, _ = output(argv, folder)
    return told_by_npm(json_of(printed))


def told_by_npm(found: Any) -> tuple[list[str], str]:
    """What npm found, out of its JSON."""
    if not isinstance(found, dict) or "vulnerabilities" not in found:
        return [], f"{NOT_TOLD}: no advisories can be had here"
    known = [f"{name}: {fault['severity']}" for name, fault in found["vulnerabilities"].items()]
    return known, f"{len(known)} known"


def licences() -> tuple[list[str], str]:
    """The packages whose licence is none of :data:`ALLOWED`, and the licences in words."""
    names = [name for lock in PORTAL_LOCKS for name in re.findall(r"(?m)^([A-Za-z0-9._-]+)==", lock.read_text())]
    argv = [
        str(TOOLS / "bin" / "pip-licenses"),
        "--python",
        str(VENV / "bin" / "python"),
        "--from=mixed",
        "--format=json",
    ]
    status, printed, errors = output([*argv, "--with-system", "--packages", *names])
    found = json_of(printed)
    if status or found is None:
        raise BuildError(f"pip-licenses: {last_line(errors)}")
    others = [f"{one['Name']}: {one['License'][:60]!r}" for one in found if not is_allowed(one["License"])]
    return others, f"{len(found)} packages, {len(others)} to look at"


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
    if not (VENV / "bin" / "python").exists():
        raise DemoError("the portal's environment is missing: run 'make setup' first")
    tools()
    looks = {"Python": python_vulnerabilities()}
    looks |= {name: node_vulnerabilities(folder) for name, folder in NODE_PARTS.items()}
    looks |= {"licences": licences()}
    for what, (found, words) in looks.items():
        say(f"{'vulnerabilities, ' if what != 'licences' else ''}{what}: {words}")
        for line in found:
            say(f"    {line}")
    say(f"SBOM: {sbom()}")
    return int(any(found for found, _ in looks.values()))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (BuildError, DemoError) as error:
        sys.exit(f"audit: {error}")
