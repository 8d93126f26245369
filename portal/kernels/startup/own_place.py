"""Says to ``sitecustomize``, beside which it lies, whose a folder is, and whose is what lies in it.

And what finds modules in one where others may have left some. Written in what Python 3.6 knows.
"""

import _thread
import os
import stat
import sys
from itertools import islice
from typing import Any

STARTED = "PORTAL_STARTED_BY_KERNEL"  # as in sitecustomize
IN_THEIRS = "PORTAL_KERNEL_IN_THEIRS"  # set where others may have chosen the folder that the kernel began in
OF_HELPER = "helper"  # its value for what one of the words below starts
UNSAID = "unsaid"  # its value where no kernel has said so yet: this may be what is to become one
OF_PROGRAM = "program"  # its value for what a program starts, not a Python of the words below
NO_PROGRAM: Any = ([], [""], ["-"], ["-c"], ["-m"])  # how a Python's arguments begin while it starts
OF_JOB = "PORTAL_JOB_BEGINS"  # set for a program that an earlier version's job starts by one of these
NEVER = ("sitecustomize", "usercustomize", "pip")  # which an environment may not have, and nobody means those of others
# What the standard library asks for in vain, from 3.8 on: Jython's, that of other systems, and what may not be built.
OF_SYSTEMS = ("org", "java", "vms_lib", "nt", "msvcrt", "winreg", "_winreg", "_winapi", "_wmi", "_overlapped")
NOT_BUILT = ("_scproxy", "_dummy_threading", "_bz2", "_lzma", "_uuid", "_dbm", "_gdbm")
STANDARD = frozenset(getattr(sys, "stdlib_module_names", ())).union(NEVER, OF_SYSTEMS, NOT_BUILT)  # that: 3.10 on
LOOKED_AT_MOST = 2000  # the kernel's start waits for each, also on a file server that is slow
SAFE_PATH = "PYTHONSAFEPATH"  # for a kernel that is started by a program of its person's: this may not be reached
IS_SAFE = os.environ.get(SAFE_PATH) == "dsportal"


def is_alone(folder: str) -> bool:
    """Whether a folder is the person's own, and nothing in it is of others, who came to it once; not asked of many."""
    if not is_chosen(folder):
        return False
    try:
        with os.scandir(folder) as entries:
            looked_at = list(islice(entries, LOOKED_AT_MOST + 1))
        return len(looked_at) <= LOOKED_AT_MOST and not any(map(_is_of_others, looked_at))
    except (OSError, RecursionError):
        return False


def has_own(folder: str, name: str) -> bool:
    """Whether a folder is the person's own, and a file of it, where there is one, nobody else's to change.

    With umask 002 a group may write them all; where it does not come to the folder, it has a link at most.
    """
    try:
        found = os.lstat(os.path.join(folder, name))  # noqa: PTH118  as light as sitecustomize
        is_reached = os.stat(folder).st_mode & 0o011  # noqa: PTH116  as above
    except OSError:
        return is_chosen(folder)
    is_open = stat.S_ISREG(found.st_mode) and found.st_mode & 0o022
    can_change = is_open and (is_reached or found.st_nlink > 1)
    return not can_change and found.st_uid in (0, os.geteuid()) and is_chosen(folder)


def _is_of_others(entry: Any) -> bool:
    try:
        return entry.stat(follow_symlinks=False).st_uid not in (0, os.geteuid())
    except FileNotFoundError:  # it was there for a moment
        return False


def is_chosen(folder: str) -> bool:
    """Whether a folder is the person's own, and others did not lead there: from where they did one goes on."""
    return IN_THEIRS not in os.environ and is_own(folder)


def is_own(folder: str) -> bool:
    """As ``is_own_all_the_way`` of :mod:`portal.homes.held_place`, which the kernel's Python does not have.

    Nobody else can change the folder, or put another one in its place, or in that of one on the way.
    """
    try:
        found = os.stat(folder)  # noqa: PTH116  as light as sitecustomize
        is_private = found.st_uid == os.geteuid() and not found.st_mode & 0o022
        return is_private and _stays(os.path.abspath(folder))  # noqa: PTH100  as above
    except (OSError, RecursionError):  # the latter of realpath, where others exchange links meanwhile
        return False


def _stays(path: str) -> bool:
    """Whether nobody else can rename a part of a path, or of where a link leads: in a sticky folder one's own stays."""
    places = [path]
    for place in places:  # which grow meanwhile, without an end where others exchange links for a circle
        found = os.lstat(place)
        is_open = found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX and not stat.S_ISLNK(found.st_mode)
        if is_open or found.st_uid not in (0, os.geteuid()) or len(places) > 1000:
            return False
        above = os.path.dirname(place)  # noqa: PTH120  as above
        places += [above] * (above != place)
        if stat.S_ISLNK(found.st_mode):
            places.append(os.path.join(os.path.realpath(above), os.readlink(place)))  # noqa: PTH115, PTH118
    return True


def is_refused(name: str, folder: str, named: Any, quiet: Any) -> bool:
    """Whether cells get no module of that name from such a folder, but where they have put it before the environment.

    Arguments:
        named: the folders of the environment.
        quiet: the threads that look into no such folder.
    """
    path = [each and _place(each) for each in sys.path]
    before = path[: path.index(_place(folder))] if _place(folder) in path else path
    is_put = not named.isdisjoint(set(path).difference(before))  # as %run does
    return not is_put and has_elsewhere(name, quiet)


def has_elsewhere(name: str, quiet: Any) -> bool:
    """Whether the environment has a module of that name, or Python itself looks for one, be it in vain.

    The environment's may be a package without a file, or come from a finder behind Python's own, as setuptools' does.
    """
    if name in STANDARD or "." in name:
        return name in STANDARD
    from importlib.machinery import PathFinder

    behind = sys.meta_path[sys.meta_path.index(PathFinder) + 1 :] if PathFinder in sys.meta_path else []
    thread = _thread.get_ident()
    quiet.add(thread)
    try:
        finders: Any = (finder for finder in [PathFinder, *behind] if hasattr(finder, "find_spec"))
        specs: Any = (finder.find_spec(name, None) for finder in finders)
        return any(spec is not None and (spec.origin is not None or _has_modules(spec)) for spec in specs)
    finally:
        quiet.discard(thread)


def _has_modules(spec: Any) -> bool:
    """Whether a package without a file has something to import, and is no folder of data that has the name."""
    if spec.loader is not None and not spec.submodule_search_locations:
        return True
    for folder in spec.submodule_search_locations or ():
        for _, _, names in islice(os.walk(folder), 100):
            if any(name.endswith((".py", ".so", ".pyc")) for name in names):
                return True
    return False


def without_metadata(module: Any, beside: Any) -> None:
    """Let ``importlib.metadata`` find in such a folder no packages, whose entry points libraries load by themselves."""
    search = module.MetadataPathFinder._search_paths

    def is_elsewhere(folder: str) -> bool:
        return _place(folder) not in beside and (folder != "" or is_chosen(os.curdir))

    def elsewhere(name: Any, paths: Any) -> Any:
        return search(name, paths if BEGAN == [True] else [path for path in paths if is_elsewhere(path)])

    module.MetadataPathFinder._search_paths = staticmethod(elsewhere)


def without_configuration(module: Any, beside: Any) -> None:
    """Let IPython run no configuration and no profile of such a folder, as it did until 7.31 and 8.0.

    Arguments:
        module: ``IPython.core.application``.
        beside: those folders.
    """
    load = module.BaseIPythonApplication.load_config_file
    find = module.ProfileDir.find_profile_dir_by_name

    def load_elsewhere(self: Any, *arguments: Any, **named: Any) -> Any:
        self.config_file_paths = [folder for folder in self.config_file_paths if _place(folder) not in beside]
        return load(self, *arguments, **named)

    def by_name(cls: Any, ipython_dir: str, name: str = "default", config: Any = None) -> Any:
        place = os.path.join(ipython_dir, "profile_" + name)  # noqa: PTH118  as light as sitecustomize
        if not beside:
            return find.__func__(cls, ipython_dir, name, config)
        if not os.path.isdir(place):  # noqa: PTH112  as above
            raise module.ProfileDirError("Profile directory not found in paths: " + ipython_dir)
        return cls(location=place, config=config)

    module.BaseIPythonApplication.load_config_file = load_elsewhere
    module.ProfileDir.find_profile_dir_by_name = classmethod(by_name)


def without_rc_beside(module: Any) -> None:
    """Let ``pdb`` run no ``.pdbrc`` of a folder in which others may have left one, but that of the home."""
    begin = module.Pdb.__init__

    def begin_at_home(self: Any, *arguments: Any, **named: Any) -> None:
        if len(arguments) > 5 or not named.get("readrc", True) or has_own(os.curdir, ".pdbrc"):
            begin(self, *arguments, **named)
            return
        begin(self, *arguments, **dict(named, readrc=False))
        own = os.path.expanduser("~/.pdbrc")  # noqa: PTH111  as above
        if os.path.isfile(own):  # noqa: PTH113  as above
            with open(own) as file:  # noqa: PTH123  as above
                self.rcLines.extend(file)

    module.Pdb.__init__ = begin_at_home


def with_home_last(module: Any, session: str) -> None:
    """Let ``tempfile`` use a private folder, not one that others can write to, as /tmp is; if it is full, the home."""
    listed = module._candidate_tempdir_list

    def candidates() -> Any:
        found = listed() if is_own(os.curdir) else [*listed()[:-1], os.path.expanduser("~")]  # noqa: PTH111  as above
        is_private = is_own(next(filter(os.path.isdir, found), ""))
        return found if is_private else [os.path.join(session, "tmp"), *found]  # noqa: PTH118  as above

    module._candidate_tempdir_list = candidates


def left_out() -> Any:
    """The folder itself, where Python and IPython have left it out because the portal wanted that.

    This is the kernel then, and not a program before it, such as ``conda run``: what it starts is as ever.
    """
    if IS_SAFE:
        os.environ.pop(SAFE_PATH, None)
    return [""] if IS_SAFE and "" not in sys.path else []


def _place(folder: Any) -> Any:
    try:
        return os.path.abspath(folder)  # noqa: PTH100  as light as sitecustomize
    except OSError:  # the one where this Python works is gone
        return folder


def is_kernel(session: str) -> bool:
    """Whether this Python is told of a file of the session, as kernels are of their sockets; not what they start."""
    try:
        with open("/proc/self/cmdline", "rb") as file:  # noqa: PTH123  as light as sitecustomize
            words = file.read().split(b"\0")
    except OSError:
        return True
    inside = os.fsencode(session) + b"/"
    return session != "" and any(inside in word and not word.startswith(inside + b"startup/") for word in words)


def hand_on(folders: Any, ours: Any) -> None:
    """Have PYTHONPATH name these of our folders, and what it names beside ours."""
    left = [folder for folder in os.environ.pop("PYTHONPATH", "").split(os.pathsep) if folder not in ours]
    if folders or any(left):
        os.environ["PYTHONPATH"] = os.pathsep.join([*folders, *left])


def is_program() -> bool:
    """Whether this Python was started for a program, and not by ``-m``, ``-c`` or for what it reads."""
    if not BEGAN:
        BEGAN.append(getattr(sys, "argv", [""])[:1] not in NO_PROGRAM or OF_JOB in os.environ)
        if os.environ.get(STARTED) != UNSAID or BEGAN[0]:
            os.environ[STARTED] = OF_PROGRAM if BEGAN[0] else OF_HELPER
    return bool(BEGAN[0])


BEGAN: Any = []  # whether as a program, where a kernel has started this Python, once that was asked


class Last:
    """Finds modules in such a folder, in what a kernel starts there: by ``-m`` and ``-c`` what no other folder has.

    Python looks there first then: what a library starts, as multiprocessing does, would begin with others' files. A
    program finds what lies beside it as ever, and so do those that multiprocessing starts for it: they get its path.
    """

    def __init__(self, folder: str, quiet: Any, make: Any) -> None:
        self._folder = folder
        self._quiet = quiet
        self._make = make
        self._finder: Any = None
        self._given = sys.path
        self._is_programs = os.environ.get(STARTED) != OF_HELPER
        self._is_unsaid = os.environ.get(STARTED) == UNSAID

    def find_spec(self, name: str, target: Any = None) -> Any:
        """The module; None where the environment has one of that name."""
        if _thread.get_ident() in self._quiet:
            return None
        self._finder = self._finder or self._make(self._folder, self._refuses)
        return self._finder.find_spec(name, target)

    def iter_modules(self, prefix: str = "") -> Any:
        """What :mod:`pkgutil` lists."""
        import pkgutil

        found = self._finder = self._finder or self._make(self._folder, self._refuses)
        listed: Any = pkgutil.iter_importer_modules  # type: ignore[attr-defined]
        return listed(found, prefix) if is_program() else ()

    def invalidate_caches(self) -> None:
        """Look anew."""
        self._finder = None

    def _refuses(self, name: str) -> bool:
        if is_program():
            return False
        return self._is_unsaid or name in STANDARD or (not self._is_first() and has_elsewhere(name, self._quiet))

    def _is_first(self) -> bool:
        """Whether this has the path of a program, which multiprocessing puts in the place of its own."""
        is_programs = self._is_programs and sys.path is not self._given
        return is_programs and [_place(each) for each in sys.path[:1]] == [self._folder]
