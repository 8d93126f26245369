"""The command line of the benches: what ``portal bench`` becomes in a checkout."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from tests.bench import driver
from tests.bench.benches import BENCHES, Bench


def parser() -> argparse.ArgumentParser:
    """Every bench and its options."""
    words = "Measure the portal beside the stock parts, in a private cluster."
    top = argparse.ArgumentParser(prog="portal bench", description=words)
    kinds = top.add_subparsers(required=True, metavar="BENCH")
    for bench in BENCHES:
        add_bench(kinds, bench)
    return top


def add_bench(kinds: argparse._SubParsersAction[argparse.ArgumentParser], bench: Bench) -> None:
    """One bench, its own options, and those that all have."""
    added = kinds.add_parser(bench.name, help=bench.help)
    for option in bench.options:
        words = f"{option.help} (default: {option.default})"
        added.add_argument(f"--{option.name}", type=number(option.least), default=option.default, help=words)
    added.add_argument("--only", choices=["ours"], help=bench.only_help)
    added.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    added.set_defaults(bench=bench)


def number(least: int) -> Callable[[str], int]:
    """The type of an option: a whole number from ``least`` up."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and int(text) >= least):
            raise argparse.ArgumentTypeError(f"{text!r} is not possible; allowed: a whole number from {least} up")
        return int(text)

    return read


def options_of(arguments: argparse.Namespace) -> dict[str, int | str]:
    """What the bench is asked for; ``only`` stands in it when it was given."""
    names = [option.name.replace("-", "_") for option in arguments.bench.options]
    options = {name: getattr(arguments, name) for name in names}
    return {**options, "only": arguments.only} if arguments.only else options


def main(argv: Sequence[str] | None = None) -> int:
    """Run one bench; answers its exit status."""
    arguments = parser().parse_args(argv)
    return driver.run(arguments.bench.name, options_of(arguments), as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())
