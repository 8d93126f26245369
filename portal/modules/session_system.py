"""Which module system a session has: a shell's own, what the hub told the session, or that of the site's kernels."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from portal.kernels.modules import ModuleSystem
from portal.kernels.run_kernel import Launch
from portal.session_settings import SessionSettings


@dataclass(frozen=True)
class SessionModules:
    """The module system, and the variables that modules find beside it, such as ``LMOD_RC``."""

    system: ModuleSystem = field(default_factory=ModuleSystem)
    variables: Mapping[str, str] = field(default_factory=dict)


def of(environ: Mapping[str, str]) -> SessionModules:
    """That of the shell where it has one, else of the site as the hub told it, else of the site's kernelspecs."""
    if path := environ.get("MODULEPATH"):
        return SessionModules(ModuleSystem("", tuple(filter(None, path.split(":")))))
    if told := _told(environ):
        return told
    system = next(_systems(environ.get("JUPYTER_PATH", "")), ModuleSystem())
    return SessionModules(system)


def _told(environ: Mapping[str, str]) -> SessionModules | None:
    try:
        settings = SessionSettings.from_environment(environ)
    except ValueError:
        return None
    if not settings.module_path and not settings.module_command:
        return None
    return SessionModules(ModuleSystem(settings.module_command, settings.module_path), settings.module_environment)


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
