"""A session's side: its Lab loads JupyterLab's files from the hub's host where the hub has the same ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from jinja2.ext import Extension
from tornado.web import GZipContentEncoding

from portal.assets.files import FOLDER, key_of
from portal.assets.offered import ADDRESS, hubs_lab

# What no session has a server for: language servers, and style sheets of pages that a session does not serve.
UNUSED = (
    "@jupyterlab/lsp-extension",
    "@jupyterlab/notebook-extension:language-server",
    "@jupyterlab/fileeditor-extension:language-server",
    "jupyterlab_pygments",
)
OWN = "dsportal-lab"  # without it a page is shown no files
DEBUGGER = "@jupyterlab/debugger-extension"
FIRST = "dsportal_first_script"
A_FILE = 'src="{{page_config.fullStaticUrl}}'  # of JupyterLab's, in those pages
PACKED = ("lab/api/", "lab/extensions/", "lsp/")  # below the session's own path: long, and the same for everybody


class SmallerAnswers(GZipContentEncoding):
    """Packs what JupyterLab asks a session for when it starts, and nothing else that a session answers."""

    def __init__(self, request: Any, base_url: str) -> None:
        super().__init__(request)
        below = request.path.removeprefix(base_url)
        self._gzipping = self._gzipping and below != request.path and below.startswith(PACKED)


class FirstScript(Extension):
    """Puts the portal's script about refused parts into each page before all that it loads, without cookies."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        """The source of a template."""
        script = self.environment.globals[FIRST]
        page = source.replace("<head>", f"<head><script>{{% raw %}}{script}{{% endraw %}}</script>", 1)
        return page.replace(A_FILE, f'crossorigin="anonymous" {A_FILE}')


def install(
    web_app: Any, environ: Mapping[str, str], folder: Path = FOLDER, *, first: str = "", debugger: bool = False
) -> None:
    """Have the pages of a session's application load from the hub's host what the hub has, and nothing unused.

    Arguments:
        first: a script that stands in each page before all others.
        debugger: whether kernels may have one; without, its buttons are not there either.
    """
    base_url = web_app.settings["base_url"]
    web_app.add_transform(partial(SmallerAnswers, base_url=base_url))
    for name, environment in web_app.settings.items():
        if first and name.endswith("_jinja2_env"):  # of JupyterLab's and Notebook's pages
            environment.globals[FIRST] = first
            environment.add_extension(FirstScript)
    own_key = key_of(folder)
    if not own_key or "JUPYTERHUB_BASE_URL" not in environ:
        return
    hub = f"{environ.get('JUPYTERHUB_HOST', '')}{environ['JUPYTERHUB_BASE_URL']}hub"
    own = f"{base_url}static/lab"
    stock = web_app.settings.get("page_config_hook")
    hubs = f"{hub}/{ADDRESS}/{own_key}"
    unused = UNUSED if debugger else (*UNUSED, DEBUGGER)
    web_app.settings["page_config_hook"] = partial(_page_config, stock, own, own_key, hubs, unused)


def _page_config(
    stock: Callable[..., dict[str, Any]] | None,
    own: str,
    own_key: str,
    hubs: str,
    unused: tuple[str, ...],
    handler: Any,
    config: dict[str, Any],
) -> dict[str, Any]:
    """What a page tells JupyterLab: what is off is not loaded, and nobody asks whether JupyterLab is built.

    That would take a session a second, and there is nothing to build one with. Notebook 7 has files of its own, which
    the hub has not.
    """
    told = stock(handler, config) if stock else config
    told["buildCheck"] = told["buildAvailable"] = False
    off = told["disabledExtensions"] = sorted({*told.get("disabledExtensions", ()), *unused} - {OWN})
    told["federated_extensions"] = [one for one in told.get("federated_extensions", []) if one["name"] not in off]
    if told.get("fullStaticUrl") in (own, hubs):
        told["fullStaticUrl"] = hubs if hubs_lab.key == own_key else own
    return told
