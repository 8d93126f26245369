"""One plain line in the hub's log for what is the person's own to mend; a real fault keeps its traceback.

JupyterHub (6.1, SpawnHandler and Spawner) logs each refused start with its traceback, the link that somebody followed
too, and each body that is no JSON (APIHandler).
"""

from __future__ import annotations

import logging

from jupyterhub.spawner import SpawnException

from portal.guard.failures import LONGEST_MESSAGE, YOURS, start_failure

NO_JSON = "Couldn't parse JSON"


def in_one_line(record: logging.LogRecord) -> bool:
    """A filter for the hub's logger: who, and what was refused, in place of a refusal's traceback."""
    error = record.exc_info[1] if record.exc_info else None
    if record.msg == NO_JSON:
        record.exc_info = None
    if isinstance(error, SpawnException) and start_failure(error.status_code, error.reason).turn == YOURS:
        who = getattr(record, "who", "")
        what = error.jupyterhub_message.partition("\n")[0][:LONGEST_MESSAGE]
        record.msg = f"{f'Not started for {who}' if who else record.getMessage()}: {what}"
        record.args = ()
        record.exc_info = None
        record.levelno = logging.INFO
        record.levelname = logging.getLevelName(logging.INFO)
    return True
