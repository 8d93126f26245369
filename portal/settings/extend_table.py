"""``[extend]``: more time for a session that runs: how often, how much, for whom."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from portal.settings.session_tables import ForSome
from portal.settings.values import Hours, Name

MOST_TIMES = 100


class ExtendTable(ForSome):
    """``[extend]``: nobody has it where ``times`` is 0; everybody where neither groups nor people are named."""

    times: Annotated[int, Field(ge=0, le=MOST_TIMES)] = 0  # how often, for one session; 0 = not at all
    hours: Hours = 4  # at most so many more at a time
    hours_total_max: Hours = 24  # a session's hours, all extensions included
    account: Name = "slurm"  # an operator of Slurm, as whom sudo lets the hub run portal-extend

    def is_for(self, person: str, groups: frozenset[str]) -> bool:
        """Whether somebody's sessions may be given more time."""
        return self.times > 0 and (not (self.groups or self.people) or self.fits(person, groups))
