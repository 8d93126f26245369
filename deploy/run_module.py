#!/usr/bin/python3
"""Run a module of the checkout by its dotted name: the one place that sets Python's import path.

    run_module.py MODULE [ARGUMENT…]

The commands of deploy/ are files, called from any folder before anything is installed. Python then looks for imports
in the folder of the file, not in the checkout. PYTHONPATH could name the checkout, but every daemon, job and pip that
a command starts would inherit it. What is called goes on in the Python that fits (deploy/interpreter.py), so this file
and that one are written for every Python 3.
"""

import os
import runpy
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent


def command(module: str) -> "list[str]":
    """The start of a command line that runs a module with the system's Python, whatever the caller's environment."""
    return ["/usr/bin/python3", "-EsB", str(Path(__file__).resolve()), module]


def main() -> None:
    """Become the module that the first argument names."""
    sys.dont_write_bytecode = True  # the checkout may belong to somebody else
    sys.path[0] = str(CHECKOUT)  # in the place of the folder of the file
    module = sys.argv.pop(1)
    if not sys.flags.ignore_environment:  # what command() starts is in its Python already
        choose(module)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def choose(module: str) -> None:
    """Go on in the Python that was asked for, or that fits."""
    from deploy import interpreter

    try:
        python = interpreter.chosen(os.environ.get("DSPORTAL_VENV") or str(CHECKOUT / ".venv"))
    except interpreter.NoPython as error:
        sys.exit(str(error))
    interpreter.become(python, str(Path(__file__).resolve()), module)


if __name__ == "__main__":
    main()
