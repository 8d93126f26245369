"""``portal kernels``: write the site's kernelspecs, list and explain them, and see whether frameworks see the GPUs."""

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
    test = kernels.add_parser("test", help="do the frameworks of the kernels see the GPUs that Slurm gave?")
    test.add_argument("names", nargs="*", metavar="KERNEL", help="default: all")
    test.add_argument("--partition", default="", metavar="NAME", help="ask in a job there (default: ask here)")
    test.add_argument("--gpus", type=int, default=1, metavar="N", help="how many that job asks for (default: 1)")
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
    from portal.gpus import comparison, job
    from portal.notebooks import run

    if arguments.partition:
        site = load(arguments.site or arguments.default_site)
        return job.main(site, arguments.partition, arguments.gpus, arguments.names)
    folder = arguments.folder or run.kernels_folder(arguments.site, arguments.default_site)
    return comparison.main(folder, arguments.names)
