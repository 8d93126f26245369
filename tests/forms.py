"""The two forms of the tests: the short one, which `make test` runs, and the long one of rings that are named.

A test of the long form alone has the mark ``long``: what it shows on one more page, browser address or way of ending,
another test of the short form shows on the first. ``tests/run.py --long RING`` runs a ring with all of them.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

LONG = os.environ.get("DSPORTAL_FORM") == "long"


def of_long_form(*values: object) -> Any:  # pytest has no public name for it
    """The values of a test's parameters with which it is of the long form alone."""
    return pytest.param(*values, marks=pytest.mark.long)
