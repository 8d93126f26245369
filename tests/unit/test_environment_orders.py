"""What environment somebody wants, the command lines that become of it, and what their failures mean."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from portal.environments import steps
from portal.environments.order import EnvironmentOrder, Tool, order_of
from portal.errors import RequestError

PATH = "/home/alice/environments/vision"
PYTHON = "/cm/bin/python3"


def order(**given: Any) -> EnvironmentOrder:
    return order_of({"name": "vision", **given})


def test_what_is_not_said_is_usual() -> None:
    assert order(title=None, tool="", modules=[], packages=[]) == EnvironmentOrder("vision", "vision")
    assert order(title=" Vision group ").title == "Vision group"
    assert order().kernel == "env-vision"


@pytest.mark.parametrize(
    "package",
    ["tqdm", "torch==2.9.1", "dask[array]>=2025,<2027", "numpy<2; python_version<'3.12'", "A_b.c-d", "zope.interface"],
)
def test_a_package_is_a_requirement(package: str) -> None:
    (taken,) = order(packages=[package]).packages
    assert taken.lower().startswith(package[0].lower())


@pytest.mark.parametrize(
    "package",
    [
        *("-e", "--index-url=https://x", "-r/etc/passwd", "-", "--", ""),
        *(".", "./x", "/opt/x", "x/y", "~/x", "x.whl", "x.zip", "x.TAR.GZ", "..\\x"),
        *("https://x/y", "git+https://x/y", "x @ https://x/y", "x@file:///etc", "file:x"),
        *("x y", "x --hash=1", "x\ny", "x; rm", "$(x)", "`x`", "x&y", "x\0", "x" * 201, "ü"),
        *(7, None, ["x"]),
    ],
)
def test_no_option_file_or_address_passes_for_a_package(package: object) -> None:
    with pytest.raises(RequestError, match=r"packages: .* is not possible here. Allowed: a package with its version"):
        order(packages=["tqdm", package])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": ""}, "name: '' is not possible here. Allowed: 1 to 40 small letters"),
        ({"name": "../x"}, "name: '../x' is not"),
        ({"name": "Vision"}, "name: 'Vision' is not"),
        ({"name": ".x"}, "name: '.x' is not"),
        ({"name": "x\n"}, "name: 'x\\n' is not"),
        ({"name": "x" * 41}, "name: "),
        ({"title": "a\nb"}, "title: 'a\\nb' is not"),
        ({"title": " "}, "title: ' ' is not"),
        ({"title": "\ud800"}, "title: '\\ud800' is not"),
        ({"tool": "pip"}, "tool: 'pip' is not possible here. Allowed: venv, uv, conda, mamba, modules."),
        ({"tool": "modules"}, "modules: [] is not possible here. Allowed: one or more names of modules"),
        (
            {"tool": "modules", "modules": ["a"], "packages": ["b"]},
            "packages: ['b'] is not possible here. Allowed: none",
        ),
        ({"modules": "shared"}, "modules: 'shared' is not possible here. Allowed: a list of names of modules"),
        ({"modules": ["--force"]}, "modules: '--force' is not"),
        ({"modules": ["a b"]}, "modules: 'a b' is not"),
        ({"modules": ["a:b"]}, "modules: 'a:b' is not"),
        ({"packages": "tqdm"}, "packages: 'tqdm' is not possible here. Allowed: a list of up to 100"),
        ({"packages": ["x"] * 101}, "packages: ['x', 'x'"),
        ({"python": "3.12"}, "python: '3.12' is not possible here. Allowed: a version such as 3.12, with conda"),
        ({"tool": "conda", "python": "3.12 -c x"}, "python: '3.12 -c x' is not"),
        ({"index": "x"}, "index: 'x' is not possible here. Allowed: the options name, title, tool, modules"),
    ],
)
def test_what_is_not_allowed_is_refused_by_name(given: dict[str, Any], said: str) -> None:
    with pytest.raises(RequestError) as refusal:
        order(**given)
    assert refusal.value.message.startswith(said)


def test_what_was_chosen_is_an_argument_behind_all_options() -> None:
    chosen = order(packages=["tqdm", "torch==2.9.1"])
    assert steps.create_command(chosen, PATH, "", PYTHON) == [PYTHON, "-I", "-m", "venv", "--prompt=vision", PATH]
    assert steps.create_command(chosen, PATH, "", PYTHON, with_pip=False)[-2:] == ["--without-pip", PATH]
    pip = steps.pip_command(chosen, PATH, "", chosen.packages)
    assert pip[:5] == [f"{PATH}/bin/python", "-I", "-m", "pip", "install"]
    assert pip[-3:] == ["--", "tqdm", "torch==2.9.1"]

    uv = order(tool="uv")
    assert steps.create_command(uv, PATH, "/usr/bin/uv", PYTHON) == [
        *("/usr/bin/uv", "venv", "--seed", f"--python={PYTHON}", "--prompt=vision", PATH)
    ]
    assert steps.pip_command(uv, PATH, "/usr/bin/uv", ["tqdm"])[-3:] == ["--no-progress", "--", "tqdm"]

    conda = order(tool="conda", python="3.12")
    assert steps.create_command(conda, PATH, "/cm/bin/conda", "")[-5:] == [
        *("--prefix", PATH, "python=3.12", "pip", "ipykernel")
    ]
    assert conda.tool is Tool.CONDA


def test_packages_of_modules_are_shown_by_a_line_that_no_name_of_a_folder_breaks() -> None:
    folder = '/cm/it\'s "odd"\\/site-packages'
    (line,) = steps.seen_packages([folder]).splitlines()
    call = ast.parse(line).body[1]
    assert isinstance(call, ast.Expr)
    assert isinstance(call.value, ast.Call)
    assert ast.literal_eval(call.value.args[0]) == folder


def test_a_command_gets_nothing_that_leads_packages_elsewhere() -> None:
    environ = steps.environ_for({"HOME": "/h", "PIP_TARGET": "/t", "PYTHONPATH": "/p", "PIP_INDEX_URL": "mirror"})
    assert environ == {
        "HOME": "/h",
        "PIP_INDEX_URL": "mirror",
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (
            "Collecting x\nERROR: Could not find a version that satisfies the requirement x==9 (from versions: 1.0, "
            "1.1, 2.0, 2.1)\nERROR: No matching distribution found for x==9\n",
            "pip said: Could not find a version that satisfies the requirement x==9 (the newest ones are 1.1, 2.0, "
            "2.1)",
        ),
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n",
            "there is no room left on the disk: remove what you do not need (pip said: Could not install packages due "
            "to an OSError: [Errno 28] No space left on device)",
        ),
        (
            "WARNING: Retrying (Retry(total=1)) after connection broken by 'NewConnectionError(: Failed to establish a "
            "new connection)'\nERROR: Could not find a version that satisfies the requirement x (from versions: "
            "none)\n",
            "no package index can be reached from this node: your administrator knows its mirror, for `pip config set` "
            "(pip said: Could not find a version that satisfies the requirement x (from versions: none))",
        ),
        (
            "  error: subprocess-exited-with-error\n  gcc: fatal\nERROR: Failed to build 'x' when installing build "
            "dependencies for x\n",
            "pip said: Failed to build 'x' when installing build dependencies for x",
        ),
        (
            "  × No solution found when resolving dependencies:\n  ╰─▶ Because x was not found\n",
            "pip said: Because x was not found",
        ),
        (
            "error: No solution found when resolving dependencies\n  cause: Because there is no version of x==9 and "
            "you require x==9\n\nhint: Packages were unavailable\n",
            "pip said: Because there is no version of x==9 and you require x==9",
        ),
        ("PackagesNotFoundError: The following packages are missing", "pip said: The following packages are missing"),
        ("one\n\x1b[31mlast \x07line\n\n", "pip said: ?[31mlast ?line"),
        ("", "pip said: nothing"),
        ("ERROR: " + "x" * 999, "pip said: xxx"),
    ],
)
def test_a_failure_is_one_line(log: str, words: str) -> None:
    told = steps.fault_words("pip", log)
    assert told.startswith(words)
    assert len(told) <= steps.LONGEST
    assert "\n" not in told
