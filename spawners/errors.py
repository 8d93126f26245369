"""The portal's errors as JupyterHub shows them: words for the person, a short reason for the metric."""

from __future__ import annotations

from jupyterhub.spawner import SpawnException

from portal.errors import PortalError
from portal.history import reasons
from portal.history.record import without_secrets


class StartRefused(SpawnException):  # type: ignore[misc]
    """A start that did not happen, or ended early.

    The first line of the words says what happened and what to do; the lines after it (Slurm's own words, the
    last lines of a log) are shown as they are, but for what is said to be a secret. JupyterHub takes
    ``jupyterhub_message`` for its pages and for REST answers alike.
    """

    def __init__(self, error: PortalError, status_code: int = 400, lines: str = "") -> None:
        told = reasons.shown(error.message)
        shown = without_secrets(lines, "").strip()
        words = f"{told}\n{shown}" if shown else told
        super().__init__(words, reason=error.reason, log_message=error.detail, status_code=status_code)
        self.jupyterhub_message = words
