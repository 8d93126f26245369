"""How many hours a session may have in a partition, and what says so: settings, Slurm, a maintenance. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from portal.forecasts import words
from portal.forecasts.picture import Picture
from portal.forecasts.places import Ask
from portal.forecasts.starts import hours_before
from portal.forecasts.words import Text
from portal.language.texts import _
from portal.settings.session_tables import PartitionTable
from portal.site import Site


@dataclass(frozen=True)
class HoursLimit:
    """The limit of one partition for one person.

    ``most`` is what the settings allow; ``wise`` is how many of these Slurm takes, and which end before a maintenance
    (0 = none does).
    """

    most: int
    wise: int
    words: Text


def limit(
    settings: Site, site: Site, partition: PartitionTable, picture: Picture | None, ask: Ask, now: datetime
) -> HoursLimit:
    """The limit of a partition.

    Arguments:
        settings: as the file says; ``site`` and ``partition`` are as this person has them.
        picture: ``None`` where nothing is known of now.
    """
    most = site.hours_max(partition)
    wise = most
    text: Text = (f"{_whose(settings, site, partition).format(partition=partition.name)}: {most} h.",)
    if picture is None:
        return HoursLimit(most, wise, text)
    slurms = picture.partitions.get(partition.name)
    if slurms and slurms.time_limit_min is not None and slurms.time_limit_min < most * 60:
        wise = slurms.time_limit_min // 60
        least = _(" Slurm itself takes at most {time} in {partition}.")
        text = (*text, least.format(time=words.time(slurms.time_limit_min), partition=partition.name))
    closing = hours_before(picture.places.get(partition.name, ()), ask, now)
    if closing and closing[0] < wise:
        wise, closure = closing
        text = (*text, " ", *words.closing(partition.name, wise, closure, now))
    return HoursLimit(most, wise, text)


def _whose(settings: Site, site: Site, partition: PartitionTable) -> str:
    """Whose limit the settings' is."""
    most = site.hours_max(partition)
    if not partition.hours_max or partition.hours_max > most:
        return _("The limit of this portal")
    of_all = next((one.hours_max for one in settings.partitions if one.name == partition.name), None)
    return _("Your limit in {partition}") if of_all != partition.hours_max else _("The limit of {partition}")
