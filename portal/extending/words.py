"""What a person reads of more time for a session: an answer of portal-extend in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from portal.errors import PortalError
from portal.language.texts import N_, _, ngettext
from portal.settings.extend_table import ExtendTable

NOT_FOR_YOU = N_(
    "This site gives this session no more time while it runs. Save your work before the end, and start a new session "
    "with more hours; or ask your administrator."
)
NO_ANSWER = N_(
    "The session could not be given more time: the portal's step for it does not work. Tell your administrator "
    "(portal doctor)."
)
NOT_RUNNING = N_("This session does not run, so there is no time to give.")
GOES_ON = N_("More time is being asked for already, for one of your sessions. Look again in a moment.")
_SAVE = N_("Save your work before the end, and start a new session.")
_TIMES = N_("This session got more time as often as this site allows ({times}).")
_TOTAL = N_("This session has all the hours that this site gives one, extensions included ({hours}).")
_PARTITION = N_("This session has all the hours that its Slurm partition gives a job.")
_RESERVED = N_("Slurm has reserved the node of this session from {at} on, as for maintenance.")
_ASKED = N_("{asked} more are not possible now. Allowed: up to {most} more. Ask for less.")


class ExtensionRefused(PortalError):
    """A session gets no more time, or not as much as was asked for; nothing was changed."""

    reason = "extension"

    def __init__(self, message: str, status: int = 409) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class MoreTime:
    """What may be given, or what was.

    Attributes:
        minutes: at most so many more; 0 = none, and ``words`` say why.
        times_left: how often it may still be done.
        ends_at: when the session ends as it is, in seconds since 1970.
        words: what keeps it from being more.
    """

    minutes: int
    times_left: int
    ends_at: int
    words: str = ""

    def as_json(self) -> dict[str, object]:
        """What the REST API says."""
        return {
            "minutes": self.minutes, "times_left": self.times_left, "ends_at": self.ends_at, "words": self.words,
        }  # fmt: skip


def more_time(answer: Mapping[str, object], rule: ExtendTable) -> MoreTime:
    """An answer of ``look``, or of an ``extend`` that was done."""
    minutes = _number(answer, "minutes")
    words = "" if minutes else why_none(answer, rule)
    return MoreTime(minutes, _number(answer, "times_left"), _number(answer, "ends_at"), words)


def refused(answer: Mapping[str, object], rule: ExtendTable, asked_min: int) -> ExtensionRefused:
    """The error for what portal-extend has refused."""
    why = answer.get("refused")
    if why == "asked":
        most = duration(_number(answer, "minutes"))
        return ExtensionRefused(_(_ASKED).format(asked=duration(asked_min), most=most), status=400)
    if why in ("off", "person"):
        return ExtensionRefused(_(NOT_FOR_YOU), status=403)
    if why in ("ended", "other"):
        return ExtensionRefused(_(NOT_RUNNING))
    return ExtensionRefused(why_none(answer, rule))


def why_none(answer: Mapping[str, object], rule: ExtendTable) -> str:
    """What keeps a session from more time, and what to do."""
    bound = answer.get("bound")
    if bound == "times":
        words = _(_TIMES).format(times=ngettext("once", "{n} times", rule.times).format(n=rule.times))
    elif bound == "total":
        words = _(_TOTAL).format(hours=duration(rule.hours_total_max * 60))
    elif bound == "reservation":
        at = datetime.fromtimestamp(_number(answer, "taken_at"), UTC).astimezone()
        words = _(_RESERVED).format(at=f"{at:%Y-%m-%d %H:%M %Z}")
    else:
        words = _(_PARTITION)
    return f"{words} {_(_SAVE)}"


def duration(minutes: int) -> str:
    """``2 h 30 min``."""
    hours, rest = divmod(minutes, 60)
    return " ".join([*([f"{hours} h"] if hours else []), *([f"{rest} min"] if rest or not hours else [])])


def _number(answer: Mapping[str, object], name: str) -> int:
    value = answer.get(name)
    return value if type(value) is int else 0
