"""``service_control stop|start|restart|status NAME``, run inside as root: one daemon (the verb `demo service`)."""

from __future__ import annotations

import sys

from deploy.demo import portal_service, services
from deploy.demo.console import guarded
from deploy.demo.services import SERVICES


def control(action: str, name: str) -> int:
    """Do it and print whether the daemon runs; status 3 when it does not and was not to be stopped."""
    SERVICES["hub"] = portal_service.service()
    if name not in SERVICES:
        print(f"no service {name!r}; there are: {', '.join(SERVICES)}", file=sys.stderr)
        return 2
    service = SERVICES[name]
    if action in ("stop", "restart"):
        services.stop_all([service], within_s=10)
    if action in ("start", "restart") and not services.pid_of(service):
        services.up(name)
    pid = services.pid_of(service)
    print(f"{name}: {f'runs as process {pid}' if pid else 'does not run'}")
    return 0 if pid or action == "stop" else 3


if __name__ == "__main__":
    sys.exit(guarded(lambda: control(*sys.argv[1:])))
