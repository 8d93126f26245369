"""``portal notebooks``: the templates, running one, and copies of them."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from portal import data
from portal.errors import PortalError, printable
from portal.session_settings import SETTINGS, SessionSettings
from portal.site import Site, load


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser], default_site: str) -> None:
    """Add the command to those of ``portal``."""
    notebooks = commands.add_parser("notebooks", help="the notebook templates").add_subparsers(required=True)
    listed = notebooks.add_parser("list", help="what there is")
    check = notebooks.add_parser("check", help="the house style of templates")
    check.add_argument("names", nargs="*", help="default: all")
    new = notebooks.add_parser("new", help="start a template: a short lesson that runs, to be written over")
    new.add_argument("name", help="<framework>/<lesson>, for example pytorch/my_lesson")
    new.add_argument("--kernel", default="", help="default: the one called like the framework")
    new.add_argument("--title", default="", help="default: made from the name")
    run = notebooks.add_parser("run", help="run a template on its own kernel, here")
    run.add_argument("name")
    run.add_argument("--output", default="", help="where the notebook with its outputs goes")
    run.add_argument("--kernel", default="", help="another kernel of the site than the notebook's own")
    run.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter; may be repeated")
    acts = {listed: _list, check: _check, new: _new, run: _run} | _add_copies(notebooks)
    for parser, act in acts.items():
        words = "the folder of templates (default: the portal's own, and those of the site)"
        parser.add_argument("--folder", type=Path, help=words)
        parser.set_defaults(command=act, default_site=default_site)
    run.add_argument("--site", help=f"the settings file (default: {default_site}; without it, JUPYTER_PATH's kernels)")
    for parser in acts.keys() - {run}:
        parser.add_argument("--site", help=f"the settings file (default: {default_site}, else the example's kernels)")


def _add_copies(
    notebooks: argparse._SubParsersAction[argparse.ArgumentParser],
) -> dict[argparse.ArgumentParser, object]:
    copy = notebooks.add_parser("copy", help="a copy of a template to work in, with all that belongs to it")
    copy.add_argument("name", help="<framework>/<lesson>")
    copy.add_argument(
        "--into", type=Path, default=Path(), help="the folder in which the copy's folder is made (default: here)"
    )
    state = notebooks.add_parser("state", help="what has become of a copy, and of its template")
    compare = notebooks.add_parser("compare", help="the differences between a copy and its template, without outputs")
    update = notebooks.add_parser("update", help="bring what is new in a template into a copy")
    reset = notebooks.add_parser("reset", help="make a copy as its template is; what was otherwise is kept beside")
    for parser in (state, compare, update, reset):
        parser.add_argument("copy", nargs="?", type=Path, default=Path(), help="the copy's folder (default: here)")
    return {copy: _copy, state: _state, compare: _compare, update: _update, reset: _reset}


def _list(arguments: argparse.Namespace) -> int:
    from portal.notebooks import catalogue

    return catalogue.main_list(_folders(arguments))


def _check(arguments: argparse.Namespace) -> int:
    from portal.gallery import missing
    from portal.notebooks import catalogue

    folders = _folders(arguments)
    status = catalogue.main_check(folders, arguments.names, catalogue.kernels_of(_site(arguments)))
    for note in missing.modules(folders, arguments.names):
        print(printable(note))
    return status


def _new(arguments: argparse.Namespace) -> int:
    """A new template goes to the site's own: the portal's are replaced by the next version."""
    from portal.notebooks import catalogue

    kernels = catalogue.kernels_of(_site(arguments))
    folder = _folders(arguments)[-1]
    return catalogue.main_new(folder, arguments.name, arguments.kernel, arguments.title, kernels)


def _run(arguments: argparse.Namespace) -> int:
    from portal.notebooks import run

    kernels_folder = run.kernels_folder(arguments.site, arguments.default_site)
    return run.main_run(
        _folders(arguments), arguments.name, arguments.output, arguments.set, kernels_folder, arguments.kernel
    )


def _copy(arguments: argparse.Namespace) -> int:
    from portal.gallery import told

    return told.main_copy(_folders(arguments), arguments.name, arguments.into)


def _state(arguments: argparse.Namespace) -> int:
    from portal.gallery import told

    return told.main_state(_folders(arguments), arguments.copy)


def _compare(arguments: argparse.Namespace) -> int:
    from portal.gallery import told

    return told.main_compare(_folders(arguments), arguments.copy)


def _update(arguments: argparse.Namespace) -> int:
    from portal.gallery import told

    return told.main_update(_folders(arguments), arguments.copy)


def _reset(arguments: argparse.Namespace) -> int:
    from portal.gallery import told

    return told.main_reset(_folders(arguments), arguments.copy)


def _folders(arguments: argparse.Namespace) -> list[Path]:
    """The folders of templates: the one that is named, or all of this session's or of this host's site."""
    if arguments.folder:
        if not arguments.folder.is_dir():
            raise PortalError(
                f"There is no folder {arguments.folder}: make it first, or name another one with --folder."
            )
        return [arguments.folder]
    in_session = SETTINGS in os.environ and not arguments.site
    own = (
        SessionSettings.from_environment(os.environ).site_notebooks
        if in_session
        else _site(arguments).notebooks.folders
    )
    return [data.folder("notebooks"), *map(Path, own)]


def _site(arguments: argparse.Namespace) -> Site:
    """The settings of this host; on one without any the example's, for whose kernels our templates are made."""
    example = data.folder("deploy") / "site.toml.example"
    usual = arguments.default_site if os.access(arguments.default_site, os.R_OK) else str(example)
    return load(arguments.site or usual)
