"""A person's browser in a machine, from the tests' side: one step, one answer."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.systems.machine import Machine
from tests.systems.surroundings import NAME

PROGRAM = Path(__file__).with_name("visitor.py")
URL = f"https://{NAME}:8000"


class Browser:
    """It lives until it is closed, with its cookies and the web socket of a kernel."""

    def __init__(self, machine: Machine, name: str, python: str) -> None:
        machine.copy(PROGRAM, "/root/visitor.py")
        self.name = name
        argv = machine.entering(python, "-I", "/root/visitor.py", URL, name)
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, step: str, *arguments: object) -> Any:
        """Do a step; what it found.

        Raises:
            AssertionError: with the words of the step that failed.
        """
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([step, *arguments]) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert "error" not in answer, f"{step}: {answer['error']}"
        return answer["found"]

    def close(self) -> None:
        """Close it; cookies and web sockets are gone."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(timeout=10)
