"""What a session's job is given: JupyterHub's variables, what it must know of the site, and its certificates."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from traitlets import default
from traitlets.config import Configurable

from portal import data
from spawners import form
from spawners.sees import SeesCluster


class GivesEnvironment(SeesCluster, Configurable):
    """The environment of a session; it travels in a file that only the person can read."""

    internal_ssl: bool
    user_options: Mapping[str, object]
    cert_paths: Any
    get_env: Callable[[], dict[str, str]]

    async def _session_environment(self) -> dict[str, str]:
        """JupyterHub's own variables, and what the session must know of the site."""
        settings = {
            "title": self.site.portal.title,
            "notebooks": str(data.folder("notebooks")),
            "storage": [{"name": s.name, "path": s.path} for s in self.site.storage],
            "start_timeout_s": self.site.session.start_timeout_min * 60,
            "modules": {"path": list(self.site.kernels.module_path)},
        }
        own = {"DSPORTAL_SESSION": json.dumps(settings), "JUPYTER_PATH": self.site.kernels.folder}
        if self.internal_ssl:
            own["DSPORTAL_TLS"] = await asyncio.to_thread(_certificates, self.cert_paths)
        theirs = {name: text for name, text in self.get_env().items() if name.startswith("JUPYTERHUB_")}
        return {name: text for name, text in theirs.items() if not name.startswith("JUPYTERHUB_SSL_")} | own

    async def move_certs(self, paths: dict[str, str]) -> dict[str, str]:
        """Nothing is moved: the certificates travel with the rest of the environment."""
        return paths

    @default("ssl_alt_names")
    def _ssl_alt_names(self) -> Callable[[Any], Awaitable[list[str]]]:
        return self._node_names

    async def _node_names(self, _spawner: Any) -> list[str]:
        """Every name that the session may have: Slurm has not chosen its node yet."""
        partition = form.remembered(self.user_options or {}).partition
        nodes = (await self.cluster.nodes()).nodes.values()
        return [f"DNS:{node.name}" for node in nodes if partition in node.partitions or not partition]


def _certificates(paths: Mapping[str, str]) -> str:
    """The texts of the certificate, its key and the authorities, as one JSON object."""
    return json.dumps({name: Path(paths[name]).read_text() for name in ("keyfile", "certfile", "cafile")})
