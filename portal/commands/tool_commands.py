"""``portal tools``: the web tools of the settings file, what each is made of, and whether it answers."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from portal.session_settings import SETTINGS, SessionSettings
from portal.settings.groups import labels
from portal.site import Site, load

MINUTES = 10
MINUTES_PER_TOOL = 3  # more than a session waits for one


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser], default_site: str) -> None:
    """Add the commands to those of ``portal``."""
    tools = commands.add_parser("tools", help="web tools out of modules").add_subparsers(required=True)
    listed = tools.add_parser("list", help="the web tools of the settings file, and whether each can start")
    listed.set_defaults(command=_list)
    explain = tools.add_parser("explain", help="what a web tool is made of, and whether it can start")
    explain.add_argument("name", metavar="TOOL", help="its name, as `portal tools list` shows it")
    explain.set_defaults(command=_explain)
    test = tools.add_parser("test", help="start each web tool and wait until it answers")
    test.add_argument("names", nargs="*", metavar="TOOL", help="default: all")
    test.add_argument("--partition", default="", metavar="NAME", help="test in a job there (default: here)")
    test.add_argument("--gpus", type=int, default=0, metavar="N", help="how many that job asks for (default: 0)")
    test.add_argument(
        "--user", default="", metavar="PERSON", help="whom that job runs as, where root asks and keeps it"
    )
    test.add_argument("--json", action="store_true", help="one JSON object for each web tool")
    test.set_defaults(command=_test)
    for parser in (listed, explain, test):
        parser.add_argument("--site", default=default_site, help="the settings file (default: %(default)s)")


def _list(arguments: argparse.Namespace) -> int:
    from portal.webtools import explained

    return explained.main_list(load(arguments.site))


def _explain(arguments: argparse.Namespace) -> int:
    from portal.webtools import explained

    return explained.main_explain(load(arguments.site), arguments.name)


def _test(arguments: argparse.Namespace) -> int:
    """The job has what a session is told: a node has no settings file."""
    from portal.webtools import tested

    if arguments.partition:
        return _test_in_job(arguments)
    if SETTINGS in os.environ:
        return tested.main(SessionSettings.from_environment(os.environ), arguments.names, as_json=arguments.json)
    return tested.main(_of_everybody(load(arguments.site)), arguments.names, as_json=arguments.json)


def _of_everybody(site: Site) -> SessionSettings:
    """What a session of somebody in all groups is told."""
    return SessionSettings.of(site, "", labels(site.groups_mentioned))


def _test_in_job(arguments: argparse.Namespace) -> int:
    """As whoever asks; where that is root, as the person named. Who may write the record keeps what was found."""
    from portal.gpus import as_person, job
    from portal.webtools import explained, kept

    site = load(arguments.site)
    names = [explained.find(site, name).name for name in arguments.names] or [tool.name for tool in site.tool]
    if not names:
        print(explained.NOTHING)
        return 0
    if arguments.user or os.geteuid() == 0 or (kept.may_keep(site) and not arguments.json):
        where = ["--partition", arguments.partition, f"--gpus={arguments.gpus}"]
        argv = [str(Path(sys.prefix, "bin", "portal")), "tools", "test", "--json"]
        said = as_person.said(
            [*argv, "--site", str(Path(arguments.site).absolute()), *where, "--", *names], arguments.user
        )
        return kept.keep(site, said, arguments.partition, names, as_json=arguments.json)
    words = ("tools", "test", *(["--json"] if arguments.json else []), "--", *names)
    told = {SETTINGS: _of_everybody(site).to_text()}
    work = job.Work(words, "tools-test", max(MINUTES, MINUTES_PER_TOOL * len(names)), told)
    return job.run(site, arguments.partition, arguments.gpus, work, sys.stderr if arguments.json else sys.stdout)
