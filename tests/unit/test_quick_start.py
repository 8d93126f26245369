"""The quick start: only with the releases it was made for, and with nothing missing afterwards."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from portal.forwarding import ports
from portal.singleuser import quick_start

LOCK = Path(__file__).parents[2] / "deploy" / "locks" / "portal.lock"


def run(script: str) -> str:
    """What a fresh interpreter prints that runs ``script``; none of its imports are there before."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_releases_it_was_made_for_are_those_of_the_lock() -> None:
    locked = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", LOCK.read_text(), re.MULTILINE))
    assert {package: locked[package] for package in quick_start.PINS} == quick_start.PINS


def test_another_release_means_the_stock_start_and_a_line_in_the_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert quick_start.is_wanted({})
    installed = quick_start.PINS["jupyterhub"]
    monkeypatch.setitem(quick_start.PINS, "jupyterhub", "6.0.0")
    monkeypatch.setitem(quick_start.PINS, "no-such-package", "1.0")

    assert not quick_start.is_wanted({})
    assert f"known to work with jupyterhub {installed}, no-such-package (not installed)." in capsys.readouterr().out


@pytest.mark.parametrize(("given", "wanted"), [("0", False), ("1", True), ("", True)])
def test_a_site_turns_it_off_by_a_variable(given: str, wanted: bool) -> None:
    assert quick_start.is_wanted({quick_start.SWITCH: given}) is wanted


def test_the_single_user_server_is_imported_without_the_hub_its_database_and_the_grammars() -> None:
    found = run(
        "import sys, gc; from portal.singleuser import quick_start; quick_start.load(); assert not gc.isenabled();"
        "quick_start.settle(); assert gc.isenabled() and gc.get_freeze_count();"
        "left = ('sqlalchemy', 'alembic', 'rfc3987_syntax', 'lark', 'jupyterhub.orm', 'jupyterhub.handlers',"
        " 'requests', 'httpx', 'jupyterlab.extensions.pypi');"
        "print(*[name for name in sys.modules if name.startswith(left)])"
    )
    assert found == ""


MISSED: dict[str, object] = {
    "__import__('sqlalchemy').__file__.endswith('sqlalchemy/__init__.py')": True,
    "importlib.import_module('jupyterhub.orm').User.__tablename__": "users",
    "jupyterhub.scopes.orm.User.__tablename__": "users",
    "jupyterhub.scopes.roles.get_default_roles()[0]['name']": "user",
    "jupyterhub.scopes.sa.__name__ and jupyterhub.scopes.sa.func is not None": True,
    "importlib.import_module('jupyterhub.handlers.pages').HealthCheckHandler.__name__": "HealthCheckHandler",
    "importlib.import_module('rfc3987_syntax').is_valid_syntax_iri('no iri')": False,
    "jsonschema.FormatChecker().conforms('http://example.org/größe', 'iri')": True,
    "jsonschema.FormatChecker().conforms('no iri', 'iri')": False,
    "jsonschema.FormatChecker().conforms('<>', 'iri-reference')": False,
    "jupyterhub.metrics.prometheus_log_method.__module__": "jupyterhub.metrics",
    "jupyterlab.commands._yarn_config.__module__": "jupyterlab.commands",
    "type(importlib.import_module('jupyterlab.extensions').get_pypi_manager()).__name__": "PyPIExtensionManager",
    "importlib.import_module('jupyterlab_server.listings_handler').requests.request.__module__": "requests.api",
}
ASKED_IN_TURN = """
import importlib, json, os, sys, warnings
from portal.singleuser import quick_start
quick_start.load()
quick_start.settle()
import jsonschema, jupyterhub.scopes, jupyterhub.metrics, jupyterlab.commands
for expression in json.loads(sys.argv[1]):
    if not os.fork():
        print(json.dumps([expression, eval(expression)]), flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.fixture(scope="module")
def told_afterwards() -> dict[str, object]:
    """What each of these gets that is asked in a process of its own, all of which began with one quick start."""
    argv = [sys.executable, "-c", ASKED_IN_TURN, json.dumps(list(MISSED))]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    sys.stderr.write(done.stderr)  # of one that failed
    return dict(map(json.loads, done.stdout.splitlines()))


@pytest.mark.parametrize("expression", MISSED)
def test_nothing_is_missing_afterwards(told_afterwards: dict[str, object], expression: str) -> None:
    """Whoever asks for what was left out gets the real thing."""
    assert expression in told_afterwards, "it failed"
    assert told_afterwards[expression] == MISSED[expression]


def test_the_icons_of_the_web_tools_bring_no_settings_of_the_site_into_a_session() -> None:
    found = run(
        "import sys; from portal.singleuser import quick_start; quick_start.load();"
        "from portal.catalogue.icons import of_tool; assert '<svg' in of_tool('MLflow', None);"
        "print('pydantic' in sys.modules)"
    )
    assert found == "False", "a page that opens would wait for them"


SETTINGS = """
import json, pathlib, sys
from portal.singleuser import quick_start
quick_start.load()
from jsonschema import Draft7Validator
from jupyterlab_server import settings_utils
folder = pathlib.Path(sys.prefix) / "share" / "jupyter"
checked = []
stock = Draft7Validator.check_schema
Draft7Validator.check_schema = classmethod(lambda cls, schema, *rest, **more: checked.append(schema))
told, warnings = settings_utils.get_settings(
    str(folder / "lab"), str(folder / "lab" / "schemas"), "/nowhere", labextensions_path=[str(folder / "labextensions")]
)
try:
    settings_utils.save_settings(
        str(folder / "lab" / "schemas"), "/nowhere", "@jupyterlab/terminal-extension:plugin", '{"fontSize": "big"}', {}
    )
except Exception as error:
    refused = type(error).__name__
for one in told["settings"]:
    stock(one["schema"])
print(json.dumps([len(told["settings"]) > 50, len(checked), refused]))
"""


def test_installed_schemas_are_believed_and_what_people_set_is_validated() -> None:
    """Each of the schemas that is believed is right: that is checked here."""
    assert json.loads(run(SETTINGS)) == [True, 0, "ValidationError"]


def test_what_is_asked_of_a_stand_in_during_the_imports_is_a_surprise() -> None:
    code = (
        "from portal.singleuser import quick_start\n"
        "with quick_start.stand_ins(quick_start._of_jupyterhub()):\n    from jupyterhub import orm\n    orm.User\n"
    )
    with pytest.raises(AssertionError, match=r"AttributeError: jupyterhub\.orm\.User is needed at import"):
        run(code)


def test_a_module_that_is_loaded_already_is_never_replaced() -> None:
    with pytest.raises(AssertionError, match="RuntimeError: rfc3987_syntax came before the quick start"):
        run("import rfc3987_syntax; from portal.singleuser import quick_start; quick_start.load()")


def test_jupyterlab_asks_no_node(tmp_path: Path) -> None:
    node = tmp_path / "node"
    node.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\n")
    node.chmod(0o755)
    path = f"import os; os.environ['PATH'] = '{tmp_path}:' + os.environ['PATH']; "
    run(path + "from portal.singleuser import quick_start; quick_start.load()")
    assert not (tmp_path / "asked").exists()
    run(path + "import jupyterlab.labapp")
    assert (tmp_path / "asked").exists(), "the stock import asks: otherwise this test shows nothing"


def test_the_socket_is_handed_on_open_and_its_number_is_taken_out_of_the_environment() -> None:
    from portal.singleuser.server import port_of

    listener = ports.listen("127.0.0.1")
    port = port_of(listener)
    environ = {quick_start.LISTENER: str(listener.detach())}

    again = quick_start.handed_on(environ)

    assert again is not None
    with again:
        assert port_of(again) == port
        assert again.gettimeout() == 0
        assert not again.get_inheritable()
    assert environ == {}
    assert quick_start.handed_on(environ) is None
