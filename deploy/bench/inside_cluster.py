"""`inside_cluster.py BENCH OPTIONS`, as root in the private cluster: figures as one JSON object on standard output."""

from __future__ import annotations

import json
import sys
from argparse import Namespace

import ground
import queries
import restart
import spawn
import storm
from hubs import cores
from training import compare

BENCHES = {
    "queries": queries.run,
    "spawn": spawn.run,
    "storm": storm.run,
    "restart": restart.run,
    "training": compare.run,
}


def main() -> int:
    """Run one bench; 1 when it could not be measured."""
    name, options = sys.argv[1], json.loads(sys.argv[2])
    try:
        figures = BENCHES[name](Namespace(**options))
    except (RuntimeError, OSError, ExceptionGroup) as error:
        inner = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
        ground.say(f"this could not be measured: {inner}")
        return 1
    except KeyboardInterrupt:
        return 130
    json.dump({"bench": name, "options": options, "cores": cores(), **figures}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
