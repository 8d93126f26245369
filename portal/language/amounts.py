"""Numbers of things, and moments, in words, in the language that is spoken now. Pure."""

from __future__ import annotations

from datetime import datetime

from portal.language.texts import _, language, ngettext


def gpus(count: int) -> str:
    """``0 GPUs``, ``1 GPU``, ``4 GPUs``."""
    return ngettext("{number} GPU", "{number} GPUs", count).format(number=count)


def gpus_or_none(count: int) -> str:
    """``no GPU``, ``1 GPU``, ``4 GPUs``."""
    return gpus(count) if count else _("no GPU")


def cores(count: int) -> str:
    """``1 core``, ``8 cores``."""
    return ngettext("{number} core", "{number} cores", count).format(number=count)


def figure(text: str) -> str:
    """A number as English writes it, ``1,240.5``, with the marks of the language that is spoken now."""
    return text.translate(str.maketrans(",.", _(",.")))


def weekday_and_time(moment: datetime) -> str:
    """``Wed 14:05 CET``, in the zone of this host."""
    from babel.dates import get_day_names  # the hub's alone

    local = moment.astimezone()
    return f"{get_day_names('abbreviated', locale=language())[local.weekday()]} {local:%H:%M %Z}"
