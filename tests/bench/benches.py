"""The benches: the words and options of each, and the rows of its table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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
class Part:
    """One more part of the figures, which has no stock side: its key, its title, and its rows."""

    key: str
    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Bench:
    """One bench: its words, its options, the rows of its table, and one more part where there is one.

    ``beside`` is what stands beside ours; one that ``needs_cluster`` runs as root in a private cluster.
    """

    name: str
    help: str
    options: tuple[Option, ...]
    rows: tuple[Row, ...]
    part: Part | None = None
    only_help: str = "ours: leave out the stock parts"
    packages: tuple[str, ...] = ()  # groups of Debian packages beside the cluster's own
    needs_cluster: bool = True
    beside: str = "stock"


BENCHES = (
    Bench(
        "queries",
        "what running and waiting sessions cost: Slurm queries, processes, CPU, memory; and a snapshot of a long queue",
        (
            Option("sessions", 100, "running sessions (stubs: jobs without Jupyter)"),
            Option("pending", 20, "sessions that wait in the queue", least=0),
            Option("queue", 10_000, "other jobs in the queue while snapshots of it are measured", least=0),
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
        Part(
            "queue",
            "one snapshot of the queue",
            (
                Row("jobs", "jobs in the queue"),
                Row("bytes_read", "bytes read for a snapshot", at_most=2_000_000),
                Row("cpu_ms", "CPU of the hub for a snapshot, ms", at_most=150),
                Row("commands_cpu_ms", "CPU of squeue for a snapshot, ms"),
                Row("loop_blocked_ms", "longest time that the hub's loop was blocked, ms"),
            ),
        ),
    ),
    Bench(
        "spawn",
        "from the click to a server that answers, in steps, beside a bare JupyterLab in a batch job",
        (Option("runs", 5, "rounds, after one to warm up"),),
        (
            Row("sbatch_returned_s", "sbatch has returned, s after the click"),
            Row("job_started_s", "the batch script starts, s"),
            Row("port_announced_s", "the session has announced its port, s"),
            Row("hub_says_ready_s", "the hub says ready, s"),
            Row("click_to_ready_s", "200 through the proxy, s"),
            Row("fastest_s", "the fastest round, s"),
            Row("slowest_s", "the slowest round, s"),
            Row("bare_s", "bare sbatch jupyter-lab, s"),
            Row("ratio", "ratio to bare", at_most=0.6),
        ),
    ),
    Bench(
        "browser",
        "in Chromium, from the click on Start to a drawn launcher and to the first cell's output",
        (Option("runs", 3, "rounds; each starts four sessions of either portal"),),
        (
            Row("launcher_cold_loopback_s", "launcher drawn, empty cache, s after the click"),
            Row("launcher_warm_loopback_s", "the same with a full cache, s"),
            Row("cell_cold_loopback_s", "first cell's output, empty cache, s"),
            Row("cell_warm_loopback_s", "the same with a full cache, s"),
            Row("launcher_cold_slow_s", "10 Mbit/s and 20 ms: launcher, empty cache, s"),
            Row("launcher_warm_slow_s", "the same with a full cache, s"),
            Row("cell_cold_slow_s", "10 Mbit/s and 20 ms: first cell's output, empty cache, s"),
            Row("cell_warm_slow_s", "the same with a full cache, s"),
            Row("wire_cold_slow_kb", "over the wire since before the login, empty cache, kB", at_most=1500),
            Row("wire_warm_slow_kb", "the same with a full cache, kB"),
            Row("ratio_loopback", "launcher with an empty cache, ratio to stock", at_most=0.5),
            Row("ratio_slow", "the same at 10 Mbit/s and 20 ms", at_most=0.35),
        ),
        packages=("browser",),
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
        "form",
        "the form of the instance options with a long queue and many nodes, and while Slurm hangs; no cluster",
        (
            Option("jobs", 10_000, "jobs in the queue, half of them waiting"),
            Option("nodes", 1000, "nodes"),
            Option("forms", 60, "forms, one after the other", least=4),
        ),
        (
            Row("fresh_ms", "a form while listings are read, median, ms", at_most=150),
            Row("fresh_most_ms", "the slowest of them, ms"),
            Row("first_ms", "the first form of a hub, which waits for its picture, ms"),
            Row("without", "of these all, came without a picture: counted too late"),
            Row("slurm_hangs_ms", "a form while Slurm hangs, median, ms", at_most=150),
            Row("slurm_hangs_most_ms", "the slowest of them, ms"),
            Row("bytes", "bytes of its fields"),
            Row("loop_blocked_ms", "longest time that the hub's loop was blocked, ms"),
        ),
        only_help="ours: leave out the stock form",
        needs_cluster=False,
    ),
    Bench(
        "forecasts",
        "how far off forecasts are on generated days of contention, beside Slurm's kind of estimate; no cluster",
        (
            Option("sessions", 1000, "sessions that are asked for in a day"),
            Option("days", 1, "days, each with the next seed"),
            Option("seed", 1, "the first seed"),
        ),
        (
            Row("starts", "sessions that started"),
            Row("waited", "of these, waited more than a minute"),
            Row("count", "a moment was named for"),
            Row("median_min", "how far off, median, min"),
            Row("p90_min", "90 of 100 within, min"),
            Row("count_waited", "a moment was named, and the session waited"),
            Row("median_waited_min", "how far off, median, min"),
            Row("p90_waited_min", "90 of 100 within, min"),
            Row("count_both", "the same starts: waited, and both named a moment"),
            Row("median_both_min", "how far off, median, min"),
            Row("p90_both_min", "90 of 100 within, min"),
            Row("now", "told that they start now"),
            Row("now_held_percent", "of these, started within a minute, %"),
        ),
        only_help="ours: leave out Slurm's estimate",
        needs_cluster=False,
        beside="Slurm",
    ),
    Bench(
        "kernels",
        "from a kernel's start to its first result: out of modules, beside a login shell that loads them",
        (Option("runs", 20, "rounds, after one to warm up"),),
        (
            Row("start_s", "start to first result, median, s"),
            Row("fastest_s", "the fastest, s"),
            Row("slowest_s", "the slowest, s"),
            Row("plain_s", "the same Python without modules, median, s"),
            Row("ratio", "ratio to it", at_most=1.02),
        ),
        only_help="ours: leave out the login shell",
        beside="bash -lc",
    ),
    Bench(
        "tensorboard",
        "in Chromium, from the click on TensorBoard to scalars drawn, beside plain tensorboard",
        (Option("runs", 5, "rounds, after one to warm up"),),
        (
            Row("cold_s", "no TensorBoard runs, nothing in the cache: scalars drawn, s after the click", at_most=2),
            Row("cold_slowest_s", "the slowest of them, s"),
            Row("warm_s", "it runs, and was opened before, s", at_most=0.5),
            Row("warm_slowest_s", "the slowest of them, s"),
            Row(
                "comes_s", "warm, in a Chromium that draws ahead: the pointer comes in 0.6 s, and presses", at_most=0.5
            ),
            Row("rest_0_s", "the pointer jumps to the tile, and presses at once, s"),
            Row("rest_300_s", "the pointer has rested on the tile for 0.3 s"),
            Row("rest_600_s", "for 0.6 s"),
            Row("rest_1000_s", "for 1 s"),
            Row("ratio_cold", "ratio to plain, cold"),
            Row("ratio_warm", "ratio to plain, warm"),
        ),
        only_help="ours: leave out plain tensorboard",
        packages=("browser",),
        beside="plain",
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
        Part(
            "plain",
            "plain scripts, images a second",
            (
                Row("keras_float32", "Keras, float32"),
                Row("keras_bfloat16", "Keras, mixed bfloat16"),
                Row("torch_float32", "PyTorch, float32"),
                Row("torch_bfloat16", "PyTorch, channels_last and bfloat16 autocast"),
            ),
        ),
        only_help="ours: leave out the plain scripts",
    ),
)


def bench_of(name: str) -> Bench:
    """The bench called ``name``."""
    return next(bench for bench in BENCHES if bench.name == name)
