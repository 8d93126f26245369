"""What the hub says when a session announces its port; a session's first lines import this, so it needs little."""

from __future__ import annotations

from email.message import Message

from portal.assets.offered import HEADER, hubs_lab
from portal.session_settings import ENDS_AT
from portal.session_usage.end_time import end_time


def take(headers: Message) -> None:
    """Keep what stands in the headers of an answer: the key of the hub's JupyterLab, and the session's end."""
    hubs_lab.key = headers.get(HEADER, "")
    end_time.hear(headers.get(ENDS_AT, ""))
