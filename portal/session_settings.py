"""What the hub tells a session's server: the variables of its environment, and the settings in one of them.

The hub writes it and the single-user server reads it, in whatever version each of them is: a value that is missing has
a default, and one that is not known is passed over.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Container, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from portal.errors import SiteError

if TYPE_CHECKING:  # a session starts without the settings of the site
    from portal.settings.kernel_tables import ToolTable
    from portal.site import Site

SETTINGS = "DSPORTAL_SESSION"  # SessionSettings.to_text()
ANNOUNCE_EVERY = "DSPORTAL_ANNOUNCE_EVERY_S"  # seconds between two announcements of the same port; for tests
HUB_ANSWER = "DSPORTAL_HUB_ANSWER_S"  # for how many seconds, at most, a session believes the hub's answer; for tests
TLS = "DSPORTAL_TLS"  # the texts of certificate, key and authorities, as one JSON object
TLS_PARTS = ("keyfile", "certfile", "cafile")  # its keys
ENDS_AT = "Dsportal-Ends-At"  # in which the hub tells a session its end: seconds since 1970
KERNELS_PATH = "JUPYTER_PATH"  # Jupyter's own: where kernelspecs are looked for
DEFAULT_TITLE = "Data Scientist Portal"
PRIVATE_FOLDER = "DSPORTAL_PRIVATE_FOLDER"  # portal.homes.private_folder: the launcher alone sets it
_OF_TLS = tuple(f"JUPYTERHUB_SSL_{part}" for part in ("KEYFILE", "CERTFILE", "CLIENT_CA"))
OURS = (SETTINGS, TLS, KERNELS_PATH, PRIVATE_FOLDER, *_OF_TLS)
_PASSES = re.compile(r"(JUPYTERHUB|JPY|DSPORTAL|JUPYTER)_[A-Z0-9_]+\Z", re.ASCII)  # portal-launch takes no other name
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")  # in the command of a tool


@dataclass(frozen=True)
class StorageFolder:
    """A big storage: a link called ``name`` in the home leads to ``path``."""

    name: str
    path: str


@dataclass(frozen=True)
class OfferedTool:
    """A web tool that this person may start: a ``[[tool]]`` of the site without whom it is for."""

    name: str
    title: str
    command: tuple[str, ...]
    modules: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    ready: str = "/"
    whole_path: bool = False
    hands_out: tuple[str, ...] = ()
    icon: str = ""

    def words(self, values: Mapping[str, str]) -> list[str]:
        """The words of its command with their placeholders filled in, each still one word."""
        return [_PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), word) for word in self.command]

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> OfferedTool:
        """As :meth:`SessionSettings.to_text` wrote it."""
        known: dict[str, Any] = {name: given[name] for name in cls.__dataclass_fields__ if name in given}
        lists: dict[str, Any] = {
            name: tuple(known[name]) for name in ("command", "modules", "hands_out") if name in known
        }
        return cls(**{**known, **lists})


@dataclass(frozen=True)
class SessionSettings:
    """What a session must know of its site.

    Attributes:
        title: what the portal is called.
        notebooks: the folder of the portal's own notebook templates; ``""`` = there are none.
        site_notebooks: the site's own folders of templates.
        storage: the site's storage folders.
        start_timeout_s: how long the server may take to answer; ``None`` = its own limit.
        files: the folder that the file browser shows; ``""`` = the person's home.
        debugger: whether kernels may open the port of their debugger.
        environments: where people's own environments lie (``environments.folder``); ``""`` = below the home.
        tools: the web tools that are for this person.
        module_command, module_path, module_environment: the module system, as ``[kernels]`` has it.
        extend: whether this person may ask for more time while the session runs.
    """

    title: str = DEFAULT_TITLE
    notebooks: str = ""
    storage: tuple[StorageFolder, ...] = ()
    start_timeout_s: float | None = None
    files: str = ""
    debugger: bool = False
    site_notebooks: tuple[str, ...] = ()
    environments: str = ""
    module_command: str = ""
    module_path: tuple[str, ...] = ()
    module_environment: Mapping[str, str] = field(default_factory=dict)
    extend: bool = False
    tools: tuple[OfferedTool, ...] = ()

    @property
    def template_folders(self) -> tuple[str, ...]:
        """All folders of templates, the portal's own first."""
        return (*filter(None, [self.notebooks]), *self.site_notebooks)

    def to_text(self) -> str:
        """One JSON object."""
        return json.dumps(asdict(self))

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> SessionSettings:
        """Read the settings out of an environment; the defaults where no hub has put any there.

        Raises:
            ValueError: what is there is no JSON object.
        """
        given = json.loads(environ.get(SETTINGS, "{}"))
        if not isinstance(given, dict):
            raise ValueError(f"{SETTINGS} holds no JSON object")
        return cls._from_json(given)

    @classmethod
    def of(cls, site: Site, notebooks: str, groups: Collection[str] = (), *, extend: bool = False) -> SessionSettings:
        """What a session of this site must know, of somebody with these groups."""
        return cls(
            title=site.portal.title,
            notebooks=notebooks,
            storage=tuple(StorageFolder(place.name, place.path) for place in site.storage),
            start_timeout_s=site.session.start_timeout_min * 60,
            debugger=site.kernels.debugger,
            site_notebooks=site.notebooks.folders,
            environments=site.environments.folder,
            module_command=site.kernels.module_command,
            module_path=site.kernels.module_path,
            module_environment=site.kernels.environment,
            extend=extend,
            tools=tuple(_offered(tool) for tool in site.tool if tool.is_open_to(groups)),
        )

    @classmethod
    def _from_json(cls, given: Mapping[str, Any]) -> SessionSettings:
        return cls(
            title=given.get("title", DEFAULT_TITLE),
            notebooks=given.get("notebooks", ""),
            storage=tuple(StorageFolder(folder["name"], folder["path"]) for folder in given.get("storage", ())),
            start_timeout_s=given.get("start_timeout_s"),
            files=given.get("files", ""),
            debugger=given.get("debugger", False),
            site_notebooks=tuple(given.get("site_notebooks", ())),
            environments=given.get("environments", ""),
            module_command=given.get("module_command", ""),
            module_path=tuple(given.get("module_path", ())),
            module_environment=given.get("module_environment", {}),
            extend=given.get("extend", False),
            tools=tuple(map(OfferedTool.from_json, given.get("tools", ()))),
        )


def _offered(tool: ToolTable) -> OfferedTool:
    return OfferedTool(**{name: getattr(tool, name) for name in OfferedTool.__dataclass_fields__})


def check_variables(given: Mapping[str, object]) -> None:
    """Look at what an administrator wants in the environment of each session's server (``c.Spawner.environment``).

    Raises:
        SiteError: a variable that would not reach a session, or a value that is neither a text nor a function.
    """
    if faults := [fault for name, value in given.items() if (fault := _fault(name, value))]:
        raise SiteError("c.Spawner.environment", faults)


def _fault(name: str, value: object) -> str:
    if name in OURS:
        return f"{name!r} is set by the portal itself. Take it out; what it holds is decided in site.toml."
    if not _PASSES.match(name):
        return (
            f"{name!r} would not reach a session. Allowed are names of capital letters, digits and _ that begin with "
            "JUPYTERHUB_, JUPYTER_, JPY_ or DSPORTAL_. Take it out; a variable for notebooks belongs in the module of "
            "their kernel, one for every job in Slurm's TaskProlog."
        )
    if not (isinstance(value, str) or callable(value)):
        return f"{name!r} is {value!r}: a value is a text, or a function of the spawner that answers one."
    return ""


def environment(
    settings: SessionSettings,
    kernels_folder: str,
    jupyterhub: Mapping[str, str],
    tls: str = "",
    chosen: Container[str] = (),
) -> dict[str, str]:
    """The environment of a session's server, which travels in a file that only the person can read.

    Arguments:
        kernels_folder: where the site's kernelspecs are.
        jupyterhub: everything that JupyterHub would give; only its own variables are handed on.
        tls: the texts of the session's certificate (:data:`TLS`); ``""`` = no internal TLS.
        chosen: the names of those variables in ``jupyterhub`` that an administrator has set.
    """
    hubs = {name: text for name, text in jupyterhub.items() if name.startswith("JUPYTERHUB_") or name in chosen}
    without_files = {name: text for name, text in hubs.items() if not name.startswith("JUPYTERHUB_SSL_")}
    ours = {SETTINGS: settings.to_text(), KERNELS_PATH: kernels_folder}
    return without_files | ours | ({TLS: tls} if tls else {})
