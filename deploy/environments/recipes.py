"""The framework environments that there are: what each is built of, how big it is, where it lies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
DEFAULTS = "defaults"  # an extension of the editor's that has nothing but settings
NODE_FILES = ("package.json", "package-lock.json", f"{DEFAULTS}/package.json")
NODE_BUILDER = "node_packages.py"  # what brings them, and writes the program that starts the editor


@dataclass(frozen=True)
class Environment:
    """One environment out of one lock, ``RECIPE.lock`` beside this file.

    Arguments:
        name: the folder name, and the name of the modulefile that points to it.
        version: the folder below, and the version of that modulefile.
        download_mib: what a first run fetches.
        disk_mib: the environment when it is finished.
        first_run: whether it is built when nothing is named.
        recipe: the name of the lock; '' = ``name``.
        otherwise: the same environment out of another lock, for where this one's packages cannot be had.
        upon: the environment whose packages it uses as well, and which is built before it; '' = none.
        pythons: the versions of Python whose wheels the lock holds.
        modules: files and folders of Python beside the lock that are copied among its packages.
        is_of_npm: whether it brings Node.js, and packages of npm: those of the folder ``RECIPE`` beside the lock.
    """

    name: str
    version: str
    download_mib: int
    disk_mib: int
    first_run: bool = True
    recipe: str = ""
    otherwise: Environment | None = None
    upon: str = ""
    pythons: tuple[str, ...] = ("3.11",)
    modules: tuple[str, ...] = ()
    is_of_npm: bool = False

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"{self.recipe or self.name} {self.version}"

    @property
    def lock(self) -> Path:
        """Its lock file."""
        return HERE / f"{self.recipe or self.name}.lock"

    @property
    def made_of(self) -> tuple[Path, ...]:
        """All files beside this one that it is made of."""
        modules = [file for name in self.modules for file in files_of(HERE / name)]
        if not self.is_of_npm:
            return (self.lock, *modules)
        of_npm = [self.lock.with_suffix("") / name for name in NODE_FILES]
        return (self.lock, *modules, *of_npm, HERE / NODE_BUILDER)

    def folder(self, cm: Path) -> Path:
        """Its folder below ``cm``."""
        return cm / "shared" / "apps" / self.name / self.version


def files_of(module: Path) -> list[Path]:
    """The files of a module, which may be a folder."""
    return sorted(module.rglob("*.py")) if module.is_dir() else [module]


NEWER = ("3.11", "3.12", "3.13")  # whose wheels the lock holds too: the hashes were tried
ALL_PYTHONS = (*NEWER, "3.14")
PYTORCH_CUDA = Environment("pytorch", "2.13", 2745, 5360, first_run=False, recipe="pytorch-cuda")
ENVIRONMENTS = {
    "python3": Environment("python3", "3.11", 110, 545, pythons=ALL_PYTHONS),
    "tensorflow": Environment("tensorflow", "2.21", 340, 1800, pythons=NEWER),
    "mlflow": Environment("mlflow", "3.17", 40, 200, upon="python3", pythons=ALL_PYTHONS),
    "pytorch": Environment("pytorch", "2.13", 295, 1460, first_run=False, otherwise=PYTORCH_CUDA),
    "jax": Environment("jax", "0.10", 200, 920, first_run=False),
    "mxnet": Environment("mxnet", "1.9", 100, 400, first_run=False),
    "pytensor": Environment("pytensor", "3.0", 150, 600, first_run=False),
    "inference": Environment("inference", "1.0", 150, 530, first_run=False, upon="tensorflow"),
    "dask": Environment("dask", "2026.8", 20, 100, first_run=False, upon="python3", pythons=ALL_PYTHONS),
    "ray": Environment("ray", "2.60", 110, 400, first_run=False, upon="python3", pythons=ALL_PYTHONS),
    "code-server": Environment("code-server", "4.139", 270, 830, first_run=False, is_of_npm=True, pythons=ALL_PYTHONS),
    "image-trainer": Environment(
        "image-trainer", "1.0", 55, 230, first_run=False, upon="tensorflow", modules=("image_trainer",)
    ),
}
# With NVIDIA's libraries, for nodes with GPUs: environments and modules of their own, beside those for CPUs.
FOR_GPUS = {
    "tensorflow-gpu": Environment("tensorflow-gpu", "2.21", 3400, 6600, first_run=False),
    "pytorch-gpu": Environment("pytorch-gpu", "2.13", 2745, 5360, first_run=False, recipe="pytorch-cuda"),
    "pytorch-gpu-cuda126": Environment("pytorch-gpu", "2.7", 3030, 6800, first_run=False, recipe="pytorch-cuda126"),
    "jax-gpu": Environment("jax-gpu", "0.10", 2600, 5400, first_run=False),
    "inference-gpu": Environment("inference-gpu", "1.0", 1650, 2900, first_run=False, upon="tensorflow-gpu"),
}
EVERY = ENVIRONMENTS | FOR_GPUS
BY_NAME = EVERY | {"pytorch-cuda": PYTORCH_CUDA}
