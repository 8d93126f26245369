"""`bench kernels`: from a kernel's start to its first result, out of modules as a session starts it.

Beside it the same interpreter without modules, and a kernel whose start line is ``bash -lc 'module load …'``, as sites
write it. All three in turns, each the first in its round as often as the others.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from portal.catalogue.specs import sync
from portal.gpus.comparison import kernelspecs
from portal.gpus.start import started
from portal.site import parse
from tests.bench.cluster_setup import say
from tests.bench.spawn import median

KINDS = ("plain", "module", "bash")
MODULES = {  # a framework's module in the shape of a Bright cluster's: four are loaded
    "shared": ("setenv SHARED yes",),
    "cuda/13.0": ("setenv CUDA_HOME /opt/cuda", "prepend-path LD_LIBRARY_PATH /opt/cuda/lib64"),
    "cudnn/9.1": ("module load cuda/13.0", "prepend-path LD_LIBRARY_PATH /opt/cudnn/lib64"),
    "framework/2.21": ("module load cudnn/9.1", "setenv FRAMEWORK 2.21", "prepend-path PATH {bin}"),
}
LOADED = ("shared", "framework/2.21")


def run(options: Namespace) -> dict[str, object]:
    """Rounds of all three; the first is not counted."""
    taken: dict[str, list[float]] = {kind: [] for kind in KINDS}
    kinds = [kind for kind in KINDS if kind != "bash" or not options.only]
    with kernels() as folder:
        specs = kernelspecs(str(folder))
        environ = {"HOME": str(folder), "PATH": os.defpath, "LANG": "C.UTF-8", "USER": "bench"}
        for number in range(options.runs + 1):
            turn = number % len(kinds)
            for kind in kinds[turn:] + kinds[:turn]:
                seconds = started(kind, specs, environ).seconds
                taken[kind] += [seconds] if number else []
            say(f"round {number} of {options.runs}")
    return figures(taken)


def figures(taken: dict[str, list[float]]) -> dict[str, object]:
    """Medians, extremes, and the ratio to the start without modules."""
    plain = median(taken["plain"])

    def of(kind: str) -> dict[str, float | None]:
        seconds = taken[kind]
        middle = median(seconds)
        ratio = round(middle / plain, 3) if plain and middle else None
        return {"start_s": middle, "fastest_s": min(seconds), "slowest_s": max(seconds), "ratio": ratio}

    return {"ours": {**of("module"), "plain_s": plain}, "stock": of("bash") if taken["bash"] else {}}


@contextmanager
def kernels() -> Iterator[Path]:
    """A folder with the three kernelspecs, all of this very Python, and the modules of two of them."""
    with tempfile.TemporaryDirectory(prefix="dsp-bench-") as name:
        folder = Path(name)
        tree = folder / "modulefiles"
        for file, lines in MODULES.items():
            (tree / file).parent.mkdir(parents=True, exist_ok=True)
            text = "\n".join(["#%Module1.0", *lines]).format(bin=Path(sys.executable).parent)
            (tree / file).write_text(text + "\n")
        module = {"name": "module", "title": "Module", "modules": LOADED}
        plain = {"name": "plain", "title": "Plain", "python": sys.executable}
        places = {"folder": name, "module_path": (str(tree),)}
        results = sync(parse({"kernels": places, "kernel": (module, plain)}))
        if faults := [str(result) for result in results if result.state != "written"]:
            raise RuntimeError(f"a kernel of the bench was not written: {faults[0]}")
        write_bash(folder, tree)
        with mock.patch.dict(os.environ, HOME=name):  # the cache of module environments is a person's
            yield folder


def write_bash(folder: Path, tree: Path) -> None:
    """The kernelspec that loads the modules in a login shell."""
    load = f"module use {tree} && module load {' '.join(LOADED)}"
    line = f"{load} && exec python3 -m ipykernel_launcher -f {{connection_file}}"
    spec = {"argv": ["/bin/bash", "-lc", line], "display_name": "bash -lc", "language": "python"}
    (folder / "kernels/bash").mkdir()
    (folder / "kernels/bash/kernel.json").write_text(json.dumps(spec))
