"""What makes a session's server start in about half the time of a plain JupyterLab, and what undoes it.

Everything here depends on how certain releases are written inside, so it is used only with exactly these
releases (:data:`PINS`); with others, with ``DSPORTAL_QUICK=0``, or after any surprise the start is the stock one.
Measured in one start of JupyterHub 6.1.1's single-user server, 1.6 s of CPU in all:

- jsonschema imports rfc3987_syntax, which builds three grammars: 0.7 s, for two formats that hardly anything uses;
- jupyterhub's log module imports the whole hub with its database for one ``isinstance``: 0.3 s;
- the garbage collector visits modules that stay anyway again and again: 0.2 s;
- jupyterlab runs yarn for its registry where a node program is in the PATH: 0.3 s, for building extensions;
- jupyterlab imports two HTTP clients, for its extension manager and its lists of extensions: 0.06 s;
- jupyterlab_server checks 92 installed schemas each time that a page opens: 0.05 s, in which nothing else is answered.
"""

from __future__ import annotations

import gc
import importlib
import os
import socket
import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NoReturn

SWITCH = "DSPORTAL_QUICK"
LISTENER = "DSPORTAL_LISTENER"  # the number of the open socket that a failed quick start hands on
PINS = {  # as in deploy/locks/portal.lock; tests/unit/test_quick_start.py compares them
    "jsonschema": "4.26.0",
    "jupyter-server": "2.21.1",
    "jupyterhub": "6.1.1",
    "jupyterlab": "4.6.6",
    "jupyterlab-server": "2.28.1",
    "rfc3987-syntax": "1.1.0",
}


def is_wanted(environ: Mapping[str, str]) -> bool:
    """Whether this start is to be a quick one; says in the session's log when releases forbid it."""
    if environ.get(SWITCH) == "0":
        return False
    if others := unknown_releases():
        print(f"[portal] No quick start: it is not known to work with {', '.join(others)}.", flush=True)
    return not others


def unknown_releases() -> list[str]:
    """The packages of :data:`PINS` whose installed release is another one, each with that release."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for package in PINS:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "(not installed)"
    return [f"{package} {release}" for package, release in found.items() if release != PINS[package]]


def load() -> None:
    """Import the single-user server and JupyterLab without what a session does not need."""
    gc.disable()
    with stand_ins(_of_jupyterhub()):
        importlib.import_module("jupyterhub.singleuser.extension")
    with stand_ins(_of_jupyterlab()), without_node():
        importlib.import_module("jupyterlab.labapp")
    settings_utils: Any = importlib.import_module("jupyterlab_server.settings_utils")
    settings_utils.Validator = InstalledSchemas()


def settle() -> None:
    """Collect garbage again, from now on: what the start has left is kept out of it."""
    gc.freeze()
    gc.enable()


class StandIn(ModuleType):
    """Stands in ``sys.modules`` for a module that is not needed while others are imported.

    Those others keep it. An attribute that they read later comes from the real module, imported at that moment; one
    that is read during the imports raises AttributeError.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or sys.modules.get(self.__name__) is self:
            raise AttributeError(f"{self.__name__}.{name} is needed at import: the quick start does not know of that")
        return getattr(importlib.import_module(self.__name__), name)


def is_valid_syntax(term: str, value: str) -> bool:
    """rfc3987_syntax's function of that name, imported when it is called."""
    if isinstance(sys.modules.get("rfc3987_syntax"), StandIn):
        del sys.modules["rfc3987_syntax"]
    return bool(importlib.import_module("rfc3987_syntax").is_valid_syntax(term, value))


def without_grammars() -> None:
    """Put the grammars off until they are used; the hub itself starts faster by this, too."""
    if "rfc3987_syntax" not in sys.modules and not unknown_releases():
        sys.modules["rfc3987_syntax"] = _grammars()


def _grammars() -> ModuleType:
    """Stands in for rfc3987_syntax; its one function imports the real module when it is called."""
    grammars = StandIn("rfc3987_syntax")
    grammars.is_valid_syntax = is_valid_syntax  # type: ignore[attr-defined]
    return grammars


@contextmanager
def stand_ins(of_imports: Sequence[ModuleType]) -> Iterator[None]:
    """Stand-ins for what is imported and a session does not use; gone again afterwards.

    Raises:
        RuntimeError: one of the modules is loaded already.
    """
    modules = {module.__name__: module for module in of_imports}
    if loaded := sorted(modules.keys() & sys.modules.keys()):
        raise RuntimeError(f"{', '.join(loaded)} came before the quick start")
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, module in modules.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]


def _of_jupyterhub() -> list[ModuleType]:
    """jupyterhub 6.1.1: utils (catch_db_error), scopes, metrics and log (log_request); jsonschema 4.26: _format."""
    grammars = _grammars()
    errors = StandIn("sqlalchemy.exc")
    errors.SQLAlchemyError = type("SQLAlchemyError", (Exception,), {})  # type: ignore[attr-defined]
    handlers = StandIn("jupyterhub.handlers")
    pages = StandIn("jupyterhub.handlers.pages")
    pages.HealthCheckHandler = type("HealthCheckHandler", (), {})  # type: ignore[attr-defined]
    handlers.__path__ = []
    database = StandIn("sqlalchemy")
    database.__path__ = []
    return [grammars, database, errors, handlers, pages, StandIn("jupyterhub.orm"), StandIn("jupyterhub.roles")]


def _of_jupyterlab() -> list[ModuleType]:
    """jupyterlab 4.6: extensions (pypi; a session's is read-only); jupyterlab_server 2.28: listings (requests)."""
    from_pypi = StandIn("jupyterlab.extensions.pypi")
    from_pypi.PyPIExtensionManager = _pypi_manager  # type: ignore[attr-defined]
    return [from_pypi, StandIn("requests")]


def _pypi_manager(*arguments: Any) -> Any:
    """For a site that has people install extensions from there all the same."""
    return importlib.import_module("jupyterlab.extensions.pypi").PyPIExtensionManager(*arguments)


class InstalledSchemas:
    """Stands in for jsonschema's class that validates settings: that the schemas themselves are right is believed.

    They are files of installed packages. What a person sets is validated against them as before.
    """

    def __call__(self, schema: Mapping[str, Any]) -> Any:
        """A validator for settings of that schema."""
        from jsonschema import Draft7Validator

        return Draft7Validator(schema)

    def check_schema(self, _schema: Mapping[str, Any]) -> None:
        """Nothing."""


@contextmanager
def without_node() -> Iterator[None]:
    """While jupyterlab is imported, its settings of yarn are those of a host without node."""
    commands: Any = importlib.import_module("jupyterlab.commands")
    real = commands._yarn_config
    commands._yarn_config = lambda logger: {"yarn config": {}, "npm config": {}}
    try:
        yield
    finally:
        commands._yarn_config = real


def start_again(listener: socket.socket, environ: Mapping[str, str], why: BaseException) -> NoReturn:
    """Start this session once more, in a fresh interpreter and the stock way, on the very same socket.

    Arguments:
        environ: the environment that this process was started with.
    """
    print(f"[portal] The quick start failed ({type(why).__name__}: {why}). The stock start follows.", flush=True)
    listener.set_inheritable(True)
    again = {**environ, LISTENER: str(listener.fileno())}
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], again)  # noqa: S606  the same command once more


def handed_on(environ: MutableMapping[str, str]) -> socket.socket | None:
    """The listening socket of a quick start that failed in this very process; its number is taken out."""
    if LISTENER not in environ:
        return None
    listener = socket.socket(fileno=int(environ.pop(LISTENER)))
    listener.set_inheritable(False)
    listener.setblocking(False)
    return listener
