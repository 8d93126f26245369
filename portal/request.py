"""What one person asks for, and whether this site gives it to them.

The same check is behind the form, the REST API and saved options: :func:`checked` takes whatever
arrived and either returns a complete :class:`SessionRequest` or says what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace

from portal.errors import RequestError
from portal.site import Identity, Site


@dataclass(frozen=True)
class SessionRequest:
    """One session as a person asks for it; cores and memory follow from the GPUs."""

    partition: str = ""
    gpus: int = 1
    hours: int = 0

    @classmethod
    def from_options(cls, options: Mapping[str, object]) -> SessionRequest:
        """Read options as they arrive (numbers may be text).

        Raises:
            RequestError: an unknown key, or a value of the wrong kind.
        """
        known = [field.name for field in fields(cls)]
        for key in options:
            if key not in known:
                raise RequestError("options", key, f"only the keys {', '.join(known)}")
        numbers = {key: _number(key, options[key]) for key in ("gpus", "hours") if key in options}
        partition = options.get("partition", "")
        if not isinstance(partition, str):
            raise RequestError("partition", partition, "the name of a partition, as text")
        return cls(partition=partition, **numbers)

    def fill(self, site: Site, identity: Identity) -> SessionRequest:
        """The same request with the site's defaults where the person said nothing."""
        offered = site.offered_to(identity)
        partition = self.partition or (offered[0].name if offered else "")
        found = next((p for p in offered if p.name == partition), None)
        limit = site.hours_max(found) if found else site.session.hours_max
        return replace(self, partition=partition, hours=self.hours or min(site.session.hours_default, limit))

    def check(self, site: Site, identity: Identity) -> None:
        """Raise :class:`RequestError` unless this site offers this to this person."""
        offered = {p.name: p for p in site.offered_to(identity)}
        if self.partition not in offered:
            names = ", ".join(offered) or "none (ask your administrator)"
            raise RequestError("partition", self.partition, f"one of {names}")
        partition = offered[self.partition]
        _in_range("gpus", self.gpus, 0, site.gpus_max(partition))
        _in_range("hours", self.hours, 1, site.hours_max(partition))

    def as_options(self) -> dict[str, object]:
        """The request as plain JSON values, to be kept with the session."""
        return asdict(self)


def checked(options: Mapping[str, object], site: Site, identity: Identity) -> SessionRequest:
    """Read, complete and check options: the one check behind form, link, REST and saved options.

    Raises:
        RequestError: names the field, the value given and what is allowed.
    """
    request = SessionRequest.from_options(options)
    if "hours" in options and request.hours == 0:
        raise RequestError("hours", options["hours"], "a whole number from 1 up")
    request = request.fill(site, identity)
    request.check(site, identity)
    return request


def _number(field: str, value: object) -> int:
    """A whole number out of JSON or a form; ``True``, ``1.5``, ``"1\\n"`` and ``"٣"`` are none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,9}", value):
        return int(value)
    raise RequestError(field, value, "a whole number")


def _in_range(field: str, value: int, lowest: int, highest: int) -> None:
    if not lowest <= value <= highest:
        allowed = f"a whole number from {lowest} to {highest}" if highest > lowest else str(lowest)
        raise RequestError(field, value, allowed)
