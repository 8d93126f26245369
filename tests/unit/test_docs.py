"""The documents: every setting, command and error is in them, blocks are valid, links lead somewhere."""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import pkgutil
import re
import shlex
import subprocess
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

import portal
import spawners
from portal import cli
from portal.errors import PortalError
from portal.settings.profile_tables import FixedTable
from portal.settings.session_tables import RuleTable, SessionRuleTable
from portal.site import Site, parse
from tests.bench.__main__ import parser as bench_parser

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
REFERENCE = ROOT / "docs" / "reference"


def name(page: Path) -> str:
    """A page as the test's name shows it."""
    return str(page.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def rows(text: str) -> dict[str, list[str]]:
    """The rows of the tables in a text, by the word in backticks that they begin with."""
    found = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            found[cells[0].strip("`")] = cells[1:]
    return found


# -- lines that root types ------------------------------------------------------------------------------

BECOMES = re.compile(r"\b(?:runuser|su|sudo) [^\n`|]*")
OF_ROOT = [*PAGES, ROOT / "deploy" / "release" / "install"]


@pytest.mark.parametrize("page", OF_ROOT, ids=name)
def test_no_line_gives_the_portals_account_roots_own_terminal(page: Path) -> None:
    """What runs on a terminal can type into it: ``--pty`` (runuser(1)) gives it another."""
    lines = [line for line in BECOMES.findall(page.read_text()) if re.search(r"\bportal (-- |-c )", line)]

    assert [line for line in lines if not line.startswith("runuser --pty -u portal -- ")] == []


def test_the_lines_that_root_types_are_found() -> None:
    assert sum("runuser --pty -u portal" in page.read_text() for page in OF_ROOT) > 5


# -- settings -------------------------------------------------------------------------------------------


def tables() -> Iterator[tuple[str, type[BaseModel]]]:
    """Every table of the settings file as it is written, and its model."""
    for key, field in Site.model_fields.items():
        kinds = [field.annotation, *get_args(field.annotation)]
        (model,) = [kind for kind in kinds if inspect.isclass(kind) and issubclass(kind, BaseModel)]
        several = model is not field.annotation and type(None) not in kinds
        shown = field.alias or key
        yield (f"[[{shown}]]" if several else f"[{shown}]"), model
    yield "[[session.rule]]", SessionRuleTable
    yield "[[partition.rule]]", RuleTable
    yield "[profile.fixed]", FixedTable


def default(field: FieldInfo) -> str:
    """A default as the reference writes it."""
    if field.is_required():
        return "needed"
    value: Any = field.default
    if value is None:
        return "none"
    return f"`{json.dumps(list(value) if isinstance(value, tuple) else value)}`"


@pytest.mark.parametrize(("table", "model"), [*tables()], ids=[table for table, _ in tables()])
def test_every_setting_stands_in_the_reference_with_its_default(table: str, model: type[BaseModel]) -> None:
    text = (REFERENCE / "settings.md").read_text()
    section = text.partition(f"## `{table}`\n")[2].partition("\n## ")[0]

    told = {key: cells[1] for key, cells in rows(section).items()}

    assert told == {key: default(field) for key, field in model.model_fields.items()}
    assert all(cells[2] for cells in rows(section).values())


# -- commands -------------------------------------------------------------------------------------------


def commands(parser: argparse.ArgumentParser, words: str = "portal") -> Iterator[tuple[str, list[str]]]:
    """Every command and its own options."""
    options = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, below in action.choices.items():
                yield from commands(below, f"{words} {word}")
        elif action.option_strings and action.option_strings[0] != "-h":
            options.append(action.option_strings[-1])
    yield words, options


# `portal bench` hands its words on to the benches of the checkout.
COMMANDS = [*commands(cli._parser()), *commands(bench_parser(), "portal bench")]


@pytest.mark.parametrize(("command", "options"), COMMANDS)
def test_every_command_and_option_stands_in_the_reference(command: str, options: list[str]) -> None:
    text = (REFERENCE / "commands.md").read_text()

    if command.count(" ") and not any(other.startswith(f"{command} ") for other, _ in COMMANDS):
        assert f"| `{command}` |" in text
    for option in options:
        assert f"`{option}`" in text or f"`{command} {option}`" in text


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_portal_command_in_a_block_is_one(page: Path) -> None:
    for line in "\n".join(blocks(page, "console")).splitlines():
        if found := re.search(r"(?:^[$#] |-- )(?:\S*/)?portal (\S.*)$", line):
            arguments = cli._parser().parse_args(shlex.split(found[1], comments=True))
            if arguments.command is cli._bench:
                bench_parser().parse_args(arguments.words)


def test_every_verb_and_option_of_the_demo_stands_in_the_reference() -> None:
    text = (REFERENCE / "commands.md").read_text()
    words = demo("--help")
    verbs = re.findall(r"^    ([a-z]+) ", words, re.MULTILINE)

    assert {"run", "exec"} <= set(verbs)
    for verb in verbs:
        assert f"| `demo {verb}` |" in text, verb
        for option in re.findall(r"^  (--[a-z-]+)", demo(verb, "--help"), re.MULTILINE):
            assert f"`{option}" in text, f"{verb} {option}"
    for variable in re.findall(r"DSPORTAL_[A-Z_]+", words):
        assert f"`{variable}`" in text, variable


def demo(*arguments: str) -> str:
    """What the demo's command prints."""
    command = ["/usr/bin/python3", str(ROOT / "deploy/demo/demo"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_unit_and_the_sudoers_line_start_what_the_settings_name_by_default() -> None:
    unit = (ROOT / "deploy/site/dsportal.service").read_text()
    sudoers = (ROOT / "deploy/site/sudoers.dsportal").read_text()
    program, *arguments = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)[0].split()

    assert f'NOPASSWD: {Site().portal.launcher} ""\n' in sudoers
    assert Path(program).parent == Path(Site().portal.launcher).parent
    assert cli._parser().parse_args(arguments).site == cli.DEFAULT_SITE
    assert "KillMode=process\n" in unit
    assert "NoNewPrivileges=" not in unit


def test_every_make_target_of_the_documents_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        told = set(re.findall(r"(?:^[$#] |`|&& )make ([a-z-]+)", page.read_text(), re.MULTILINE))
        assert told <= targets, name(page)


# -- errors ---------------------------------------------------------------------------------------------


def errors(family: type[PortalError] = PortalError) -> Iterator[type[PortalError]]:
    """Every error of the portal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TensorBoard's own imports
        for package in (portal, spawners):
            for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
                importlib.import_module(module.name)
    for error in family.__subclasses__():
        if error.__module__.startswith(("portal.", "spawners.")):
            yield error
            yield from errors(error)


def test_every_error_stands_in_the_reference_with_its_reason() -> None:
    told = {key: cells[0].strip("`") for key, cells in rows((REFERENCE / "errors.md").read_text()).items()}

    assert told == {error.__name__: error.reason for error in errors()}


# -- blocks and links -----------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_toml_block_is_a_settings_file_without_faults(page: Path) -> None:
    for block in blocks(page, "toml"):
        parse(tomllib.loads(block), source=name(page))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_within_the_checkout_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if not target.startswith(("http://", "https://")):
            file, _, heading = target.partition("#")
            found = (page.parent / file).resolve() if file else page
            assert found.exists(), target
            assert not heading or heading in headings(found), target


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^a-z0-9 _-]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_index_leads_to_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text()

    for page in (ROOT / "docs").rglob("*.md"):
        relative = str(page.relative_to(ROOT / "docs"))
        assert relative == "README.md" or f"({relative})" in index, relative


# -- what can be read -----------------------------------------------------------------------------------

SECURITY = ROOT / "docs" / "explanation" / "security.md"
SHELVES = [page for page in PAGES if (ROOT / "docs") in page.parents]


def shown(page: Path) -> list[str]:
    """The lines of a page, without its blocks."""
    return re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL).splitlines()


@pytest.mark.parametrize("page", SHELVES, ids=name)
def test_no_row_of_a_table_is_too_long_to_be_read(page: Path) -> None:
    longest = 600 if page == SECURITY else 1200

    assert [line[:90] for line in shown(page) if line.startswith("|") and len(line) > longest] == []


@pytest.mark.parametrize("page", SHELVES, ids=name)
def test_no_row_or_point_stands_on_a_page_twice(page: Path) -> None:
    """As a merge leaves them: each half once as it was, and once as it is. What is short may be alike."""
    starts = [line[:75] for line in shown(page) if line.startswith(("|", "- ")) and len(line) > 90]

    assert [start for start in starts if starts.count(start) > 1] == []
