"""``portal kernels``: write the site's kernelspecs, list and explain them, and test that they start."""

from __future__ import annotations

import argparse

from portal.site import load


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser], default_site: str) -> None:
    """Add the commands to those of ``portal``."""
    kernels = commands.add_parser("kernels", help="kernels out of modules").add_subparsers(required=True)
    words = {"sync": "write the kernelspecs of the settings file", "list": "the kernels of the settings file"}
    for (name, text), act in zip(words.items(), (_sync, _list), strict=True):
        parser = kernels.add_parser(name, help=text)
        parser.add_argument("--site", default=default_site, help="the settings file (default: %(default)s)")
        parser.set_defaults(command=act)
    explain = kernels.add_parser("explain", help="what a kernel is made of, how it starts, and whether it would now")
    explain.add_argument("name", metavar="KERNEL", help="its name, as `portal kernels list` shows it")
    explain.add_argument("--site", default=default_site, help="the settings file (default: %(default)s)")
    explain.set_defaults(command=_explain)
    _add_test(
        kernels.add_parser("test", help="does each kernel start, and see the GPUs that Slurm gave?"), default_site
    )


def _add_test(test: argparse.ArgumentParser, default_site: str) -> None:
    test.add_argument("names", nargs="*", metavar="KERNEL", help="default: all")
    test.add_argument("--partition", default="", metavar="NAME", help="test in a job there (default: here)")
    test.add_argument("--gpus", type=int, default=1, metavar="N", help="how many that job asks for (default: 1)")
    test.add_argument(
        "--user", default="", metavar="PERSON", help="whom that job runs as, where root asks and keeps it"
    )
    test.add_argument("--json", action="store_true", help="one JSON object for each kernel")
    test.add_argument("--folder", default="", help="the folder of kernelspecs (default: the settings file's, if any)")
    test.add_argument("--site", default="", help=f"the settings file (default: {default_site}, if it is there)")
    test.set_defaults(command=_test, default_site=default_site)


def _sync(arguments: argparse.Namespace) -> int:
    from portal.catalogue import specs

    return specs.main_sync(load(arguments.site))


def _list(arguments: argparse.Namespace) -> int:
    from portal.catalogue import specs

    return specs.main_list(load(arguments.site))


def _explain(arguments: argparse.Namespace) -> int:
    from portal.catalogue import explained

    return explained.main(load(arguments.site), arguments.name)


def _test(arguments: argparse.Namespace) -> int:
    """A node has no settings file, and needs none: the kernelspecs of a session are in its JUPYTER_PATH."""
    from portal.gpus import comparison
    from portal.notebooks import run

    if arguments.partition:
        return _test_in_job(arguments)
    folder = arguments.folder or run.kernels_folder(arguments.site, arguments.default_site)
    return comparison.main(folder, arguments.names, as_json=arguments.json)


def _test_in_job(arguments: argparse.Namespace) -> int:
    """Who may write the folder of the kernelspecs keeps what was found there."""
    from portal.gpus import job, kept

    settings = arguments.site or arguments.default_site
    site = load(settings)
    asked = (arguments.partition, arguments.gpus, arguments.names)
    if arguments.user or (kept.may_keep(site) and not arguments.json):
        return kept.main(site, settings, *asked, arguments.user)
    return job.main(site, *asked, as_json=arguments.json)
