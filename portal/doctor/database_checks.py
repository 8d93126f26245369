"""Checks of the hub's database where it is a server: is it there, whose is it, and how soon does it answer?"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from portal.databases import server
from portal.doctor.check import Check
from portal.site import Site

WHAT = "database"
SLOW_MS = 20.0  # the hub asks it some ten times for a page, and waits each time
ASKED = 9


def database(site: Site) -> list[Check]:
    """The server answers, soon, and has the schema of this version; a file is looked at when the portal starts."""
    folder = Path(site.portal.state_folder)
    if not site.portal.database_url:
        return [Check(WHAT, "ok", f"a file in {folder}")]
    if os.geteuid() == 0 and folder.exists() and folder.stat().st_uid != 0:
        return [Check(WHAT, "warning", "not checked: its password is the hub's alone", f"Run it as {folder.owner()}.")]
    try:
        server.check(site)
        took_ms = _median_ms(site)
    except server.DatabaseServerFault as fault:
        found, _, repair = fault.message.partition("\n")
        return [Check(WHAT, "failed", found.removesuffix(" The portal does not start."), repair)]
    found = f"{site.portal.database_url} answers in {took_ms:.1f} ms"
    if took_ms > SLOW_MS:
        repair = "Put it nearer: the hub waits for each of its answers, and everybody for the hub."
        return [Check(WHAT, "warning", found, repair)]
    return [Check(WHAT, "ok", found)]


def _median_ms(site: Site) -> float:
    from sqlalchemy import text

    with server.opened(site) as engine, engine.connect() as db:
        return statistics.median(_asked_ms(lambda: db.execute(text("SELECT 1")).all()) for _ in range(ASKED))


def _asked_ms(ask: Callable[[], object]) -> float:
    began = time.perf_counter()
    ask()
    return (time.perf_counter() - began) * 1000
