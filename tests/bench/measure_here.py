"""The benches that need no cluster: each measures in this very process."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Mapping

from tests.bench import forecasts, form_cost
from tests.bench.compared_hubs import cores

MEASURES = {"form": form_cost.run, "forecasts": forecasts.run}


def measured(name: str, options: Mapping[str, int | str]) -> str:
    """The figures as one JSON object."""
    figures = MEASURES[name](Namespace(**{"only": "", **options}))
    return json.dumps({"bench": name, "options": dict(options), "cores": cores(), **figures})
