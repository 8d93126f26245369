"""The site's profiles as cards above the form: links to the same form, so that they work without a script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from portal.language import amounts
from portal.language.texts import _
from portal.options.profiles import fixed_by, profiles_of
from portal.request import OPTIONS, USUAL
from portal.site import Identity, Site
from spawners import form


@dataclass(frozen=True)
class ProfileCard:
    """One profile, or none of them."""

    title: str
    description: str
    picture: str  # its address, "" = none
    fixed: str  # in words
    link: str
    is_chosen: bool


def cards(site: Site, identity: Identity, chosen: str, opens: str = "") -> str:
    """The cards as HTML; nothing where this person has no profile to choose."""
    found = profiles_of(site, identity)
    if not found:
        return ""
    hub = f"{site.portal.base_url}hub"
    made = [
        ProfileCard(
            one.title,
            one.description,
            f"{hub}/dsportal/picture/{one.name}" if one.picture else "",
            words(site, fixed_by(one)),
            f"?{form.query({'profile': one.name}, opens)}",
            one.name == chosen,
        )
        for one in found
    ]
    own = ProfileCard(
        _("My own choice"), _("Every option is free."), "", "", f"?{form.query({'profile': USUAL}, opens)}", not chosen
    )
    return form.filled("profile_cards.html", cards=[*made, own])


def words(site: Site, options: Mapping[str, object]) -> str:
    """Choices of a session in a few words."""
    return " · ".join(_words(site, key, value) for key, value in options.items())


def _words(site: Site, key: str, value: object) -> str:
    """``1 GPU``, ``4 h``, ``Partition gpu``."""
    if key == "gpus":
        return amounts.gpus_or_none(int(str(value)))
    if key == "hours":
        return f"{value} h"
    if key == "cores":
        return amounts.cores(int(str(value)))
    if key == "memory_gb":
        return _("{number} GB memory").format(number=value)
    shown = site.gpu(str(value)).title if key == "gpu" else OPTIONS[key].shown(str(value)) or _("none")
    return f"{_(OPTIONS[key].label)}: {shown}"
