"""Bring what the ring needs of OpenID Connect, by its lock files: the provider (npm) and the authenticator (PyPI)."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from deploy.environments import portal_venv
from deploy.environments.wheels import BuildError

HERE = Path(__file__).resolve().parent
TARGET = portal_venv.VENV / "share" / "dsportal" / "oidc"
LOCK = HERE / "oidc.lock"


def authenticator() -> None:
    """Into a folder of its own: the portal's environment stays what its lock files say."""
    place = TARGET / "python"
    shutil.rmtree(place, ignore_errors=True)
    pip = [*portal_venv.find_pip(), "--python", str(portal_venv.VENV / "bin" / "python"), "install"]
    options = ["--disable-pip-version-check", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
    portal_venv.call([*pip, *options, "--target", str(place), "-r", str(LOCK)])


def main() -> int:
    """Both steps; what is there already stays."""
    try:
        with portal_venv.alone():
            portal_venv.step("oidc-provider", [HERE / "package-lock.json"], portal_venv.npm_ci(HERE, TARGET))
            portal_venv.step("oidc.lock", [LOCK], authenticator)
    except BuildError as error:
        print(f"directories: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
