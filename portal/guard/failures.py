"""What people read of an answer that is a failure: what happened, whose turn it is, what to do, and an id.

The id is in a line of the hub's log too, which has the reason: beside the exception, where there was one.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, replace
from http.client import responses

from tornado import web

from portal.language.texts import N_, _

YOURS = N_("Your turn.")
ADMINISTRATORS = N_("Your administrator’s turn.")
NOBODYS = N_("Nobody’s turn: it needs some time.")
LONGEST_MESSAGE = 4000
OF_A_FORM = N_("The page was open for too long, or the browser keeps no cookies. Load it again, then do it once more.")


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
    def shown(self) -> Failure:
        """The same in the reader's language."""
        return Failure(_(self.title), _(self.happened), _(self.turn), _(self.advice))

    @property
    def words(self) -> str:
        """All of it in one line."""
        return f"{self.title}. {self.happened} {self.turn} {self.advice}"


FAILURES = {
    400: Failure(
        N_("This request makes no sense here"),
        N_("The portal could not make anything of what was sent."),
        YOURS,
        N_("Go back, check what you entered, and try again."),
    ),
    403: Failure(
        N_("You may not do this"),
        N_("The portal did nothing, because this is not open to you."),
        YOURS,
        N_(
            "If you have been away for long, sign in again. If you think you should be allowed, ask your administrator."
        ),
    ),
    404: Failure(
        N_("There is nothing here"),
        N_("No page of the portal has this address, or it is not open to you."),
        YOURS,
        N_("The address may be mistyped, or the thing is gone. Go on from My Server."),
    ),
    405: Failure(
        N_("This address cannot be used like that"),
        N_("The address is right, but not for this."),
        YOURS,
        N_("Go back, and use the links and buttons of the page."),
    ),
    409: Failure(
        N_("Something else came first"),
        N_("What the page showed is not so any more."),
        YOURS,
        N_("See on My Server how it is now, then try again."),
    ),
    413: Failure(
        N_("That was too big"),
        N_("A page of the portal takes up to 1 MB."),
        YOURS,
        N_("Send less. Files are uploaded in JupyterLab, which has no such limit."),
    ),
    424: Failure(
        N_("My Server is not running"),
        N_("There is no session at this address now. Your files are where you left them."),
        YOURS,
        N_("Start it from My Server."),
    ),
    429: Failure(
        N_("Too many at once"),
        N_("The portal was asked too often in a short time, and did nothing this time."),
        NOBODYS,
        N_("Wait a minute, then try again."),
    ),
    431: Failure(
        N_("Too many cookies"),
        N_("Your browser, or a program, sends more cookies or headers to this address than the portal reads."),
        YOURS,
        N_("Delete the cookies of this address in your browser, then sign in again."),
    ),
    500: Failure(
        N_("Something went wrong in the portal"),
        N_("It is a fault of the portal, not of yours. Running sessions go on."),
        ADMINISTRATORS,
        N_("Try once more. If it stays, send your administrator the id of this answer: the hub’s log has the reason."),
    ),
    502: Failure(
        N_("The session gave no proper answer"),
        N_("It may have ended, or is just ending."),
        YOURS,
        N_("See on My Server how it is now; if it has ended, start it again."),
    ),
    503: Failure(
        N_("A part of the portal does not answer"),
        N_("Nothing was done. Running sessions go on."),
        NOBODYS,
        N_("Wait a minute, then try again. If it lasts, send your administrator the id of this answer."),
    ),
    504: Failure(
        N_("The answer took too long"),
        N_("What was asked for may be slow, or its node out of reach."),
        NOBODYS,
        N_("Wait a minute, then try again. My Server shows how your session is."),
    ),
}
SESSION_SILENT = Failure(
    N_("The session does not answer"),
    N_("It may still be starting, or its node is out of reach."),
    NOBODYS,
    N_("Wait a minute, then load the page again. My Server shows how your session is."),
)
HUB_IS_BACK = Failure(
    N_("The portal restarts"),
    N_("Nothing was done. Running sessions go on."),
    NOBODYS,
    N_("This page loads itself again within seconds."),
)
_SEND_ID = N_("Starting again changes nothing: send your administrator the id of this answer.")
# Of starts, by the reason of the error (docs/reference/errors.md): whose turn it is does not follow from the status.
STARTS = {
    "slurm_unavailable": (NOBODYS, N_("Wait a minute, then start again. Running sessions go on.")),
    "submit_refused": (
        YOURS,
        N_("Choose otherwise, and start again; what Slurm allows you, your administrator knows."),
    ),
    "session_ended": (YOURS, N_("See what is said of its end, and start again with other choices where that helps.")),
    "account_gone": (ADMINISTRATORS, _SEND_ID),
    "acting_refused": (
        ADMINISTRATORS,
        _SEND_ID,
    ),
    "site": (ADMINISTRATORS, _SEND_ID),
}
OTHER = Failure(N_("This was not possible"), N_("The portal did nothing."), YOURS, N_("Go back and try again."))


def failure_of(status: int) -> Failure:
    """What is said of an HTTP status."""
    return (FAILURES.get(status) or (FAILURES[500] if status >= 500 else OTHER)).shown


def start_failure(status: int, reason: str) -> Failure:
    """What is said of a start that came to nothing; ``reason`` is that of the error."""
    usual = failure_of(status)
    turn, advice = STARTS.get(reason, (usual.turn, usual.advice))
    return replace(usual, turn=_(turn), advice=_(advice))


def plain(message: str) -> str:
    """A message of JupyterHub's as a person reads it, and not longer than a page."""
    return _(OF_A_FORM) if "_xsrf" in message or "XSRF" in message else message[:LONGEST_MESSAGE]


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
    id_words = _("Id of this answer, in the hub's log too: {id}").format(id=failure_id)
    return f"{failure_of(status).words}\n{id_words}\n"


def said_by(error: BaseException | None, *, is_own: bool) -> str:
    """What an error says; a fault of the hub says nothing.

    Arguments:
        is_own: to the person; the lines after the first one are of her log, and nobody else's to read.
    """
    words = error.get_message() if isinstance(error, web.HTTPError) else ""
    said = str(getattr(error, "jupyterhub_message", words) or "")
    return said if is_own else said.partition("\n")[0]
