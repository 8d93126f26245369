"""Build the framework environments and lay out the module tree that makes them visible.

    build.py --cm FOLDER                     what a first run of the demo needs: python3, tensorflow, the module tree
    build.py --cm FOLDER --all               every environment, then the module tree
    build.py --cm FOLDER --gpu               those with NVIDIA's libraries, for nodes with GPUs, then the module tree
    build.py --cm FOLDER pytorch             one environment
    build.py --cm FOLDER modulefiles         only the module tree

An environment is built in ``FOLDER/shared/apps/NAME/VERSION`` and used at ``/cm/shared/apps/NAME/VERSION``
(``--used-at`` names another place than ``/cm``): its scripts already name the place where they will run.
Building happens in a folder beside the target, which takes the target's name at the very end, so an
interruption leaves the old environment or none. A stamp made from the lock file lets a second run finish
at once; what was fetched is kept in ``--cache-dir``, so a run after an interruption goes on from there.

An environment may have a second lock, for where the package sources in use lack what the first one names; a run
says so when it takes that. Naming the lock (``build.py pytorch-cuda``) builds from that one.

Standard library only: this runs before anything of the portal is installed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from deploy import interpreter, own_lock
from deploy.environments import node_packages
from deploy.environments.environment_folder import add_modules, make_empty, publish, see, settle
from deploy.environments.recipes import BY_NAME, ENVIRONMENTS, EVERY, FOR_GPUS, HERE, Environment
from deploy.environments.wheels import Absent, BuildError, Pip, end_on_signals, pip_command

MODULEFILES = Path(__file__).resolve().parents[1] / "modulefiles"
STAMP = ".dsportal-stamp"
RECIPE = "1"  # changes when this file builds the same lock into something else


class WrongPython(BuildError):
    """The lock of an environment was made for other Pythons."""


def say(text: str) -> None:
    """Print one line at once."""
    print(text, flush=True)


def stamp(environment: Environment, python: str, used_at: Path) -> str:
    """What an environment is made of: two equal stamps mean that nothing has to be done."""
    text = "\n".join([RECIPE, python, str(used_at), *(file.read_text() for file in environment.made_of)])
    return hashlib.sha256(text.encode()).hexdigest()


def stamp_of(folder: Path) -> str:
    """The stamp of an environment that was finished, or nothing."""
    file = folder / STAMP
    return file.read_text() if file.is_file() else ""


def is_built(environment: Environment, options: argparse.Namespace) -> bool:
    """Whether the environment is there, out of its own lock or out of the one for otherwise."""
    found = stamp_of(environment.folder(options.cm))
    locks = filter(None, (environment, environment.otherwise))
    return any(found == stamp(one, options.python, options.used_at) for one in locks)


def alone(folder: Path) -> AbstractContextManager[None]:
    """Hold the folder's lock, so that two builds of one environment wait for each other."""
    folder.mkdir(parents=True, exist_ok=True)
    return own_lock.alone(folder / ".build.lock", lambda text: say(f"  {folder}: {text}"))


def check_python(environment: Environment, python: str) -> None:
    """A lock is made for some versions of Python.

    Raises:
        BuildError: it cannot be run.
        WrongPython: the lock was not made for it.
    """
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise BuildError(f"{python} does not run ({error}): give another interpreter with --python") from error
    if (version := done.stdout.strip()) not in environment.pythons:
        raise WrongPython(
            f"{environment.title}: {python} is Python {version}, but the lock is for Python "
            f"{', '.join(environment.pythons)}: give one of these with --python, or lock again as "
            f"{environment.lock.with_suffix('.in')} says"
        )


def check_space(environment: Environment, folder: Path) -> None:
    """Raise :class:`BuildError` now rather than after ten minutes of downloading."""
    need = environment.disk_mib + 2 * environment.download_mib  # what is kept, and pip's own copy
    free = shutil.disk_usage(folder).free >> 20
    if free < need:
        raise BuildError(
            f"{environment.title}: {folder} has {free} MiB free, {need} MiB are needed. "
            "Free some space, or put the state folder elsewhere (DSPORTAL_DEMO)"
        )


def build(environment: Environment, options: argparse.Namespace) -> None:
    """Build one environment, unless it is there already; before it the one that it stands on."""
    if environment.upon:
        build(EVERY[environment.upon], options)
    if is_built(environment, options):
        say(f"{environment.title}: ready")
        return
    with alone(environment.folder(options.cm).parent):
        if not is_built(environment, options):
            make(environment, options)


def make(environment: Environment, options: argparse.Namespace) -> None:
    """Build one environment out of its lock, or out of its other one where a package of the first cannot be had."""
    try:
        make_from_lock(environment, options)
    except Absent as error:
        if not environment.otherwise:
            raise
        say(f"  the package sources in use (pip config list) do not have {error.package}: another build is taken")
        make_from_lock(environment.otherwise, options)


def make_from_lock(environment: Environment, options: argparse.Namespace) -> None:
    """Build one environment beside its place, then give it its name."""
    started = time.monotonic()
    folder = environment.folder(options.cm)
    for leftover in folder.parent.glob(f".{folder.name}.building*"):
        shutil.rmtree(leftover, ignore_errors=True)
    # A name of its own: after a kill -9, pip may still be at work in the leftover for a moment.
    staging = folder.with_name(f".{folder.name}.building.{os.getpid()}")
    check_space(environment, folder.parent)
    say(f"{environment.title}: up to {environment.download_mib} MB to fetch, {environment.disk_mib} MB on disk")
    make_empty(options.python, staging)
    scratch = staging / "tmp"
    scratch.mkdir()
    pip = Pip(pip_command(options.pip), staging / "bin" / "python", scratch, say)
    pip.fetch(environment.lock.read_text(), options.cache_dir)
    say(f"  {time.monotonic() - started:5.0f} s  unpacking")
    pip.install(environment.lock, options.cache_dir)
    shutil.rmtree(scratch)
    if environment.upon:
        see(staging, [EVERY[environment.upon].folder(options.used_at)])
    add_modules(staging, [HERE / name for name in environment.modules])
    if environment.is_of_npm:
        node_packages.install(staging, environment.lock.with_suffix(""), options.cache_dir.parent / "npm", say)
    say(f"  {time.monotonic() - started:5.0f} s  compiling")
    settle(staging, environment.folder(options.used_at))
    (staging / STAMP).write_text(stamp(environment, options.python, options.used_at))
    publish(staging, folder)
    say(f"{environment.title}: built in {time.monotonic() - started:.0f} s")


def copy_modulefiles(cm: Path) -> int:
    """Copy the module tree; a file that is already the same keeps its time, which caches look at."""
    copied = 0
    for source in sorted(path for path in MODULEFILES.rglob("*") if path.is_file()):
        tree, *rest = source.relative_to(MODULEFILES).parts
        target = cm.joinpath(tree, "modulefiles", *rest)
        if target.is_file() and target.read_bytes() == source.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f".{target.name}.new")
        shutil.copyfile(source, beside)
        beside.replace(target)
        copied += 1
    say(f"modulefiles: {f'{copied} written' if copied else 'ready'}")
    return copied


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line, with every path made absolute."""
    parser = argparse.ArgumentParser(prog="build.py", description=__doc__.splitlines()[0], allow_abbrev=False)
    first_run = [name for name, environment in ENVIRONMENTS.items() if environment.first_run]
    known = [*BY_NAME, "modulefiles"]
    parser.add_argument(
        "what", nargs="*", metavar="WHAT", help=f"{', '.join(known)} (default: {', '.join(first_run)}, modulefiles)"
    )
    parser.add_argument("--all", action="store_true", help="every environment for CPUs, and the modulefiles")
    parser.add_argument("--gpu", action="store_true", help=f"those for GPUs: {', '.join(FOR_GPUS)}; 13 GB to fetch")
    parser.add_argument("--cm", type=Path, required=True, help="the folder that will be seen as /cm")
    parser.add_argument("--used-at", type=Path, default=Path("/cm"), help="where it will be seen (default /cm)")
    parser.add_argument(
        "--pip", default="", help="an interpreter that has pip, or a pip wheel (default: this interpreter)"
    )
    parser.add_argument(
        "--python", default=interpreter.usual(), help="the Python of the environments (default %(default)s)"
    )
    parser.add_argument("--cache-dir", type=Path, help="where downloads are kept (default CM/../cache/wheels)")
    options = parser.parse_args(argv)
    for name in options.what:
        if name not in known:
            parser.error(f"{name!r} is not known; there are {', '.join(known)}")
    options.named = bool(options.what)
    wanted = [*(ENVIRONMENTS if options.all else ()), *(FOR_GPUS if options.gpu else ())]
    options.what = options.what or [*(wanted or first_run), "modulefiles"]
    options.cm = options.cm.resolve()
    options.cache_dir = (options.cache_dir or options.cm.parent / "cache" / "wheels").resolve()
    return options


def run(options: argparse.Namespace) -> None:
    """Build what was asked for, in this order."""
    for environment in (BY_NAME[name] for name in options.what if name in BY_NAME):
        try:
            if not is_built(environment, options):
                check_python(environment, options.python)
            build(environment, options)
        except WrongPython as error:
            if options.named:
                raise
            say(f"{error}. It is not offered")
        except BuildError as error:
            if options.named or not environment.is_of_npm:  # which takes a compiler; the others do without it
                raise
            say(f"{environment.title}: {error}. It is not offered")
    if "modulefiles" in options.what:
        copy_modulefiles(options.cm)


def main(argv: Sequence[str] | None = None) -> int:
    """Build; answers the exit status."""
    os.umask(0o022)  # everybody on the cluster reads these files
    os.environ["NODE_DISABLE_COMPILE_CACHE"] = "1"  # npm (10.9) takes code from a known name in /tmp
    end_on_signals()
    try:
        run(arguments(argv))
    except BuildError as error:
        print(f"build.py: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"build.py: {error.strerror or error}: {error.filename or ''}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("build.py: stopped; run it again to go on (what was fetched is kept)", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
