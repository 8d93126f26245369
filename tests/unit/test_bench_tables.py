"""`portal bench`: arguments and tables, and the way from the command to the benches of a checkout."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

import pytest

from portal import cli
from tests.bench import driver
from tests.bench.__main__ import options_of, parser
from tests.bench.benches import BENCHES
from tests.bench.compared_hubs import hubs
from tests.bench.result_table import table

ROOT = Path(__file__).parents[2]


def figures(name: str, ours: dict[str, object], stock: dict[str, object], **more: object) -> dict[str, object]:
    return {"bench": name, "options": {"runs": 5}, "cores": 2, "ours": ours, "stock": stock, **more}


def lines(text: str) -> dict[str, list[str]]:
    """The cells of a table's lines by their words."""
    cells = [[cell for cell in line.split("  ") if cell.strip()] for line in text.splitlines() if line.strip()]
    return {line[0].strip(): [cell.strip() for cell in line[1:]] for line in cells}


def test_a_table_shows_ours_beside_stock_and_the_aim() -> None:
    shown = lines(table(figures("spawn", {"ratio": 0.55, "bare_s": 2.0}, {"ratio": 1.68, "bare_s": 2.0})))

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
    assert lines(table(figures(name, {key: missed}, {})))[words][-1] == "missed"
    assert "missed" not in lines(table(figures(name, {key: reached}, {})))[words]


def test_the_stock_parts_cannot_miss_our_aim() -> None:
    shown = lines(table(figures("spawn", {"ratio": 0.5}, {"ratio": 9.0})))

    assert "missed" not in shown["ratio to bare"]


def test_a_figure_that_could_not_be_taken_is_a_dash() -> None:
    shown = lines(table(figures("spawn", {"job_started_s": None}, {"job_started_s": 0.5})))

    assert shown["the batch script starts, s"] == ["–", "0.50"]


def test_the_snapshot_of_the_queue_stands_below_with_its_aims() -> None:
    queue = {"jobs": 10_014, "bytes_read": 2_000_001, "cpu_ms": 60.0}
    shown = lines(table(figures("queries", {"queries_per_min": 6.0}, {"queries_per_min": 120.0}, queue=queue)))

    assert shown["jobs in the queue"] == ["10,014"]
    assert shown["bytes read for a snapshot"] == ["2,000,001", "≤ 2,000,000", "missed"]
    assert shown["CPU of the hub for a snapshot, ms"] == ["60.00", "≤ 150"]


def test_every_bench_takes_its_options_json_and_only_ours() -> None:
    for bench in BENCHES:
        words = [word for option in bench.options for word in (f"--{option.name}", str(option.least))]
        found = parser().parse_args([bench.name, *words, "--json", "--only", "ours"])

        assert found.json
        least = {option.name.replace("-", "_"): option.least for option in bench.options}
        assert options_of(found) == {**least, "only": "ours"}


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many", "٣", ""])
def test_a_number_of_sessions_is_a_whole_number_from_one_up(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["queries", f"--sessions={text}"])

    assert "a whole number from 1 up" in capsys.readouterr().err


def test_nothing_but_ours_can_be_measured_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["spawn", "--only", "stock"])

    assert "invalid choice: 'stock' (choose from ours)" in capsys.readouterr().err.replace("'ours'", "ours")


def test_without_only_the_bench_gets_its_own_options_alone() -> None:
    assert options_of(parser().parse_args(["storm", "--users", "100"])) == {"users": 100, "at_once": 200}


def test_only_ours_leaves_the_stock_hub_out() -> None:
    assert [hub.name for hub in hubs(Namespace(only=""), stub=True)] == ["ours", "stock"]
    assert [hub.name for hub in hubs(Namespace(only="ours"), stub=True)] == ["ours"]


def test_without_the_stock_parts_the_table_has_no_column_for_them() -> None:
    found = {"bench": "spawn", "options": {"runs": 2, "only": "ours"}, "cores": 2, "stock": {}}
    text = table({**found, "ours": {"ratio": 0.61, "bare_s": 2.0}})

    assert text.splitlines()[0] == "spawn: runs 2, only ours; 2 cores"
    assert text.splitlines()[2].split() == ["ours", "aim"]
    assert lines(text)["ratio to bare"] == ["0.61", "≤ 0.6", "missed"]


def test_without_the_plain_scripts_nothing_that_compares_with_them_is_shown() -> None:
    found = {"bench": "training", "options": {"rounds": 2, "only": "ours"}, "cores": 2, "stock": {}, "plain": {}}
    text = table({**found, "ours": {"images_per_s": 12.0}})

    assert list(lines(text))[1:] == ["ours", "images a second, mean of all rounds"]


# -- the way there --------------------------------------------------------------------------------------


@pytest.fixture
def became(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The command lines that the process was replaced by."""
    commands: list[list[str]] = []

    def execv(program: str, argv: list[str]) -> None:
        commands.append(argv)
        sys.exit(0)

    monkeypatch.setattr("os.execv", execv)
    return commands


@pytest.mark.parametrize("words", [["storm", "--users", "100", "--json"], ["storm", "--help"], ["--help"], []])
def test_portal_bench_becomes_the_checkouts_benches_with_the_same_words(
    words: list[str], became: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tests/bench").mkdir(parents=True)
    (tmp_path / cli.BENCHES).touch()
    monkeypatch.setattr("sys.prefix", str(tmp_path / ".venv"))

    with pytest.raises(SystemExit):
        cli.main(["bench", *words])

    assert became == [[sys.executable, str(tmp_path / "deploy/run_module.py"), "tests.bench", *words]]


def test_the_checkout_of_the_environment_is_found_from_everywhere(
    became: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tests/bench").mkdir(parents=True)  # somebody has left it where the command is called
    (tmp_path / cli.BENCHES).touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.prefix", str(ROOT / ".venv"))

    with pytest.raises(SystemExit):
        cli.main(["bench", "spawn"])

    assert Path(became[0][1]).samefile(ROOT / "deploy/run_module.py")
    assert (ROOT / cli.BENCHES).is_file()


def test_without_a_checkout_one_line_says_where_benches_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.prefix", str(tmp_path))

    assert cli.main(["bench", "spawn", "--runs", "2"]) == 1

    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("portal bench needs a checkout of the portal, which is not here")


@pytest.mark.parametrize(
    ("options", "found"), [({"runs": 5}, "missing"), ({"runs": 5, "only": "ours"}, "runs already")]
)
def test_only_ours_needs_none_of_the_stock_parts(
    options: dict[str, int | str], found: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(driver, "demo", lambda *arguments, quiet=False: 0)

    assert driver.run("spawn", options, as_json=False) == 1

    assert found in capsys.readouterr().err


def test_the_defaults_of_the_benches_are_the_sizes_of_the_aims() -> None:
    defaults = {bench.name: {option.name: option.default for option in bench.options} for bench in BENCHES}

    assert defaults["storm"]["users"] == 1000
    assert defaults["restart"] == {"sessions": 1000, "users": 10_000}
    assert defaults["queries"]["queue"] == 10_000
