"""What the hub tells a session of its own JupyterLab; a session's first lines import this, so it needs nothing."""

from __future__ import annotations

ADDRESS = "dsportal/lab"  # below the hub's own path; then the key, then the file
HEADER = "Dsportal-Lab"  # in which the hub tells a session its key


class HubsLab:
    """What the hub has said last: the key of its JupyterLab, or ``""``.

    The hub says it whenever the session announces its port. One of another version has another key, or none, and then
    the session's page loads its own files, as it does until the hub has said something.
    """

    def __init__(self) -> None:
        self.key = ""


hubs_lab = HubsLab()
