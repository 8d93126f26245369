"""Runs a copy of a Python program as though it were begun by its own path: constant, and laid beside each copy.

    python3 begin FILE [ARGUMENT…]

The copy lies beside it, in the folder ``submitted``, with the name of FILE. What others write into FILE does not run,
nor in the processes that multiprocessing, joblib and others start anew: these read the program once more; nor do its
lines come from there, which Triton and TorchScript compile. Standard library only, of any Python from 3.6 on.
"""


def _begin():
    import contextlib
    import linecache
    import os
    import sys
    from importlib.util import decode_source

    begin = os.path.abspath(__file__)
    at = os.path.realpath(os.path.dirname(begin))
    own = {"__cached__": None, "__doc__": None}
    if __name__ == "__main__":
        del sys.argv[0]
        file = sys.argv[0]
        if hasattr(sys, "orig_argv"):
            sys.orig_argv[1:] = sys.argv
        if sys.path[:1] == [at]:  # not with -I or -P
            sys.path[0] = os.path.dirname(file)
        own["__loader__"] = type(__loader__)("__main__", file)
    else:
        with open(os.path.join(at, "file"), "rb") as told:
            file = os.fsdecode(told.read())
        sys.argv[0] = file  # as runpy has it while it runs the program
    try:
        copy = os.path.join(at, "submitted", os.path.basename(file))
        with os.fdopen(os.open(copy, os.O_RDONLY | os.O_NONBLOCK), "rb") as read:
            text = read.read()
    except OSError as error:
        sys.exit(
            f"The copy of {file} that was kept when this job was submitted cannot be read: {error}. Nothing was run. "
            "Submit the job again."
        )

    def tell(module):
        """Have a module that starts processes anew name this file to them in the place of the program's."""
        plain = getattr(module, "get_preparation_data", None)

        def told(*words, **more):
            data = plain(*words, **more)
            for word in ("init_main_from_path", "main_path"):
                if data.get(word) == os.path.normpath(file):
                    data[word] = begin
            return data

        if plain is not None:
            module.get_preparation_data = told
        read = getattr(module, "_fixup_main_from_path", None)

        def fixup(path):
            if path != begin or getattr(sys.modules["__main__"], "__file__", None) != file:
                read(path)  # else a fork server has, from Python 3.13.8 on

        if read is not None:
            module._fixup_main_from_path = fixup

    class Teller:
        """Stands before Python's own finders, for what is imported later."""

        of = begin

        def find_spec(self, name, path=None, target=None):
            """The module as they find it, with that behind it; None for all that starts no processes."""
            if not name.endswith(".spawn"):
                return None
            others = (one for one in sys.meta_path if one is not self and hasattr(one, "find_spec"))
            spec = next(filter(None, (one.find_spec(name, path, target) for one in others)), None)
            if hasattr(getattr(spec, "loader", None), "exec_module"):
                execute = spec.loader.exec_module

                def exec_module(module):
                    execute(module)
                    tell(module)

                spec.loader.exec_module = exec_module
            return spec

    with contextlib.suppress(SyntaxError, UnicodeDecodeError):  # Python says so, or takes it all the same
        linecache.cache[file] = len(text), None, decode_source(text).splitlines(True), file
    for name in [name for name in sys.modules if name.endswith(".spawn")]:
        tell(sys.modules[name])
    if not any(getattr(one, "of", None) == begin for one in sys.meta_path):  # a fork server has read it before
        sys.meta_path.insert(0, Teller())
    globals().update(own, __file__=file)
    return compile(text, file, "exec", dont_inherit=True)


exec(globals().pop("_begin")())
