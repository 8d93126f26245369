"""`portal env` as people type it."""

from __future__ import annotations

import argparse

import pytest

from portal.commands import environment_commands

NAMED = ["lab", "--title", "My lab", "--module", "shared", "tqdm", "--tool=uv", "numpy<3"]


@pytest.mark.parametrize(
    "typed",
    [
        NAMED,
        ["lab", "tqdm", "numpy<3", "--title", "My lab", "--module", "shared", "--tool", "uv"],
        ["--module", "shared", "--title", "My lab", "lab", "tqdm", "--tool", "uv", "numpy<3"],
    ],
)
def test_options_stand_where_one_likes_between_the_name_and_the_packages(typed: list[str]) -> None:
    parser = argparse.ArgumentParser()
    environment_commands.add(parser.add_subparsers())

    read = parser.parse_args(["env", "new", *typed])

    assert (read.name, read.packages) == ("lab", ["tqdm", "numpy<3"])
    assert (read.title, read.modules, read.tool) == ("My lab", ["shared"], "uv")
    assert parser.parse_args(["env", "new", *typed]) == read, "and once more"
    with pytest.raises(SystemExit):
        parser.parse_args(["env", "new", "--module", "shared"])
