"""The sessions that have ended as the home page lists them. Pure: records in, words and links out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from portal.history import reasons
from portal.history.cure import Offered, again, cure_of
from portal.history.receipt import words
from portal.history.record import EndedSession, moment
from portal.language import amounts
from portal.language.texts import _
from portal.site import Identity, Site


@dataclass(frozen=True)
class Row:
    """One session that has ended. Times are ISO 8601 with their zone, ``""`` where they are not known.

    Attributes:
        key: the session's own; the page has the row at ``#ended-KEY``.
        asked: what was asked for, in a few words.
        facts: what more is known, each with its name; ``used`` is its receipt in the same way, empty without one.
        again: the query of a link to the form with the same choices; ``more_query`` is that of the cure.
    """

    key: str
    asked: str
    name: str
    reason: str
    submitted_at: str
    started_at: str
    ended_at: str
    lasted: str
    facts: tuple[tuple[str, str], ...]
    log: str
    place: str
    again: str
    fact: str = ""
    more: str = ""
    more_query: str = ""
    used: tuple[tuple[str, str], ...] = ()


def rows(ended: Iterable[EndedSession], site: Site, identity: Identity) -> list[Row]:
    """What the page shows, for this person on this site as they are now."""
    offer = Offered.of(site, identity)
    return [_row(one, offer) for one in ended]


def _row(one: EndedSession, offer: Offered) -> Row:
    cure = cure_of(one, offer)
    return Row(
        key=one.key,
        asked=_asked(one, offer.site),
        name=one.name,
        reason=reasons.shown(one.reason),
        submitted_at=moment(one.submitted_at),
        started_at=moment(one.started_at),
        ended_at=moment(one.ended_at),
        lasted=_duration(one.ended_at - one.started_at) if one.started_at else "",
        facts=tuple(_facts(one)),
        log=one.log,
        place=f"{quote(offer.identity.name, safe='')}/{quote(one.name, safe='')}" if one.name else "",
        again=link(again(one, offer)),
        fact=cure.fact if cure else "",
        more=cure.more if cure else "",
        more_query=link(cure.options) if cure else "",
        used=tuple(words(one.receipt)) if one.receipt and one.receipt.seconds else (),
    )


def link(options: Mapping[str, object]) -> str:
    """Options as the form takes them out of an address."""
    return urlencode({f"opt-{key}": str(value) for key, value in options.items()})


def _asked(one: EndedSession, site: Site) -> str:
    """``2 GPUs (Tesla V100), 16 cores, 96 GB, 8 h in sxm2``; what is not known is left out."""
    gpus, hours, kind = (one.options.get(key) for key in ("gpus", "hours", "gpu"))
    words = []
    if isinstance(gpus, int):
        named = f" ({site.gpu(str(kind)).title or kind})" if kind else ""
        words.append(f"{amounts.gpus(gpus)}{named}" if gpus else _("No GPU"))
    words += [amounts.cores(one.cores)] if one.cores else []
    words += [f"{one.memory_mib // 1024} GB"] if one.memory_mib else []
    words += [f"{hours} h"] if hours else []
    partition = one.options.get("partition")
    return ", ".join(words) + (_(" in {partition}").format(partition=partition) if partition else "")


def _facts(one: EndedSession) -> Iterable[tuple[str, str]]:
    labels = {
        "account": _("Account"),
        "qos": _("QOS"),
        "reservation": _("Reservation"),
        "constraint": _("Nodes"),
        "licenses": _("Licences"),
    }
    known = [(_("Slurm job"), one.job_id), (_("Node"), one.node), (_("Slurm's last state"), one.state)]
    known += [(label, str(one.options.get(key) or "")) for key, label in labels.items()]
    return [(label, value) for label, value in known if value]


def _duration(seconds: int) -> str:
    """``2 h 5 min``, ``40 s``; ``""`` of clocks that disagree."""
    if seconds < 0:
        return ""
    if seconds < 60:
        return f"{seconds} s"
    hours, minutes = divmod(seconds // 60, 60)
    return " ".join(filter(None, (f"{hours} h" if hours else "", f"{minutes} min" if minutes or not hours else "")))
