"""``[[profile]]``: sessions that the site has made up, as cards of the form."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from portal.settings.values import Count, Group, Hours, Name, OptionalPath, Positive, Table


class FixedTable(Table):
    """``[profile.fixed]``: the options of a session that nobody changes in this profile."""

    partition: Name | None = None
    gpus: Count | None = None
    hours: Hours | None = None
    gpu: Name | None = None
    cores: Positive | None = None
    memory_gb: Positive | None = None
    account: str | None = None
    qos: str | None = None
    reservation: str | None = None
    constraint: str | None = None
    licenses: str | None = None
    mail_type: str | None = None

    def values(self) -> dict[str, object]:
        """The options that are fixed, and to what."""
        return {key: value for key, value in self if value is not None}


class ProfileTable(Table):
    """``[[profile]]``: what is fixed is everybody's who chooses it; the other options are free."""

    name: Name
    title: Annotated[str, Field(min_length=1, max_length=80)]
    description: Annotated[str, Field(max_length=300)] = ""
    picture: OptionalPath = ""  # a PNG, JPEG or WebP file that only root can change
    groups: tuple[Group, ...] = ()  # who sees it; empty = everybody who has a partition that fits
    fixed: FixedTable | None = None
