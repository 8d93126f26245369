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
WHAT_TLS = "database's TLS"
HERE = ("localhost", "127.0.0.1", "::1")
SLOW_MS = 20.0  # the hub asks it some ten times for a page, and waits each time
ASKED = 9


def database(site: Site) -> list[Check]:
    """A server answers, soon, has the schema of this version, and proves its name; a file is looked at by the start."""
    return [*_answers(site), *_tls(site)]


def _answers(site: Site) -> list[Check]:
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


def _tls(site: Site) -> list[Check]:
    """Without proof whoever stands between reads the password, and writes what the hub believes."""
    from sqlalchemy import make_url

    portal = site.portal
    host = (make_url(portal.database_url).host or HERE[0]) if portal.database_url else ""
    if not host:
        return []
    if portal.database_ca_file or host in HERE:
        return [Check(WHAT_TLS, "ok", f"{host} proves its name" if portal.database_ca_file else f"{host} is this host")]
    found = f"{host} need not prove its name: portal.database_ca_file is not set"
    return [Check(WHAT_TLS, "warning", found, "Name the file with the authorities of its certificate there.")]


def _median_ms(site: Site) -> float:
    from sqlalchemy import text

    with server.opened(site) as engine, engine.connect() as db:
        return statistics.median(_asked_ms(lambda: db.execute(text("SELECT 1")).all()) for _ in range(ASKED))


def _asked_ms(ask: Callable[[], object]) -> float:
    began = time.perf_counter()
    ask()
    return (time.perf_counter() - began) * 1000
