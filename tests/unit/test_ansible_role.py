"""The Ansible role, as far as it can be read without Ansible: its variables, and what it gives the install."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ROLE = ROOT / "deploy/ansible/roles/dsportal"
FILES = sorted(ROLE.rglob("*.yml"))


def read(name: str) -> Any:
    """A file of the role."""
    return yaml.safe_load((ROLE / name).read_text())


def test_every_variable_of_the_role_has_a_default_or_is_made_by_it() -> None:
    used = {name for file in FILES for name in re.findall(r"\bdsportal_[a-z_]+", file.read_text())}
    made = set(re.findall(r"register: (\w+)", "".join(file.read_text() for file in FILES)))

    assert used == {*read("defaults/main.yml"), *read("vars/main.yml"), *made}


@pytest.mark.parametrize("file", [file for file in FILES if file.parent.name in ("tasks", "handlers")], ids=str)
def test_every_task_has_a_name_and_runs_no_shell(file: Path) -> None:
    for task in yaml.safe_load(file.read_text()):
        assert task["name"]
        assert not {"shell", "ansible.builtin.shell", "raw"} & task.keys(), "values are words, not shell text"


def test_the_options_that_it_gives_are_those_of_the_install() -> None:
    known = set(re.findall(r"(--[a-z-]+)(?= DIR| PYTHON| GROUP|\)| )", (ROOT / "deploy/release/install").read_text()))

    assert set(re.findall(r"'(--[a-z-]+)'", "".join(file.read_text() for file in FILES))) <= {
        *known,
        "--prefix",
        "--python",
    }
