"""What a module system prints: run it, and read its Python without executing it.

Shapes checked with Environment Modules 5.2.0 and Lmod 8.6.19, neither of which prints JSON for ``load``.
"""

from __future__ import annotations

import ast
import re
import subprocess
import warnings
from collections.abc import Iterator, Mapping

from portal.errors import KernelError

TIMEOUT_S = 30


def query(command: str, arguments: tuple[str, ...], environ: Mapping[str, str]) -> dict[str, str | None]:
    """What ``module ARGUMENTS`` would change in ``environ``: a variable's new value, or None when it is taken away.

    Raises:
        KernelError: the command cannot be run, fails, is silent, or its answer cannot be read.
    """
    shown = f"module {' '.join(arguments)}"
    done = asked(command, arguments, environ, shown)
    changes, loaded = parse(done.stdout.decode(errors="surrogateescape"), shown)
    # Environment Modules exits 0 for a module that is missing, and says so in the last line of its output.
    if done.returncode or not loaded:
        raise failed(done, shown)
    return changes


def asked(
    command: str, arguments: tuple[str, ...], environ: Mapping[str, str], shown: str
) -> subprocess.CompletedProcess[bytes]:
    """What ``module ARGUMENTS`` answers, which an error shows as ``shown``.

    Raises:
        KernelError: the command cannot be run, or is silent.
    """
    try:
        return subprocess.run(
            command_line(command, arguments),
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise KernelError(f"{shown} did not answer within {TIMEOUT_S} s.") from error
    except OSError as error:
        raise KernelError(f"{command} cannot be run: {error.strerror}.") from error


def failed(done: subprocess.CompletedProcess[bytes], shown: str) -> KernelError:
    """What a module command says that has failed."""
    message = done.stderr.decode(errors="replace")
    return KernelError(f"{shown} failed: {in_one_line(message)}", detail=message)


def command_line(command: str, arguments: tuple[str, ...]) -> list[str]:
    """The command that prints what ``module ARGUMENTS`` says or would change, as Python."""
    return [command, "python", *arguments]


def parse(text: str, shown: str) -> tuple[dict[str, str | None], bool]:
    """Read what :func:`command_line` prints: the changes, and whether the modules were loaded.

    ``shown`` is the command as an error shows it. Assignments to ``os.environ`` and their deletion count; every
    other statement is passed over.

    Raises:
        KernelError: the text is no Python, or a variable would be something else than text.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Environment Modules 5.2 does not escape backslashes
            statements = _statements(text)
        changes = dict(change for statement in statements for change in _changes(statement))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise KernelError(
            f"{shown} printed something that is no list of variables ({error}). "
            "A modulefile that writes to standard output does this."
        ) from error
    return changes, not any(_says_failed(statement) for statement in statements)


def _statements(text: str) -> list[ast.stmt]:
    """The statements of a module system that escapes line breaks within a value as Python does not, or not at all."""
    text = text.replace("\\\n", "\\n")  # Lmod
    try:
        return ast.parse(text).body
    except SyntaxError:  # Environment Modules
        return ast.parse(re.sub(r"\n(?!import |os\.|del |_mlstatus |\Z)", r"\\n", text)).body


def _changes(statement: ast.stmt) -> Iterator[tuple[str, str | None]]:
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            if (name := _variable(target)) is not None:
                yield name, _text(statement.value)
    elif isinstance(statement, ast.Delete):
        for target in statement.targets:
            if (name := _variable(target)) is not None:
                yield name, None


def _variable(target: ast.expr) -> str | None:
    """The name in ``os.environ['NAME']``; None for any other target."""
    if not isinstance(target, ast.Subscript) or ast.unparse(target.value) != "os.environ":
        return None
    name = _text(target.slice)
    if not name or "=" in name:
        raise ValueError(f"{name!r} is no name of a variable")
    return name


def _text(expression: ast.expr) -> str:
    value = expression.value if isinstance(expression, ast.Constant) else None
    if not isinstance(value, str) or "\0" in value:
        raise ValueError(f"line {expression.lineno}: {ast.unparse(expression)[:80]} is no plain text")
    return value


def _says_failed(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and ast.unparse(statement) == "_mlstatus = False"


def in_one_line(text: str) -> str:
    """What a module system says about a fault, without its colours and line breaks."""
    plain = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)
    lines = [line.strip().removeprefix("ERROR: ") for line in plain.splitlines()]
    joined = " ".join(line for line in lines if line)
    if len(joined) > 300:
        return f"{joined[:299]}…"
    return joined or "it gave no reason."
