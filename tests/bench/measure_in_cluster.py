"""``measure_in_cluster BENCH OPTIONS``, as root in the private cluster: prints the figures as one JSON object."""

from __future__ import annotations

import json
import sys
from argparse import Namespace

from tests.bench import boards_opened, browser, cluster_setup, kernel_starts, queries, restart, spawn, storm
from tests.bench.compared_hubs import cores
from tests.bench.training import comparison

MEASURES = {
    "queries": queries.run,
    "spawn": spawn.run,
    "browser": browser.run,
    "storm": storm.run,
    "kernels": kernel_starts.run,
    "tensorboard": boards_opened.run,
    "restart": restart.run,
    "training": comparison.run,
}


def main() -> int:
    """Run one bench; 1 when it could not be measured."""
    name = sys.argv[1]
    options = json.loads(sys.argv[2])
    try:
        figures = MEASURES[name](Namespace(**{"only": "", **options}))
    except (RuntimeError, OSError, ExceptionGroup) as error:
        inner = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
        cluster_setup.say(f"this could not be measured: {inner}")
        return 1
    except KeyboardInterrupt:
        return 130
    json.dump({"bench": name, "options": options, "cores": cores(), **figures}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
