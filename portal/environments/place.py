"""Where a person's environments lie: made and looked at before it is used, measured, and emptied."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import stat
from pathlib import Path

from portal.errors import PortalError
from portal.homes.held_place import is_own_all_the_way
from portal.homes.own_folder import make_own, of_others_in
from portal.homes.private_folder import PrivateFolderRefused, made

DEFAULT = "~/environments"
SETTING = "environments.folder"
FREE_LEAST_MIB = 300
_GONE = ".removed-"


class EnvironmentRefused(PortalError):
    """An environment cannot be made, found or removed; the message says why and what to do."""

    reason = "environment"


def path_of(form: str, home: Path) -> Path:
    """The folder of all environments of who runs this; nothing is made.

    Arguments:
        form: ``environments.folder`` of the settings; "" is :data:`DEFAULT`.
    """
    form = form or DEFAULT
    if form.startswith("~/"):
        return home / form.removeprefix("~/")
    name = pwd.getpwuid(os.getuid()).pw_name
    return Path(form.replace("{user}", name).replace("{uid}", str(os.getuid())))


def prepared(form: str, home: Path) -> Path:
    """The folder of all environments of who runs this, which is there from now on, and hers alone to change.

    Raises:
        EnvironmentRefused: it is not to be trusted, cannot be made, or has no room.
    """
    folder = path_of(form, home)
    try:
        if form.startswith("/"):
            made(form, pwd.getpwuid(os.getuid()).pw_name, os.getuid(), SETTING)
        else:
            make_own(folder)
        free_mib = shutil.disk_usage(folder).free >> 20
    except PrivateFolderRefused as error:
        raise EnvironmentRefused(f"{error.filename} {error.strerror}.") from error
    except OSError as error:
        raise EnvironmentRefused(f"{folder} cannot be made: {error.strerror}.") from error
    if not is_own_all_the_way(folder):
        raise EnvironmentRefused(
            f"{folder} can be changed by others, who would choose what your kernels run: chmod go-w it and the folders "
            "above it that are yours, or ask your administrator."
        )
    if left := of_others_in(folder):
        raise EnvironmentRefused(
            f"{folder} holds something of others ({left}), who would choose what your kernels run: take it away."
        )
    if free_mib < FREE_LEAST_MIB:
        raise EnvironmentRefused(
            f"{folder} has {free_mib} MB free, and an environment needs {FREE_LEAST_MIB} or more: make some room first."
        )
    return folder


def packages_time(path: Path) -> int:
    """When something was installed there last, in nanoseconds; 0 where there are no packages."""
    times = [found.stat().st_mtime_ns for found in path.glob("lib/python3*/site-packages")]
    return max(times, default=0)


def size_bytes(path: Path) -> int:
    """How much room a folder takes; links count as themselves, a file with several names once."""
    total = 0
    seen: set[tuple[int, int]] = set()
    for folder, _, files in os.walk(path):
        for name in files:
            try:
                found = Path(folder, name).lstat()
            except OSError:
                continue
            if found.st_nlink > 1 and (found.st_dev, found.st_ino) in seen:
                continue
            seen.add((found.st_dev, found.st_ino))
            total += found.st_blocks * 512
    return total


def remove(path: Path) -> None:
    """Take a folder away: at once by another name, so that half of it is never seen; then its files.

    No link is followed.

    Raises:
        OSError: it is a link or a file, or is somebody else's.
    """
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(20, "is a link or a file, and no environment: look what it is", str(path))
    gone = path.with_name(f"{_GONE}{path.name}-{secrets.token_hex(4)}")
    path.rename(gone)
    shutil.rmtree(gone)


def remove_leftovers(folder: Path) -> None:
    """Go on with what an earlier :func:`remove` was interrupted in."""
    for one in folder.glob(f"{_GONE}*"):
        if one.is_dir() and not one.is_symlink():
            shutil.rmtree(one, ignore_errors=True)
