"""Which module system a session has: a shell's own, what the hub told the session, or that of the site's kernels."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from portal.homes.held_place import held
from portal.kernels.modules import ModuleSystem
from portal.kernels.run_kernel import Launch
from portal.session_settings import SessionSettings


@dataclass(frozen=True)
class SessionModules:
    """The module system, and the variables that modules find beside it, such as ``LMOD_RC``.

    Attributes:
        of_site: the site's own trees.
    """

    system: ModuleSystem = field(default_factory=ModuleSystem)
    variables: Mapping[str, str] = field(default_factory=dict)
    of_site: tuple[str, ...] = ()

    def lasting(self) -> ModuleSystem:
        """It without the trees that a shell has added and others can change, which no later day need believe."""
        kept = (tree for tree in self.system.path if tree in self.of_site or _is_closed(tree))
        return self.system._replace(path=tuple(kept))


def of(environ: Mapping[str, str]) -> SessionModules:
    """That of the shell where it has one, else of the site as the hub told it, else of the site's kernelspecs."""
    found = _told(environ)
    if found is None:
        system = next(_systems(environ.get("JUPYTER_PATH", "")), ModuleSystem())
        found = SessionModules(system, of_site=system.path)
    if path := environ.get("MODULEPATH"):
        return SessionModules(ModuleSystem("", tuple(filter(None, path.split(":")))), of_site=found.of_site)
    return found


def _is_closed(tree: str) -> bool:
    try:
        with held(Path(tree).absolute() / "file") as place:
            return place.is_private
    except OSError:
        return False


def _told(environ: Mapping[str, str]) -> SessionModules | None:
    try:
        settings = SessionSettings.from_environment(environ)
    except ValueError:
        return None
    if not settings.module_path and not settings.module_command:
        return None
    system = ModuleSystem(settings.module_command, settings.module_path)
    return SessionModules(system, settings.module_environment, system.path)


def _systems(jupyter_path: str) -> Iterator[ModuleSystem]:
    """What the kernelspecs of a site load their modules with."""
    for folder in filter(None, jupyter_path.split(":")):
        for file in sorted(Path(folder, "kernels").glob("*/kernel.json")):
            try:
                launch = Launch.from_argv(json.loads(file.read_bytes())["argv"])
            except (OSError, ValueError, LookupError, TypeError):
                continue
            if launch:
                yield launch.system
