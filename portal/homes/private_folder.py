"""A person's private folder outside the home (``[session] private_folder``): made, and looked at before it is trusted.

Standard library only: :mod:`portal.launcher` uses it as the person. What lies there decides what the person's jobs do
(the log is opened by name, the environment is read), so nobody else may be able to put something in its way: every
folder on the way belongs to root or the person; the person's own part is no link, and the person's alone to change.
"""

from __future__ import annotations

import errno
import os
import pwd
import re
import stat
from pathlib import Path

from portal.homes.own_folder import make_own

ROOT = 0
IN_HOME = ".local/share/dsportal"
SESSIONS = "sessions"  # a folder for each, in the private folder
TRIED_BYTES = 16384  # as much as a session's environment
PLACEHOLDERS = ("{user}", "{uid}")
SETTING = "session.private_folder"
VARIABLE = "DSPORTAL_PRIVATE_FOLDER"  # where a session's server finds the path
FORM = re.compile(r"(/[A-Za-z0-9._-]+|/\{(?:user|uid)\})+\Z", re.ASCII)  # no '%': Slurm fills it in, in names of logs
_NAME = re.compile(r"[A-Za-z0-9._@+\\-]+\Z", re.ASCII)
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class PrivateFolderRefused(OSError):
    """The private folder cannot be trusted, or not be had; its text says which folder, what is wrong and what to do."""

    def __init__(self, folder: Path, what: str) -> None:
        super().__init__(errno.EPERM, what, str(folder))


def of_person(form: str, home: str) -> Path:
    """The private folder of who runs this: that of the setting, which is there then, or the one in the home.

    Raises:
        PrivateFolderRefused: it is not to be trusted.
        OSError: it cannot be made.
    """
    return made(form, pwd.getpwuid(os.getuid()).pw_name, os.getuid()) if form else Path(home, IN_HOME)


def of_session(form: str, home: str, key: str) -> Path:
    """The folder of a session that was submitted: in the home still, if that was before the setting.

    Everybody reads a session's key in Slurm's queue, and may make a folder of that name where nothing is yet.
    """
    in_home = Path(home, IN_HOME, SESSIONS, key)
    if not form:
        return in_home
    from portal.homes.held_place import is_own_all_the_way  # most sites do not need it

    folder = path_of(form, pwd.getpwuid(os.getuid()).pw_name, os.getuid()) / SESSIONS / key
    return folder if is_own_all_the_way(folder) else in_home


def write_and_remove(folder: Path) -> None:
    """Write there what a session needs, and take it away again.

    Raises:
        OSError: it cannot be written.
    """
    make_own(folder)
    file = folder / f".tried-{os.getpid()}"
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, b"x" * TRIED_BYTES)
        os.fsync(descriptor)  # a full quota shows here, on NFS
    finally:
        os.close(descriptor)
        file.unlink()


def fault(form: str) -> str:
    """What is wrong with a value of the setting, in words; ``""`` where nothing is."""
    parts = form.split("/")
    is_own = any(one in parts for one in PLACEHOLDERS)
    if FORM.match(form) and is_own and not {".", ".."} & set(parts):
        return ""
    return "an absolute path in which one whole part is {user} or {uid}, such as '/scratch/{user}/.dsportal', or ''"


def path_of(form: str, name: str, uid: int, setting: str = SETTING) -> Path:
    """The folder of one person.

    Arguments:
        setting: the key of the settings file that an error names.

    Raises:
        PrivateFolderRefused: the name cannot be a part of a path.
    """
    if not _NAME.match(name) or set(name) <= {"."}:
        raise PrivateFolderRefused(Path(form), f"cannot be made for somebody called {name!r}: see {setting}")
    return Path(form.replace("{user}", name).replace("{uid}", str(uid)))


def site_part(form: str) -> Path:
    """What stands before a person's own part of the path: the site makes it."""
    parts = form.split("/")[1:]
    return Path("/", *parts[: min(parts.index(one) for one in PLACEHOLDERS if one in parts)])


def made(form: str, name: str, uid: int, setting: str = SETTING) -> Path:
    """The folder of one person, which is there from now on, mode 700.

    Arguments:
        form: ``session.private_folder`` of root's settings file, or another ``setting`` of that shape.

    Raises:
        PrivateFolderRefused: it is not to be trusted, or the site's part of the path is not there.
        OSError: it cannot be made.
    """
    if words := fault(form):
        raise PrivateFolderRefused(Path(form), f"{setting} must be {words}")
    whole = path_of(form, name, uid, setting)
    sites = site_part(form)
    if not sites.is_dir():
        raise PrivateFolderRefused(sites, f"is not there, on which {setting} stands: its administrator makes it")
    place = sites.resolve()
    for folder in (*reversed(place.parents), place):
        _check(folder, folder.stat(), uid, is_site=True)
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in whole.parts[len(sites.parts) :]:
            place = place / part
            inner = _entered(descriptor, place, uid, setting)
            os.close(descriptor)
            descriptor = inner
        _make_private(descriptor, place, uid)
    finally:
        os.close(descriptor)
    return place


def _entered(above: int, folder: Path, uid: int, setting: str) -> int:
    """A descriptor of a folder of the person's own part, made if it is missing; no link is followed."""
    try:
        os.mkdir(folder.name, 0o700, dir_fd=above)
    except FileExistsError:
        pass
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror} (see {setting})", str(folder)) from None
    try:
        descriptor = os.open(folder.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise OSError(error.errno, error.strerror, str(folder)) from None
        raise PrivateFolderRefused(
            folder, "is a link or a file, where your own folder should be: take it away"
        ) from None
    try:
        _check(folder, os.fstat(descriptor), uid)
    except PrivateFolderRefused:
        os.close(descriptor)
        raise
    return descriptor


def _check(folder: Path, found: os.stat_result, uid: int, *, is_site: bool = False) -> None:
    """Nobody but root and the person can put something else in the place of what is in it."""
    if found.st_uid not in (ROOT, uid):
        raise PrivateFolderRefused(
            folder, f"belongs to uid {found.st_uid}, not to you: somebody made it first. Tell your administrator"
        )
    is_sticky = is_site and found.st_mode & stat.S_ISVTX
    if found.st_mode & _OTHERS_WRITE and not is_sticky:
        what = "others can write there, so that your session's files are not safe"
        raise PrivateFolderRefused(folder, f"{what} (mode {stat.S_IMODE(found.st_mode):04o}): chmod go-w")


def _make_private(descriptor: int, folder: Path, uid: int) -> None:
    found = os.fstat(descriptor)
    if found.st_uid != uid:
        raise PrivateFolderRefused(folder, f"belongs to uid {found.st_uid}, not to you. Tell your administrator")
    if stat.S_IMODE(found.st_mode) != 0o700:
        os.fchmod(descriptor, 0o700)
