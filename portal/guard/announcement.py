"""What the site tells everybody now: the text of a file, on each page of the hub and inside the sessions that run.

The file is looked at beside everything else, at most once in some seconds: a page shows what was found last.
"""

from __future__ import annotations

import asyncio
import hashlib
import html
import logging
import os
import re
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from portal.homes.held_place import LinkOfOthers, held

LONGEST = 2000  # bytes of the file
FRESH_S = 5.0
FILE = "announcement_file"  # what config puts into the template variables
LED = "others can change its folder, and it {}. Write the text into a plain file there, with no link on the way"
STOCK = "announcement"  # JupyterHub's own variable, which holds HTML
SHOWN = "site_announcement"
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SiteAnnouncement:
    """One text; another text has another ``id``, so that who has put this one away sees the next one."""

    text: str

    @property
    def id(self) -> str:
        """Sixteen hexadecimal digits."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    def as_json(self) -> dict[str, str]:
        """As a session shows it."""
        return {"id": self.id, "text": self.text}


class AnnouncementFile:
    """The site's file; ``""`` = none.

    Args:
        clock: seconds, never going back.
    """

    def __init__(self, path: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._fault = ""
        self._reading: asyncio.Future[None] | None = None
        self._text = ""
        self._read_at = 0.0
        self._look()

    @property
    def text(self) -> str:
        """What was found last; a look begins where that is some seconds ago, and is not waited for."""
        is_idle = self._reading is None or self._reading.done()
        if self._path and is_idle and self._clock() - self._read_at > FRESH_S:
            self._reading = asyncio.ensure_future(asyncio.to_thread(self._look))
        return self._text

    def _look(self) -> None:
        fault = ""
        text = ""
        try:
            text = read(self._path) if self._path else ""
        except FileNotFoundError:
            text = ""  # nothing to tell
        except (OSError, ValueError) as error:
            fault = str(error)
        if fault and fault != self._fault:
            log.warning("The announcement is not shown: %s: %s", self._path, fault)
        self._text = text
        self._fault = fault
        self._read_at = self._clock()


def read(path: str) -> str:
    """The text of a file.

    Where others can change a folder on the way it is the very file there: a link, or a second name, would have them
    choose which file of the hub's account everybody reads.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no regular file, one that others may have chosen, too long, or no text.
    """
    try:
        with held(Path(path).absolute(), moved=False) as place, place.read() as descriptor:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise ValueError("it is no regular file")
            if status.st_nlink > 1 and not place.is_private:
                raise ValueError(LED.format("has another name, too (a hard link)"))
            found = os.read(descriptor, LONGEST + 1)
    except LinkOfOthers as error:
        raise ValueError(LED.format("is reached by a link")) from error
    if len(found) > LONGEST:
        raise ValueError(f"it has more than {LONGEST} bytes")
    text = found.decode().strip()
    if not all(letter.isprintable() or letter in "\n\t" for letter in text):
        raise ValueError("it holds control characters")
    return text


def show(hub: Any) -> None:
    """Have every template of a hub know the text of the file."""
    file = AnnouncementFile(str(hub.template_vars.get(FILE, "")))
    hub.template_vars = {**hub.template_vars, SHOWN: partial(_shown, file)}


def _shown(file: AnnouncementFile, _user: object) -> str:
    return file.text


def of_sessions(template_vars: dict[str, Any]) -> SiteAnnouncement | None:
    """What sessions show: the file's text, or else JupyterHub's own announcement without its HTML."""
    shown = template_vars.get(SHOWN)
    text = shown(None) if callable(shown) else ""
    stock = template_vars.get(STOCK)
    if not text and isinstance(stock, str):
        text = html.unescape(re.sub(r"<[^>]*>", "", stock)).strip()[:LONGEST]
    return SiteAnnouncement(text) if text else None
