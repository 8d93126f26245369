"""The recipes of docs/howto/reverse-proxy.md, to the letter: text out of the page, given to the servers."""

from __future__ import annotations

import os
import re
import shutil
import signal
import ssl
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from deploy.demo.services import listens
from tests.inside import eventually, sh

CHECKOUT = Path(__file__).resolve().parents[2]
PAGE = CHECKOUT / "docs" / "howto" / "reverse-proxy.md"
ARTEFACTS = Path(os.environ.get("DSPORTAL_ARTEFACTS") or CHECKOUT / ".test-artefacts")
TRAEFIK = ARTEFACTS / "programs" / "front_doors" / "bin" / "traefik"  # tests/run.py brings it
NAME = "portal.example.org"
PATH = "/jupyter/"
CERTIFICATE = Path("/etc/ssl/portal.crt")
CA = Path("/cluster/test-front-doors-ca.crt")


def block(language: str, number: int = 0, section: str = "") -> str:
    """A code block of the page, as it stands there."""
    text = PAGE.read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0] if section else PAGE.read_text()
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return found[number]


def trusted() -> ssl.SSLContext:
    """Who trusts the authority of the tests, and nobody else."""
    return ssl.create_default_context(cafile=CA)


def portal_table() -> dict[str, Any]:
    """The page's lines of ``[portal]``."""
    return dict(tomllib.loads(block("toml"))["portal"])


def put_in_place(text: str, lines: str, first: str) -> str:
    """The page's lines for a sub-path in the place of those that they take: as many, from the one that begins so."""
    found = text.splitlines()
    (start,) = [number for number, line in enumerate(found) if line.strip().startswith(first)]
    new = lines.rstrip("\n").splitlines()
    found[start : start + len(new)] = new
    return "\n".join(found) + "\n"


@dataclass(frozen=True)
class Door:
    """One web server: its files, what starts it, and what ends it."""

    name: str
    files: Mapping[Path, str]
    prepare: tuple[tuple[str, ...], ...]
    command: tuple[str, ...]
    log: Path

    @contextmanager
    def open(self) -> Iterator[None]:
        """Run it in the foreground; it serves HTTPS at the name of the portal."""
        for file, text in self.files.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        for argv in self.prepare:
            sh(*argv)
        assert not listens(443), "another server has the port"
        with self.log.open("ab") as log:
            process = subprocess.Popen(self.command, stdout=log, stderr=log, start_new_session=True)
        try:
            eventually(lambda: self._answers(process), f"{self.name} answers", within_s=30)
            yield
        finally:
            os.killpg(process.pid, signal.SIGTERM)  # apache2ctl has the server as a child
            process.wait(30)
            eventually(lambda: not listens(443), f"{self.name} has ended")
            for file in self.files:
                file.unlink()

    def _answers(self, process: subprocess.Popen[bytes]) -> bool:
        assert process.poll() is None, self.log.read_text()[-3000:]
        try:
            return httpx.get(f"https://{NAME}/nothing", verify=trusted(), trust_env=False).status_code < 500
        except httpx.HTTPError:
            return False


def nginx(below: str) -> Door:
    """Debian's nginx with Debian's nginx.conf, and the page's file beside it."""
    section = "nginx"
    text = block("nginx", 0, section)
    if below != "/":
        text = put_in_place(text, block("nginx", 1, section), "location / {")
    for folder in ("/var/lib/nginx", "/var/log/nginx"):
        Path(folder).mkdir(parents=True, exist_ok=True)
    own = Path("/etc/nginx/nginx.conf")
    written = re.sub(r"^\s*worker_(connections|rlimit_nofile) .*\n", "", own.read_text(), flags=re.MULTILINE)
    limit, connections = block("nginx", 2, section), block("nginx", 3, section)
    own.write_text(limit + written.replace("events {\n", "events {\n" + connections))
    files = {Path("/etc/nginx/conf.d/portal.conf"): text}
    log = Path("/var/log/nginx/test.log")
    return Door("nginx", files, (("nginx", "-t"),), ("nginx", "-g", "daemon off;"), log)


def apache(below: str) -> Door:
    """Debian's Apache with the modules of Debian's package and those that the page names."""
    section = "Apache"
    text = block("apache", 0, section)
    if below != "/":
        text = put_in_place(text, block("apache", 1, section), "RewriteRule ^/(.*) ws:")
    for folder in (
        "/var/lib/apache2",
        "/var/log/apache2",
        "/var/run/apache2",
        "/var/lock/apache2",
        "/var/cache/apache2",
    ):
        Path(folder).mkdir(parents=True, exist_ok=True)
    (enable,) = re.findall(r"`(a2enmod [a-z_ ]+)`", PAGE.read_text())
    (site,) = re.findall(r"`(a2ensite [a-z]+)`", PAGE.read_text())
    usual = ("a2enmod", "-q", "mpm_event", "authz_core", "mime", "dir")  # some of those of the package
    files = {Path("/etc/apache2/sites-available/portal.conf"): block("apache", 2, section) + text}
    prepare = (usual, tuple(enable.split()), tuple(site.split()), ("apache2ctl", "configtest"))
    return Door("Apache", files, prepare, ("apache2ctl", "-D", "FOREGROUND"), Path("/var/log/apache2/test.log"))


def traefik(below: str) -> Door:
    """Traefik's own program, out of PyPI."""
    section = "Traefik"
    text = block("yaml", 1, section)
    if below != "/":
        text = put_in_place(text, block("yaml", 2, section), "rule:")
    here = Path("/cluster/test-traefik")
    here.mkdir(exist_ok=True)
    program = here / "traefik"
    if not program.exists():
        shutil.copy(TRAEFIK, program)
        program.chmod(0o755)
    own = Path("/etc/traefik/traefik.yml")
    files = {own: block("yaml", 0, section), Path("/etc/traefik/portal.yml"): text}
    return Door("Traefik", files, (), (str(program), f"--configFile={own}"), here / "test.log")


DOORS = {"nginx": nginx, "apache": apache, "traefik": traefik}
