"""The portal inside the demo: its kernels, then the hub as its own account."""

from __future__ import annotations

import subprocess
import urllib.request
from pathlib import Path
from urllib.error import URLError

from deploy.demo import services
from deploy.demo.console import DemoError
from deploy.demo.services import Service

SETTINGS = "/etc/dsportal/site.toml"
VENV = Path("/run/demo/venv")  # where the portal's environment is
HEALTH = "http://127.0.0.1:8000/hub/health"


def command() -> str:
    """The portal's command. Raises ``DemoError`` when the environment is not there."""
    portal = f"{VENV.read_text()}/bin/portal"
    if not Path(portal).exists():
        raise DemoError(f"{portal} is missing: run 'make setup' first")
    return portal


def sync_kernels() -> str:
    """Write the kernelspecs of the site's modules, as root; which are missing, '' when all are there.

    A kernel that cannot be made does not stop the portal.
    """
    log = services.LOGS / "kernels.log"
    with log.open("wb") as stream:
        argv = [command(), "kernels", "sync", "--site", SETTINGS]
        done = subprocess.run(argv, stdout=stream, stderr=stream, stdin=subprocess.DEVNULL, check=False)
    if done.returncode == 0:
        return ""
    return (
        f"Not all kernels are there ('portal kernels sync' ended with status {done.returncode}).\n{services.tail(log)}"
    )


def service() -> Service:
    """The hub, as the account ``portal``; the proxy that it starts outlives it, and ends with the namespaces."""
    return Service("hub", (command(), "up", "--site", SETTINGS), is_healthy, "portal")


def start() -> None:
    """Start the hub and wait until it answers."""
    services.SERVICES["hub"] = service()
    services.up("hub")


def is_healthy() -> bool:
    """Whether the hub answers through its proxy."""
    try:
        with urllib.request.urlopen(HEALTH, timeout=2) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False
