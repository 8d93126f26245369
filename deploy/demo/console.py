"""What the demo prints on the terminal: stages with their times, one updating line for progress, and its errors."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType


class DemoError(Exception):
    """The demo cannot go on. The message says what was found and what to do."""


class CannotRun(DemoError):
    """This machine cannot run the private cluster. The message says what is missing and how to get it."""


def say(text: str) -> None:
    """Print one line at once."""
    print(text, flush=True)


def stage(name: str, seconds: float) -> None:
    """Print one finished stage with the time that it took."""
    say(f"  {name:<58} {seconds:6.1f} s")


def guarded(verb: Callable[[], int]) -> int:
    """Run a verb: an error of ours is one message and status 1, Ctrl-C is no error."""
    try:
        return verb()
    except DemoError as error:
        print(f"demo: {error}", file=sys.stderr, flush=True)
        return 1
    except KeyboardInterrupt:
        return 130


class Progress:
    """A line that is rewritten on a terminal; elsewhere one plain line every ``every_s`` seconds.

    >>> with Progress("downloading") as progress: progress.show("3 of 120 MB")
    """

    def __init__(self, title: str, every_s: float = 10.0) -> None:
        self.title = title
        self.every_s = every_s
        self.terminal = sys.stdout.isatty()
        self.started = self.shown = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def show(self, text: str) -> None:
        """Show how far it is."""
        now = time.monotonic()
        line = f"  {self.title}: {text} ({now - self.started:.0f} s)"
        if self.terminal:
            print(f"\r{line:<100}"[:100], end="", flush=True)
        elif now - self.shown >= self.every_s:
            say(line)
            self.shown = now

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.terminal:
            print("\r" + " " * 100 + "\r", end="", flush=True)
        if error is None:
            stage(self.title, time.monotonic() - self.started)
