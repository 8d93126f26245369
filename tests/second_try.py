"""A ring's pytest run, and then the modules of those few of its tests that failed once more, by themselves.

Of ten thousand tests with real clusters and browsers one fails when the machine stands still for some seconds, and none
when it does not. Their whole modules run again: what fails by what ran before it is no chance, and fails again.
`make test` names each that only passed at the second try, with what was wrong at the first, and fails where there are
more of them than :data:`MOST`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import pytest

MOST = 2
REPORT = "--junitxml="
MODULES = "DSPORTAL_SECOND_TRY"  # those that run once more, for who keeps what the first try found


class Failures:
    """Hears which tests failed, or could not be set up or taken down."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One step of a test has ended."""
        if report.failed:
            self.names.add(report.nodeid)


def main(argv: Sequence[str]) -> int:
    """Run pytest; ``argv`` is a folder and options, the report among them. Answers its exit status."""
    failures = Failures()
    folder, *options = argv
    status = pytest.main([folder, *options], plugins=[failures])
    if status == pytest.ExitCode.TESTS_FAILED and 0 < len(failures.names) <= MOST:
        print(f"\n=== {folder}: {len(failures.names)} failed; once more, their modules by themselves", flush=True)
        _run_again(options, sorted({name.partition("::")[0] for name in failures.names}))
    return int(status)


def _run_again(options: Sequence[str], modules: Sequence[str]) -> NoReturn:
    """In a process that has nothing of the first one, and ends at its signals."""
    again = [f"{one.removesuffix('.xml')}-again.xml" if one.startswith(REPORT) else one for one in options]
    command = [sys.executable, "-m", "pytest", *again, *modules]
    os.environ[MODULES] = " ".join(modules)
    os.execv(command[0], command)  # noqa: S606  our own command


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
