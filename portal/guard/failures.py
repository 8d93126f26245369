"""What people read of an answer that is a failure: what happened, whose turn it is, what to do, and an id.

The id is in a line of the hub's log too, which has the reason: beside the exception, where there was one.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, replace
from http.client import responses

YOURS = "Your turn."
ADMINISTRATORS = "Your administrator’s turn."
NOBODYS = "Nobody’s turn: it needs some time."
LONGEST_MESSAGE = 4000
OF_A_FORM = "The page was open for too long, or the browser keeps no cookies. Load it again, then do it once more."


@dataclass(frozen=True)
class Failure:
    """One kind of failure.

    Attributes:
        title: the heading of the page.
        happened: what to say where nothing better is known.
        turn: whose turn it is.
        advice: what to do.
    """

    title: str
    happened: str
    turn: str
    advice: str

    @property
    def words(self) -> str:
        """All of it in one line."""
        return f"{self.title}. {self.happened} {self.turn} {self.advice}"


FAILURES = {
    400: Failure(
        "This request makes no sense here",
        "The portal could not make anything of what was sent.",
        YOURS,
        "Go back, check what you entered, and try again.",
    ),
    403: Failure(
        "You may not do this",
        "The portal did nothing, because this is not open to you.",
        YOURS,
        "If you have been away for long, sign in again. If you think you should be allowed, ask your administrator.",
    ),
    404: Failure(
        "There is nothing here",
        "No page of the portal has this address, or it is not open to you.",
        YOURS,
        "The address may be mistyped, or the thing is gone. Go on from My Server.",
    ),
    405: Failure(
        "This address cannot be used like that",
        "The address is right, but not for this.",
        YOURS,
        "Go back, and use the links and buttons of the page.",
    ),
    409: Failure(
        "Something else came first",
        "What the page showed is not so any more.",
        YOURS,
        "See on My Server how it is now, then try again.",
    ),
    413: Failure(
        "That was too big",
        "A page of the portal takes up to 1 MB.",
        YOURS,
        "Send less. Files are uploaded in JupyterLab, which has no such limit.",
    ),
    424: Failure(
        "My Server is not running",
        "There is no session at this address now. Your files are where you left them.",
        YOURS,
        "Start it from My Server.",
    ),
    429: Failure(
        "Too many at once",
        "The portal was asked too often in a short time, and did nothing this time.",
        NOBODYS,
        "Wait a minute, then try again.",
    ),
    500: Failure(
        "Something went wrong in the portal",
        "It is a fault of the portal, not of yours. Running sessions go on.",
        ADMINISTRATORS,
        "Try once more. If it stays, send your administrator the id of this answer: the hub’s log has the reason.",
    ),
    502: Failure(
        "The session gave no proper answer",
        "It may have ended, or is just ending.",
        YOURS,
        "See on My Server how it is now; if it has ended, start it again.",
    ),
    503: Failure(
        "A part of the portal does not answer",
        "Nothing was done. Running sessions go on.",
        NOBODYS,
        "Wait a minute, then try again. If it lasts, send your administrator the id of this answer.",
    ),
    504: Failure(
        "The answer took too long",
        "What was asked for may be slow, or its node out of reach.",
        NOBODYS,
        "Wait a minute, then try again. My Server shows how your session is.",
    ),
}
SESSION_SILENT = Failure(
    "The session does not answer",
    "It may still be starting, or its node is out of reach.",
    NOBODYS,
    "Wait a minute, then load the page again. My Server shows how your session is.",
)
HUB_IS_BACK = Failure(
    "The portal restarts",
    "Nothing was done. Running sessions go on.",
    NOBODYS,
    "This page loads itself again within seconds.",
)
_SEND = "Starting again changes nothing before: send your administrator the id of this answer."
# Of starts, by the reason of the error (docs/reference/errors.md): whose turn it is does not follow from the status.
STARTS = {
    "slurm_unavailable": (NOBODYS, "Wait a minute, then start again. Running sessions go on."),
    "submit_refused": (YOURS, "Choose otherwise, and start again; what Slurm allows you, your administrator knows."),
    "session_ended": (YOURS, "See what is said of its end, and start again with other choices where that helps."),
    "account_gone": (ADMINISTRATORS, "Starting again changes nothing: send your administrator the id of this answer."),
    "acting_refused": (
        ADMINISTRATORS,
        "Starting again changes nothing: send your administrator the id of this answer.",
    ),
    "site": (ADMINISTRATORS, "Starting again changes nothing: send your administrator the id of this answer."),
}
OTHER = Failure("This was not possible", "The portal did nothing.", YOURS, "Go back and try again.")


def failure_of(status: int) -> Failure:
    """What is said of an HTTP status."""
    return FAILURES.get(status) or (FAILURES[500] if status >= 500 else OTHER)


def start_failure(status: int, reason: str) -> Failure:
    """What is said of a start that came to nothing; ``reason`` is that of the error."""
    usual = failure_of(status)
    turn, advice = STARTS.get(reason, (usual.turn, usual.advice))
    return replace(usual, turn=turn, advice=advice)


def plain(message: str) -> str:
    """A message of JupyterHub's as a person reads it, and not longer than a page."""
    return OF_A_FORM if "_xsrf" in message or "XSRF" in message else message[:LONGEST_MESSAGE]


def new_id() -> str:
    """Short enough to be read out on the telephone."""
    return secrets.token_hex(4)


def completed(answer: str, status: int, failure_id: str) -> str:
    """JupyterHub's JSON of a failure: with our words where it has no message but the status, and with its id."""
    told = json.loads(answer)
    if told["message"] in (None, "", responses.get(status)):
        told["message"] = failure_of(status).words
    return json.dumps({**told, "id": failure_id} if failure_id else told)


def in_plain_text(status: int, failure_id: str) -> str:
    """A failure where no page can be made."""
    return f"{failure_of(status).words}\nId of this answer, in the hub's log too: {failure_id}\n"
