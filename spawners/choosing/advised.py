"""The advice above the form: what the last sessions show, each with a link that fills in the smaller choice."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from sqlalchemy.exc import SQLAlchemyError

from portal.history.advice import advice
from portal.history.cure import Offered
from portal.history.record import EndedSession
from portal.request import SessionRequest
from portal.site import Identity, Site
from spawners import form

LOG = logging.getLogger(__name__)


def advised(
    records: Callable[[], Sequence[EndedSession]], request: SessionRequest, site: Site, identity: Identity, opens: str
) -> str:
    """The advice as HTML; nothing where there is none, or where the hub's database does not answer.

    Arguments:
        records: answers the person's sessions that have ended, the newest first.
        opens: where the session shall open, which the links keep.
    """
    try:
        found = advice(request, records(), Offered.of(site, identity))
    except SQLAlchemyError as error:
        LOG.error("The form comes without advice: the hub's database does not answer: %s", error)
        return ""
    if not found:
        return ""
    told = [(one.fact, one.less, f"?{form.query(one.options, opens)}") for one in found]
    return form.filled("advice.html", advice=told)
