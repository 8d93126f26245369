"""`portal bench`: arguments, tables and JSON, and the readers of what Slurm and the kernel count."""

from __future__ import annotations

import json
import struct
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from portal import bench, cli
from portal.errors import PortalError

BENCH = Path(__file__).parents[2] / "deploy" / "bench"


@pytest.fixture(scope="module")
def measure() -> Any:
    """The module that reads counters; it stays in the checkout."""
    sys.path.append(str(BENCH))
    try:
        import measure
    finally:
        sys.path.remove(str(BENCH))
    return measure


def figures(name: str, ours: dict[str, object], stock: dict[str, object], **more: object) -> dict[str, object]:
    return {"bench": name, "options": {"runs": 5}, "cores": 2, "ours": ours, "stock": stock, **more}


def lines(text: str) -> dict[str, list[str]]:
    """The cells of a table's lines by their words."""
    cells = [[cell for cell in line.split("  ") if cell.strip()] for line in text.splitlines() if line.strip()]
    return {line[0].strip(): [cell.strip() for cell in line[1:]] for line in cells}


def test_a_table_shows_ours_beside_stock_and_the_aim() -> None:
    shown = lines(bench.table(figures("spawn", {"ratio": 0.55, "bare_s": 2.0}, {"ratio": 1.68, "bare_s": 2.0})))

    assert shown["ratio to bare"] == ["0.55", "1.68", "≤ 0.6"]
    assert shown["bare sbatch jupyter-lab, s"] == ["2.00", "2.00"]


@pytest.mark.parametrize(
    ("name", "key", "words", "missed", "reached"),
    [
        ("spawn", "ratio", "ratio to bare", 0.61, 0.6),
        ("storm", "logins_per_s", "logins a second", 59.9, 60.0),
        ("storm", "errors", "5xx, failed connections, refused starts", 1, 0),
        ("restart", "routes_s", "every session is in the proxy again, s", None, 30.0),
    ],
)
def test_a_missed_aim_is_marked_and_a_reached_one_is_not(
    name: str, key: str, words: str, missed: object, reached: object
) -> None:
    assert lines(bench.table(figures(name, {key: missed}, {})))[words][-1] == "missed"
    assert "missed" not in lines(bench.table(figures(name, {key: reached}, {})))[words]


def test_the_stock_parts_cannot_miss_our_aim() -> None:
    shown = lines(bench.table(figures("spawn", {"ratio": 0.5}, {"ratio": 9.0})))

    assert "missed" not in shown["ratio to bare"]


def test_a_figure_that_could_not_be_taken_is_a_dash() -> None:
    shown = lines(bench.table(figures("spawn", {"job_started_s": None}, {"job_started_s": 0.5})))

    assert shown["the batch script starts, s"] == ["–", "0.50"]


def test_the_look_at_the_queue_stands_below_with_its_aims() -> None:
    queue = {"jobs": 10_014, "bytes_read": 2_000_001, "cpu_ms": 60.0}
    shown = lines(bench.table(figures("queries", {"queries_per_min": 6.0}, {"queries_per_min": 120.0}, queue=queue)))

    assert shown["jobs in the queue"] == ["10,014"]
    assert shown["bytes read a look"] == ["2,000,001", "≤ 2,000,000", "missed"]
    assert shown["CPU of the hub a look, ms"] == ["60.00", "≤ 150"]


def test_every_bench_takes_its_options_and_json() -> None:
    for kind in bench.BENCHES:
        words = [word for option in kind.options for word in (f"--{option.name}", str(option.least))]
        found = cli._parser().parse_args(["bench", kind.name, *words, "--json"])

        assert found.json
        assert {getattr(found, option.name.replace("-", "_")) for option in kind.options} == {
            option.least for option in kind.options
        }


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many", "٣", ""])
def test_a_number_of_sessions_is_a_whole_number_from_one_up(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli._parser().parse_args(["bench", "queries", f"--sessions={text}"])

    assert "a whole number from 1 up" in capsys.readouterr().err


def test_the_door_becomes_the_checkouts_driver_with_the_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    became: list[list[str]] = []
    (tmp_path / "deploy/bench").mkdir(parents=True)
    (tmp_path / "deploy/bench/outside.py").touch()
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    monkeypatch.setattr("os.execv", lambda program, argv: became.append(argv) or sys.exit(0))

    with pytest.raises(SystemExit):
        cli.main(["bench", "storm", "--users", "100", "--json"])

    ((*_, driver, name, options, form),) = became
    assert (driver, name, form) == (str(tmp_path / bench.DRIVER), "storm", "json")
    assert json.loads(options) == {"users": 100, "at_once": 200}


def test_without_a_checkout_one_line_says_where_benches_run(tmp_path: Path) -> None:
    with pytest.raises(PortalError, match=r"in a checkout, after 'make setup', run \.venv/bin/portal bench\."):
        bench.checkout(tmp_path)


def test_the_door_finds_this_checkout() -> None:
    assert (bench.checkout(Path(__file__).parent) / bench.DRIVER).samefile(BENCH / "outside.py")


# -- what is counted ------------------------------------------------------------------------------------

SDIAG = """\
Remote Procedure Call statistics by message type
	REQUEST_PARTITION_INFO                  ( 2009) count:6      ave_time:219    total_time:1315
	REQUEST_JOB_INFO_SINGLE                 ( 2021) count:5      ave_time:161    total_time:805
	MESSAGE_NODE_REGISTRATION_STATUS        ( 1002) count:4      ave_time:762    total_time:3049
	REQUEST_SUBMIT_BATCH_JOB                ( 4003) count:1      ave_time:1088   total_time:1088
	REQUEST_STATS_INFO                      ( 2035) count:3      ave_time:80     total_time:240
	REQUEST_PING                            ( 1008) count:1      ave_time:180    total_time:180

Remote Procedure Call statistics by user
	root            (       0) count:20     ave_time:327    total_time:6556
"""


def test_queries_are_what_asks_and_neither_daemons_nor_submissions_nor_sdiag_itself(measure: Any) -> None:
    assert measure.queries(SDIAG) == Counter(REQUEST_PARTITION_INFO=6, REQUEST_JOB_INFO_SINGLE=5, REQUEST_PING=1)


def record(pid: int, parent: int, name: str) -> bytes:
    """One record of acct(5), version 3."""
    return struct.pack("<BBHIIIIIIf8H16s", 0, 3, 0, 0, 0, 0, pid, parent, 0, 0.0, *[0] * 8, name.encode())


def test_processes_of_the_hubs_tree_are_counted_and_others_are_not(measure: Any) -> None:
    data = record(12, 11, "squeue") + record(11, 10, "sudo") + record(10, 7, "sh")
    ended = measure.records(data + record(21, 20, "squeue") + record(20, 1, "bash") + b"half a record")

    assert measure.below(7, ended) == Counter(squeue=1, sudo=1, sh=1)


def test_a_process_number_used_twice_makes_no_circle(measure: Any) -> None:
    ended = measure.records(record(5, 6, "a") + record(6, 5, "b"))

    assert measure.below(7, ended) == Counter()


def test_the_defaults_of_the_benches_are_the_sizes_of_the_aims() -> None:
    defaults = {kind.name: {option.name: option.default for option in kind.options} for kind in bench.BENCHES}

    assert defaults["storm"]["users"] == 1000
    assert defaults["restart"] == {"sessions": 1000, "users": 10_000}
    assert defaults["queries"]["queue"] == 10_000
