"""What is meant to differ from JupyterHub's own spawner: each of its tests that fails on ours, and why.

``conftest.py`` holds this table to be exact: a test that is listed must fail with the words ``seen`` in its error, and
one that is not listed must pass.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """Why a test of JupyterHub fails here, and what of its error shows that it fails for this reason."""

    reason: str
    seen: str


_STATUS = "a session that was stopped is a cancelled job: its exit status is 1, and 0 only for COMPLETED"
_SIGNAL = "how a session ended is Slurm's word about its job, not the signal of a process"
_PROCESS = "a setting of local processes; a session is started by the site's constant batch script"
_CHECKED = "options that the site does not offer are refused, at every door (docs/reference/http.md)"
_TOKEN = "a session announces its port with its token, before JupyterHub takes over a token that a spawner brings"
_PROGRESS = "the waiting page tells what Slurm does with the job, in our words"

_FAILURES = "what nobody thought of is told in our words and with an id, not in those of the exception"

DIFFERENCES = {
    "test_spawner.py::test_single_user_spawner": Difference(_STATUS, "== 0"),
    "test_spawner.py::test_stop_spawner_sigint_fails": Difference(_SIGNAL, "== -<Signals.SIGTERM"),
    "test_spawner.py::test_stop_spawner_stop_now": Difference(
        f"{_SIGNAL}; a stop that does not wait does not ask for it either", "== -<Signals.SIGTERM"
    ),
    "test_spawner.py::test_popen_kwargs": Difference(_PROCESS, "no attribute 'kwargs'"),
    "test_spawner.py::test_shell_cmd": Difference(_PROCESS, "KeyError: 'TESTVAR'"),
    "test_spawner.py::test_apply_user_options_dict": Difference(_PROCESS, "no attribute 'term_timeout'"),
    "test_spawner.py::test_spawner_insert_api_token": Difference(_TOKEN, "failed with exit code 1"),
    "test_spawner.py::test_spawner_bad_api_token": Difference(
        f"{_TOKEN}; somebody else's is refused there", "failed with exit code 1"
    ),
    "test_spawner.py::test_predefined_options_from_form[default]": Difference(_CHECKED, "'single' is not possible"),
    "test_api.py::test_spawn": Difference(_CHECKED, "assert 400 == 201"),
    "test_api.py::test_user_options": Difference(_CHECKED, "assert 400 == 201"),
    "test_api.py::test_spawn_handler": Difference(
        "of its environment a session gets JupyterHub's own variables only", "assert 'HANDLER_ARGS' in"
    ),
    "test_api.py::test_spawn_error_log": Difference(_FAILURES, "Something went wrong in the portal"),
    "test_api.py::test_progress_bad": Difference(_FAILURES, "It is a fault of the portal"),
    "test_api.py::test_progress": Difference(_PROGRESS, "'progress': 50"),
    "test_api.py::test_progress_bad_slow": Difference(_PROGRESS, "== 50"),
}


def fault(known: Difference | None, error: BaseException | None) -> str:
    """What is wrong with a test that ended so and has this line; ``""`` when nothing is."""
    if known is None:
        return "differs, and has no line in differences.py" if error else ""
    if error is None:
        return "passes: take its line out of differences.py"
    if known.seen not in f"{type(error).__name__}: {error}":
        return f"differs in another way than its line in differences.py says: {known.seen}"
    return ""
