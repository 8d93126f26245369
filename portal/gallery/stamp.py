"""The stamp of a copy: which template it is a copy of. Where others write, they may have written it.

So nothing of it goes into a file but what the catalogue itself could have given.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from portal.errors import PortalError, printable
from portal.gallery.files import HeldFolder
from portal.gallery.units import Unit

STAMP = ".dsportal-template.json"
TEMPLATES = "templates"  # the catalogue in a home
LONGEST = 2**20  # bytes; one of 200 files has some 20,000
LONGEST_NAME = 200
_TEXTS = ("template", "version", "copied_at", "links")


class TemplateRefused(PortalError):
    """What was asked of a template or of a copy cannot be done."""

    reason = "template"

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))  # names of folders and files are others', too


@dataclass(frozen=True)
class Stamp:
    """What a copy is a copy of.

    Attributes:
        copied_at: local time, in ISO 8601.
        links: where the catalogue is, seen from the copy.
        files: the fingerprint of each file as the template had it; ``""`` = not known.
    """

    template: str
    version: str
    copied_at: str
    links: str
    files: Mapping[str, str]

    @classmethod
    def read(cls, folder: HeldFolder) -> Stamp:
        """The stamp of a copy.

        Raises:
            TemplateRefused: the folder is no copy of a template.
        """
        try:
            content = folder.read(STAMP) or b"null"
            if len(content) > LONGEST:
                raise ValueError("too long")
            given = json.loads(content)
            files = {str(name): str(digest) for name, digest in given["files"].items()}
            template, version, copied_at, links = (str(given[key]) for key in _TEXTS)
            return cls(template, version, copied_at, links, files)
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise TemplateRefused(
                f"{folder.path} is no copy of a template: {STAMP}, which says what it is a copy of, is not in it, or "
                "is spoiled. Make a new copy of the template, and take your cells over."
            ) from None

    def write(self, folder: HeldFolder) -> None:
        """Keep it, if it is another one than before."""
        content = (json.dumps(asdict(self), indent=1) + "\n").encode()
        if folder.read(STAMP) != content:
            folder.write(STAMP, content)


def stamped(folder: HeldFolder, units: Mapping[str, Unit]) -> tuple[Stamp, Unit]:
    """The stamp of a copy, and its template as it is now.

    Raises:
        TemplateRefused: it is no copy, its template is no more, or its links would lead where no copy's do.
    """
    stamp = Stamp.read(folder)
    if stamp.template not in units:
        known = ", ".join(units) or "none"
        raise TemplateRefused(
            f"There is no template {stamp.template[:LONGEST_NAME]!r} any more: your copy stays as it is. "
            f"There are {known}."
        )
    unit = units[stamp.template]
    if stamp.links and not _are_catalogue(stamp.links, unit, folder):
        raise TemplateRefused(
            f"{STAMP} in {folder.path} would have the links of the notebook lead to {stamp.links[:LONGEST_NAME]!r}, "
            "which is not your catalogue: somebody changed it. Make a new copy of the template, and take your cells "
            "over."
        )
    return stamp, unit


def _are_catalogue(links: str, unit: Unit, folder: HeldFolder) -> bool:
    """Whether links are of the shape that a copy has, and lead from one's own to nobody else's folder.

    How far up the home is, cannot be told from where the copy is: people move their copies.
    """
    lessons = re.escape(unit.template.path.parent.name)
    if not re.fullmatch(rf"(\.\./)+{TEMPLATES}/{lessons}", links):
        return False
    return not (folder.is_of_person and folder.leads_to_others(links))
