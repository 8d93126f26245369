"""`portal bench`: the arguments and the tables; what measures is in the checkout, below ``deploy/bench``.

Benchmarks need a cluster that nobody works on: they start the checkout's private one, in a state folder of their
own, and end it. So there is nothing to measure with on a site without a checkout.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portal.errors import PortalError

DRIVER = Path("deploy", "bench", "outside.py")
ABSENT = "–"


@dataclass(frozen=True)
class Option:
    """One option of a bench: a number from ``least`` up."""

    name: str
    default: int
    help: str
    least: int = 1


@dataclass(frozen=True)
class Row:
    """One line of a table: the key of the figure, what it is in words, and the aim (a figure at most, or at least)."""

    key: str
    what: str
    at_most: float | None = None
    at_least: float | None = None

    def aim(self) -> str:
        """The aim in words; '' when there is none."""
        if self.at_most is not None:
            return f"≤ {self.at_most:,}"
        return f"≥ {self.at_least:,}" if self.at_least is not None else ""

    def is_missed(self, figure: Any) -> bool:
        """True when our figure misses the aim; one that could not be taken does."""
        if self.at_most is None and self.at_least is None:
            return False
        if figure is None:
            return True
        return bool(figure > self.at_most) if self.at_most is not None else bool(figure < (self.at_least or 0))


@dataclass(frozen=True)
class Bench:
    """One bench: its words, its options, and the rows of its table."""

    name: str
    help: str
    options: tuple[Option, ...]
    rows: tuple[Row, ...]
    look: tuple[Row, ...] = ()  # of one more part of the figures, which has no stock side
    part: str = "queue"
    part_title: str = "one look at the queue"


BENCHES = (
    Bench(
        "queries",
        "what sessions cost that are simply there: Slurm queries, processes, CPU, memory; and one look at a long queue",
        (
            Option("sessions", 100, "running sessions (stubs: jobs without Jupyter)"),
            Option("pending", 20, "sessions that wait in the queue", least=0),
            Option("queue", 10_000, "other jobs in the queue while looks at it are measured", least=0),
            Option("minutes", 3, "how long the hub is watched"),
        ),
        (
            Row("queries_per_min", "Slurm queries a minute (sdiag)", at_most=12),
            Row("processes_per_min", "processes started a minute"),
            Row("hub_cpu_percent", "CPU of the hub and what it starts, % of a core"),
            Row("hub_rss_mib", "memory of the hub, MiB"),
            Row("running", "sessions running at the end"),
            Row("pending", "sessions pending at the end"),
        ),
        (
            Row("jobs", "jobs in the queue"),
            Row("bytes_read", "bytes read a look", at_most=2_000_000),
            Row("cpu_ms", "CPU of the hub a look, ms", at_most=150),
            Row("commands_cpu_ms", "CPU of squeue a look, ms"),
            Row("loop_blocked_ms", "longest time that the hub's loop was kept, ms"),
        ),
    ),
    Bench(
        "spawn",
        "from the click to a server that answers, in steps, beside a bare JupyterLab in a batch job",
        (Option("runs", 5, "rounds, after one to warm up"),),
        (
            Row("sbatch_returned_s", "sbatch has returned, s after the click"),
            Row("job_started_s", "the batch script starts, s"),
            Row("port_announced_s", "the session has told its port, s"),
            Row("hub_says_ready_s", "the hub says ready, s"),
            Row("click_to_ready_s", "200 through the proxy, s"),
            Row("fastest_s", "the fastest round, s"),
            Row("slowest_s", "the slowest round, s"),
            Row("bare_s", "bare sbatch jupyter-lab, s"),
            Row("ratio", "ratio to bare", at_most=0.6),
        ),
    ),
    Bench(
        "storm",
        "logins of many people at the same time against real LDAP with StartTLS, then a session for each",
        (
            Option("users", 1000, "people who log in"),
            Option("at-once", 200, "logins under way at a time"),
        ),
        (
            Row("logins", "logins that succeeded"),
            Row("logins_per_s", "logins a second", at_least=60),
            Row("p50_s", "a login, median, s"),
            Row("p95_s", "a login, 95 of 100 are faster, s", at_most=5),
            Row("errors", "5xx, failed connections, refused starts", at_most=0),
            Row("hub_ms_per_login", "CPU of the hub a login, ms"),
            Row("hub_cpu_percent", "CPU of the hub meanwhile, % of a core"),
            Row("driver_cpu_percent", "CPU of the driver meanwhile, % of a core"),
            Row("spawns", "sessions that ran after it"),
            Row("spawns_per_s", "of them, a second"),
        ),
    ),
    Bench(
        "restart",
        "a hub that is killed (kill -9) with many sessions and people, and started again",
        (
            Option("sessions", 1000, "running sessions (stubs)"),
            Option("users", 10_000, "people that the hub knows, those with sessions included"),
        ),
        (
            Row("first_page_s", "the login page is back, s after the start", at_most=5),
            Row("routes_s", "every session is in the proxy again, s", at_most=30),
            Row("routes", "sessions in the proxy"),
            Row("sessions_kept", "sessions that run on"),
        ),
    ),
    Bench(
        "training",
        "the ResNet50 template's training step beside plain Keras and PyTorch scripts, in turns",
        (
            Option("batch-size", 16, "images in one training step"),
            Option("image-size", 224, "the side of the images, in pixels", least=32),
            Option("steps", 3, "training steps of each script in a round"),
            Option("rounds", 5, "rounds, after two steps each to warm up"),
        ),
        (
            Row("images_per_s", "images a second, mean of all rounds"),
            Row("slowest_round_images_per_s", "its slowest round"),
            Row("fastest_round_images_per_s", "its fastest round"),
            Row("fastest_plain_images_per_s", "the fastest plain script"),
            Row("ratio", "ratio to the fastest plain script", at_least=1.0),
        ),
        (
            Row("keras_float32", "Keras, float32"),
            Row("keras_bfloat16", "Keras, mixed bfloat16"),
            Row("torch_float32", "PyTorch, float32"),
            Row("torch_bfloat16", "PyTorch, channels_last and bfloat16 autocast"),
        ),
        part="plain",
        part_title="plain scripts, images a second",
    ),
)


def add_commands(commands: Any) -> None:
    """Add `bench` and its commands to the command line."""
    bench = commands.add_parser("bench", help="measure the portal beside the stock parts, in a private cluster")
    kinds = bench.add_subparsers(required=True, metavar="BENCH")
    for kind in BENCHES:
        parser = kinds.add_parser(kind.name, help=kind.help)
        for option in kind.options:
            words = f"{option.help} (default: {option.default})"
            parser.add_argument(f"--{option.name}", type=_number(option.least), default=option.default, help=words)
        parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
        parser.set_defaults(command=main, bench=kind)


def _number(least: int) -> Any:
    def number(text: str) -> int:
        if not (text.isascii() and text.isdigit() and int(text) >= least):
            raise argparse.ArgumentTypeError(f"{text!r} is not possible; allowed: a whole number from {least} up")
        return int(text)

    return number


def main(arguments: argparse.Namespace) -> int:
    """Become the driver, which starts the cluster, measures, prints, and ends the cluster."""
    driver = checkout(Path.cwd(), Path(sys.prefix)) / DRIVER
    names = [option.name.replace("-", "_") for option in arguments.bench.options]
    options = {name: getattr(arguments, name) for name in names}
    sys.stdout.flush()
    argv = [sys.executable, "-B", str(driver), arguments.bench.name, json.dumps(options), "json" * arguments.json]
    os.execv(sys.executable, argv)  # noqa: S606


def checkout(*starts: Path) -> Path:
    """The first folder at or above ``starts`` that has the benches.

    Raises:
        PortalError: there is none.
    """
    for start in starts:
        for folder in (start, *start.parents):
            if (folder / DRIVER).is_file():
                return folder
    raise PortalError(
        "Benchmarks run in the private cluster of a checkout of the portal, which is not here: "
        "in a checkout, after 'make setup', run .venv/bin/portal bench."
    )


def bench_of(name: str) -> Bench:
    """The bench called ``name``."""
    return next(bench for bench in BENCHES if bench.name == name)


def table(figures: Mapping[str, Any]) -> str:
    """The figures of one bench as a table: ours, stock, the aim, and whether ours misses it."""
    bench = bench_of(figures["bench"])
    lines: list[tuple[str, ...]] = [("", "ours", "stock", "aim", "")]
    lines += [_line(row, figures["ours"], figures["stock"]) for row in bench.rows]
    if bench.look:
        lines += [("", "", "", "", ""), (bench.part_title, "", "", "", "")]
        lines += [_line(row, figures[bench.part], {}) for row in bench.look]
    asked = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in figures["options"].items())
    return "\n".join([f"{bench.name}: {asked}; {figures['cores']} cores", "", *_aligned(lines)])


def _line(row: Row, ours: Mapping[str, Any], stock: Mapping[str, Any]) -> tuple[str, ...]:
    theirs = _text(stock.get(row.key)) if stock else ""
    return row.what, _text(ours.get(row.key)), theirs, row.aim(), "missed" if row.is_missed(ours.get(row.key)) else ""


def _text(figure: Any) -> str:
    return ABSENT if figure is None else f"{figure:,}" if isinstance(figure, int) else f"{figure:,.2f}"


def _aligned(lines: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Words to the left, figures to the right."""
    widths = [max(len(line[column]) for line in lines) for column in range(5)]
    for what, *cells, note in lines:
        shown = "  ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths[1:4], strict=True))
        yield f"{what:<{widths[0]}}  {shown}  {note}".rstrip()
