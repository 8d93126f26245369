"""The addresses of web tools and of a person's own programs: what is behind them is imported with the first request."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tornado.routing import Rule

from portal.homes import temporary
from portal.session_pages.late import Pages, late_rules
from portal.session_settings import SessionSettings

SOCKET_PATH_MAX = 107  # bytes of sun_path in unix(7), without its end
NAME = r"([A-Za-z0-9][A-Za-z0-9._-]{0,63})"
PAGES = {
    "dsportal/api/tools": "all",
    rf"dsportal/api/tools/{NAME}": "one",
    rf"dsportal/api/tools/{NAME}/log": "log",
}
OWN_SOCKETS = {rf"sockets/{NAME}(/.*)": "own"}
OF_TOOLS = {rf"tools/{NAME}/dsportal-open": "open", rf"tools/{NAME}(/.*)": "proxy"}


def routes(application: Any, settings: SessionSettings, runtime: Path, home: Path) -> list[Rule]:
    """The rules for a server's application.

    Arguments:
        runtime: Jupyter's runtime folder, below which the sockets are.
        home: where the file browser begins, and tools are started.
    """
    base = application.settings["base_url"]

    @functools.cache
    def tools() -> Any:
        from portal.webtools.tools import ToolPlace, Tools

        sockets = socket_folder(runtime, (tool.name for tool in settings.tools))
        return Tools(settings, ToolPlace(sockets, base, home))

    def load() -> Pages:
        from portal.webtools.pages import ToolHandler, ToolLogHandler, ToolsHandler

        return {"all": ToolsHandler, "one": ToolHandler, "log": ToolLogHandler}, {"tools": tools()}

    def load_proxy() -> Pages:
        from portal.webtools.proxy import OpenToolHandler, ToolProxy

        return {"open": OpenToolHandler, "proxy": ToolProxy}, {"tools": tools()}

    def load_own() -> Pages:
        from jupyter_core.paths import jupyter_runtime_dir

        from portal.webtools.sockets import OwnSocketProxy

        return {"own": OwnSocketProxy}, {"folders": (runtime / "sockets", Path(jupyter_runtime_dir(), "sockets"))}

    rules = late_rules(application, base, PAGES, load) + late_rules(application, base, OF_TOOLS, load_proxy)
    return rules + late_rules(application, base, OWN_SOCKETS, load_own)


def socket_folder(runtime: Path, names: Iterable[str]) -> Path:
    """A private place for sockets: in Jupyter's runtime folder, or a new one where that path is too long.

    Tools make some themselves, in their temporary folder; VS Code's names are the longest.
    """
    folder = runtime / "tools"
    sockets = [*(folder / f"{name}.sock" for name in names), folder / "tmp" / f"vscode-ipc-{36 * 'x'}.sock"]
    longest = max(len(os.fsencode(socket)) for socket in sockets)
    return folder if longest <= SOCKET_PATH_MAX else temporary.made_until_exit("dsp-")
