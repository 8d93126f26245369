"""Comes before every Python kernel of a session, in whatever environment: the kernel then opens no port on its node.

Python imports the first ``sitecustomize`` that it finds, and this one is first (:mod:`portal.kernels.python_start`);
the environment's own follows. Of ipykernel (4 to 7), ``iostream`` takes what forked processes print at a socket beside
the kernel's other ones, where those are files, not at a TCP port; and ``debugger``, which listens on the node, does not
start, unless the site wants it. Nothing is imported out of a notebook's folder where others may have left files before
the kernel has begun, nor for a completion; no debugger runs what lies there, no temporary file lies there. Cells, and
the Pythons that libraries start in it, import from there, behind what the environment has. The kernel's own Python (3.6
or later) starts in any case.
"""

import _thread
import importlib
import os
import sys
from typing import Any

STARTED = "PORTAL_STARTED_BY_KERNEL"  # set for what a kernel starts in a folder where others may have left files
FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  loaded already: every start waits for this
DEBUGGER = "DSPORTAL_KERNEL_DEBUGGER"  # set where the site wants debuggers
FOLDERS = "PORTAL_KERNEL_FOLDERS"  # the session's own, which goes with it, and those in which a copy of this lies
PIPE_LINGER_MS = 3000  # as ipykernel's own


class Nothing:
    """Stands for a folder in which no module is found."""

    def find_spec(self, *_: Any) -> Any:
        """None."""

    invalidate_caches = find_spec


def _folders_beside() -> Any:
    """The notebook's folder, and those that PYTHONPATH names from there; not what the person alone can change."""
    parts = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    from_there = {os.path.abspath(part) for part in parts if not os.path.isabs(part)}  # noqa: PTH100, PTH117  as light
    NAMED.update(folder for folder in set(parts) | (set(sys.path) - from_there) if os.path.isabs(folder))  # noqa: PTH117
    beside = {os.path.abspath("")} | from_there | set(LAST)  # noqa: PTH100  as above
    return {folder for folder in beside - NAMED if not OWN.is_alone(folder)}


class Nobodys:
    """Stands for ``own_place`` where a server that began before an upgrade has not put it: no folder is one's own."""

    @staticmethod
    def is_own(*_: Any) -> bool:
        """No."""
        return False

    is_alone = has_own = is_refused = without_metadata = without_configuration = with_home_last = left_out = hand_on = (
        is_own
    )


class Changer:
    """Stands before Python's own finders: some modules are changed right after their import."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The module as the other finders find it, with the change behind it; None for all other modules."""
        change = CHANGES.get(name)
        if change is None:
            return None
        others = [finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")]
        specs = (finder.find_spec(name, path, target) for finder in others)
        spec = next((found for found in specs if found is not None), None)
        if spec is not None and spec.loader is not None:
            _put_behind(spec.loader, change)
        return spec


def _put_behind(loader: Any, change: Any) -> None:
    execute = loader.exec_module

    def exec_module(module: Any) -> None:
        execute(module)
        _change(module, change)

    loader.exec_module = exec_module


def _change(module: Any, change: Any) -> None:
    try:
        change(module)
    except Exception as error:
        sys.stderr.write(f"portal: {module.__name__} stays as it is: {error!r}\n")


def without_port(module: Any) -> None:
    """Let ``ipykernel.iostream`` hear its forked processes at a file."""
    import zmq

    thread = module.IOPubThread
    listen = thread._setup_pipe_in
    connect = thread._setup_pipe_out
    thread._private_pipe = ""

    def setup_pipe_in(self: Any) -> None:
        self._private_pipe = _pipe_beside(self.socket, zmq.LAST_ENDPOINT)
        if self._private_pipe:
            _listen_at(self._private_pipe, zmq.Socket, lambda: listen(self))
        else:
            listen(self)

    def setup_pipe_out(self: Any) -> Any:
        if not self._private_pipe:
            return connect(self)
        context = zmq.Context()
        pipe_out: Any = context.socket(zmq.PUSH)
        pipe_out.linger = PIPE_LINGER_MS
        pipe_out.connect(self._private_pipe)
        return context, pipe_out

    thread._setup_pipe_in = setup_pipe_in
    thread._setup_pipe_out = setup_pipe_out
    _leave_environment()  # this is the kernel: what it starts is the person's own


def _pipe_beside(socket: Any, last_endpoint: int) -> str:
    """An address beside that of the kernel's output; '' where that is not a file."""
    if not hasattr(socket, "getsockopt"):
        return ""
    endpoint: str = socket.getsockopt(last_endpoint).rstrip(b"\0").decode()
    return f"{endpoint}p" if endpoint.startswith("ipc://") else ""


def _listen_at(pipe: str, socket: Any, listen: Any) -> None:
    """Call ``listen``, with another place in mind for the one port that it asks for."""

    def bind(self: Any, *_: Any, **__: Any) -> int:
        self.bind(pipe)
        return 0

    usual = socket.bind_to_random_port
    socket.bind_to_random_port = bind
    try:
        listen()
    finally:
        socket.bind_to_random_port = usual


def without_debugger(module: Any) -> None:
    """Let ``ipykernel.debugger`` say that there is none, and refuse to start."""
    if not WANTS_DEBUGGER:
        module._is_debugpy_available = False
        module.Debugger.start = lambda self: False


def with_folder_last(module: Any) -> None:
    """Let ``IPython.core.shellapp`` look into the notebook's folder once all of its own is imported."""
    app = module.InteractiveShellApp
    init_path = app.init_path
    init_code = app.init_code

    def both(self: Any) -> Any:
        sys.path_importer_cache.update((folder, _beside(folder)) for folder in BESIDE)
        sys.path_hooks.insert(0, _hook)
        init_path(self)
        _put_last()
        return init_code(self)

    app.init_path = lambda self: None
    app.init_code = both


def _put_last() -> None:
    """Let what the environment has be found first, where others may have left files of the same names."""
    last = [folder for folder in sys.path if folder in BESIDE or (folder == "" and not OWN.is_alone(os.curdir))]
    sys.path[:] = [folder for folder in sys.path if folder not in last] + last + (OWN.left_out() or []) + LAST


def _hook(folder: str) -> Any:
    """What finds the modules of a folder that others can change, later too; what the environment names has others."""
    is_named = any(folder == named or folder.startswith(named.rstrip(os.sep) + os.sep) for named in NAMED)
    if is_named or not os.path.isdir(folder) or OWN.is_alone(folder):  # noqa: PTH112  as above
        raise ImportError(folder, path=folder)
    return _beside(folder)


def _beside(folder: str, refuses: Any = None) -> Any:
    """Finds the modules of a folder, for cells where nothing else is said, and none for :func:`asked_quietly`."""
    from importlib import machinery

    refuses = refuses or (lambda name: OWN.is_refused(name, folder, NAMED, QUIET))

    class Beside(machinery.FileFinder):
        def find_spec(self, fullname: str, target: Any = None) -> Any:
            return None if _thread.get_ident() in QUIET or refuses(fullname) else super().find_spec(fullname, target)

    class Source(machinery.SourceFileLoader):
        def path_stats(self, path: Any) -> Any:
            raise OSError(path)  # so that no compiled code is taken: others may have made __pycache__

    return Beside(
        folder,
        (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES),
        (Source, machinery.SOURCE_SUFFIXES),
        (machinery.SourcelessFileLoader, machinery.BYTECODE_SUFFIXES),
    )


def asked_quietly(module: Any) -> None:
    """Let ``ipykernel.ipkernel`` answer what is asked while somebody types without a look into those folders.

    What makes a completion also looks for packages that the environment does not have, such as jedi for colorama.
    """
    kernel = module.IPythonKernel
    for name in ("do_complete", "do_inspect", "do_is_complete", "do_history"):
        setattr(kernel, name, _quiet(getattr(kernel, name)))


def _quiet(method: Any) -> Any:
    import functools

    @functools.wraps(method)
    def asked(*arguments: Any, **named: Any) -> Any:
        now = {_thread.get_ident()} - QUIET
        QUIET.update(now)
        try:
            return method(*arguments, **named)
        finally:
            QUIET.difference_update(now)

    return asked


def _leave_environment() -> None:
    """Where others may have left files, hand on to what the kernel starts, jobs too, what lasts; else nothing."""
    for name in (DEBUGGER, FOLDERS):
        os.environ.pop(name, None)
    if BESIDE:
        os.environ.update({STARTED: "1", FOLDERS: os.pathsep.join(["", *LASTING])})
    OWN.hand_on(LASTING if BESIDE else [], OURS)


def _own_place() -> Any:
    """The module of that name beside this one, which nobody else sees."""
    try:
        importlib.import_module("own_place")
    except ImportError:
        return Nobodys
    return sys.modules.pop("own_place")


def _follow_own() -> None:
    """Run the sitecustomize that the environment itself has."""
    ours = sys.modules.pop("sitecustomize")
    sys.path[:] = [folder for folder in sys.path if folder not in OURS]
    try:
        importlib.import_module("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", ours)


WANTS_DEBUGGER = DEBUGGER in os.environ
CHANGES = {
    "ipykernel.iostream": without_port,
    "ipykernel.debugger": without_debugger,
    "ipykernel.ipkernel": asked_quietly,
    "IPython.core.shellapp": with_folder_last,
    "pdb": lambda module: OWN.without_rc_beside(module),
    "IPython.core.application": lambda module: OWN.without_configuration(module, BESIDE),
    **dict.fromkeys(("importlib.metadata", "importlib_metadata"), lambda module: OWN.without_metadata(module, BESIDE)),
}
TOLD = os.environ.get(FOLDERS, os.path.dirname(FOLDER)).split(os.pathsep)  # noqa: PTH120  as above
SESSION = TOLD[0]
OURS = [*TOLD[1:], FOLDER]
LASTING = [folder for folder in OURS[:-1] if os.path.dirname(folder) != SESSION]  # noqa: PTH120  as above
LAST: Any = list(filter(None, [os.environ.pop("PORTAL_KERNEL_TEMPLATE", "")]))  # what `portal notebooks run` runs
NAMED: Any = set()  # the folders of the environment
BESIDE: Any = ()
OWN: Any = Nobodys
QUIET: Any = set()  # the threads that look into no such folder now
if __name__ == "sitecustomize":
    sys.meta_path.insert(0, Changer())
    OWN = _own_place()
    if not getattr(OWN, "is_kernel", bool)(SESSION):  # of a kernel that is no Python, which has not said so
        os.environ.setdefault(STARTED, OWN.UNSAID)
    if STARTED not in os.environ:  # else it may be a job, which goes on when that folder is gone
        CHANGES["tempfile"] = lambda module: OWN.with_home_last(module, SESSION)
    if FOLDER in LASTING:
        OWN.hand_on(LASTING, OURS)  # not the session's, also where this is a wrapper, or no ipykernel
    BESIDE = _folders_beside()
    for loaded in set(CHANGES) & set(sys.modules):  # by a .pth of the environment
        _change(sys.modules[loaded], CHANGES[loaded])
    last: Any = getattr(OWN, "Last", None) if STARTED in os.environ else None
    sys.path_importer_cache.update((each, last(each, QUIET, _beside) if last else Nothing()) for each in BESIDE)
    if last and hasattr(sys, "argv"):  # later runpy has the file's name in it, whose program this is not
        OWN.is_program()
    _follow_own()
