"""The module tree and the environments behind it, with the cluster's own Environment Modules."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.forms import LONG
from tests.inside import sh
from tests.notebooks.jobs import PERSON

LOCAL, SHARED = "/cm/local/modulefiles", "/cm/shared/modulefiles"
WEB_TOOLS = ("code-server", "image-trainer")  # environments that are no kernels
ORDERS = {"local first": f"{LOCAL}:{SHARED}", "shared first": f"{SHARED}:{LOCAL}", "local alone": LOCAL}


def modules(script: str, path: str = ORDERS["local first"]) -> str:
    """What a login shell of a person prints for ``script``; a module error ends it."""
    start = f"set -e; . /usr/share/modules/init/bash; export MODULEPATH={path}; {script}"
    return sh("env", "-i", "PATH=/usr/bin:/bin", "bash", "-c", start, user=PERSON, check=False)


@pytest.mark.parametrize("order", ORDERS)
def test_shared_makes_the_frameworks_loadable_in_whatever_order_the_trees_are_named(order: str) -> None:
    printed = modules(
        "module load shared; module load shared/tensorflow; command -v python3 tensorboard", ORDERS[order]
    )
    assert "/cm/shared/apps/tensorflow/2.21/bin/python3" in printed
    assert "/cm/shared/apps/tensorflow/2.21/bin/tensorboard" in printed


@pytest.mark.parametrize("order", ORDERS)
def test_shared_alone_loads_no_framework(order: str) -> None:
    printed = modules("module load shared; module -t list; command -v python3", ORDERS[order])
    assert "tensorflow" not in printed
    assert "/usr/bin/python3" in printed


def test_keras_brings_tensorflow_and_the_data_sets() -> None:
    printed = modules("module load shared/keras; module -t list; echo $KERAS_BACKEND $DATASET_PATH")
    assert "shared/tensorflow/2.21" in printed
    assert "tensorflow /cm/shared/datasets:/usr/share/datasets" in printed


def test_r_brings_no_program_along_that_only_r_calls_by_its_name() -> None:
    printed = modules("module load shared/R; command -v R Rscript; echo $R_HOME; echo shown | pager")
    assert "/usr/bin/R\n/usr/bin/Rscript\n/usr/lib/R\nshown\n" in printed


def test_unloading_takes_everything_back() -> None:
    printed = modules(
        "before=$PATH; module load shared/keras; module unload shared/keras; test $PATH = $before && echo same"
    )
    assert "same" in printed


def test_two_versions_of_a_framework_do_not_mix(tmp_path: Path) -> None:
    tree = Path("/tmp/dsportal-test-modulefiles")
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(SHARED, tree)
    shutil.copyfile(tree / "shared/tensorflow/2.21", tree / "shared/tensorflow/2.20")
    printed = modules("module load shared/tensorflow/2.21; module load shared/tensorflow/2.20", str(tree))
    shutil.rmtree(tree)
    assert "conflict" in printed.lower()


def test_the_cuda_toolkit_names_its_folders_whether_or_not_they_exist() -> None:
    printed = modules("module load shared cuda91/toolkit; echo $CUDA_HOME $LD_LIBRARY_PATH")
    assert "/cm/shared/apps/cuda91/toolkit/9.1 /cm/shared/apps/cuda91/toolkit/9.1/lib64" in printed


@pytest.mark.parametrize(
    ("module", "imports"),
    [
        ("shared/tensorflow", "tensorflow, keras"),
        ("shared/pytorch", "torch, torch.utils.tensorboard, h5py, keras, transformers, peft"),
        ("shared/jax", "jax, keras, tensorboard.summary"),
        ("shared/mxnet", "mxnet, tensorboard.summary"),
        ("shared/pytensor", "pytensor, pytensor.tensor"),
        ("shared/inference", "openvino, nncf, onnxruntime, tf2onnx, keras"),
        ("shared/dask", "dask.array, distributed, dask_jobqueue, bokeh, cryptography, pandas"),
        ("shared/ray", "ray, ray.dashboard, aiohttp, cryptography, pandas"),
        ("shared/python", "numpy, pandas, matplotlib, polars"),
        ("shared/mlflow", "mlflow, numpy, pandas, matplotlib"),
        ("shared/image-trainer", "image_trainer, gradio, keras, pandas, PIL, uvicorn"),
    ],
)
def test_an_environment_has_what_its_module_says(module: str, imports: str) -> None:
    names = f"{imports}, ipykernel"
    tops = [name.partition(".")[0] for name in names.split(", ")]  # the lessons import them; the long form imports all
    code = (
        f"import {names}"
        if LONG
        else f"from importlib.util import find_spec; [find_spec(top).origin for top in {tops}]"
    )
    printed = modules(f'module load {module}; python3 -c "{code}; import sys; print(sys.prefix)"')
    assert "/cm/shared/apps/" in printed


@pytest.mark.parametrize("before", ["pytorch", "jax"] if LONG else ["pytorch"])
def test_keras_runs_on_the_framework_that_was_loaded_last(before: str) -> None:
    code = 'import keras; print(f"Keras runs on {keras.backend.backend()}")'
    printed = modules(f"module load shared/{before}; module load shared/tensorflow; python3 -c '{code}'")
    assert "Keras runs on tensorflow" in printed


@pytest.mark.parametrize(
    "name", ["pytorch", "jax", "mxnet", "pytensor", "inference", "dask", "ray", "mlflow", *WEB_TOOLS]
)
def test_a_module_whose_environment_is_not_built_says_how_to_get_it(name: str) -> None:
    tree = Path("/tmp/dsportal-test-modulefiles")
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(SHARED, tree)
    (file,) = (file for file in (tree / "shared" / name).iterdir() if file.name != ".version")
    file.write_text(file.read_text().replace("/cm/shared/apps", "/cm/shared/nothing"))
    printed = modules(f"module load shared/{name}; module -t list; echo loaded", str(tree))
    shutil.rmtree(tree)
    assert f"/cm/shared/nothing/{name}" in printed
    assert f"make environments{'' if name == 'mlflow' else ' ALL=1'}\n" in printed
    assert f"shared/{name}/{file.name}" not in printed.partition("Currently Loaded")[2]


@pytest.mark.parametrize(
    ("module", "left_out"),
    [
        ("inference", {"openvino-telemetry"}),
        ("mlflow", {"pyarrow", "scikit-learn", "scipy", "skops"}),
        ("ray", set()),
    ],
)
def test_an_environment_upon_another_has_all_that_its_packages_ask_for(module: str, left_out: set[str]) -> None:
    """But for what is left out on purpose, as inference.in and mlflow.in say."""
    code = (
        "from importlib.metadata import PackageNotFoundError, distributions, version\n"
        "from packaging.requirements import Requirement\n"
        "for package in distributions():\n"
        "    for wanted in map(Requirement, package.requires or []):\n"
        "        if wanted.marker and not wanted.marker.evaluate({'extra': ''}):\n"
        "            continue\n"
        "        try:\n"
        "            fits = version(wanted.name) in wanted.specifier\n"
        "        except PackageNotFoundError:\n"
        "            fits = False\n"
        "        print('missing', wanted.name) if not fits else None\n"
    )
    printed = modules(f'module load shared/{module}; python3 -c "{code}"')
    assert set(re.findall(r"^missing (.+)$", printed, re.MULTILINE)) == left_out, printed


def test_files_of_mlflows_runs_lie_in_the_home_wherever_an_experiment_was_made() -> None:
    """Else they would lie, for good, in the folder of a group where somebody tried it first."""
    code = (
        "import mlflow\n"
        "for name in ('Default', 'digits'):\n"
        "    print('made', mlflow.set_experiment(name).artifact_location)\n"
        "print('from uv.lock:', mlflow.environment_variables.MLFLOW_UV_AUTO_DETECT.get())\n"
    )
    printed = modules(
        "export HOME=$(mktemp -d); cd $(mktemp -d); module load shared/mlflow; "
        f'echo "home $HOME"; python3 -c "{code}"; ls'
    )
    home = re.findall(r"^home (.+)$", printed, re.MULTILINE)
    assert re.findall(r"^made (.+)/\d+$", printed, re.MULTILINE) == [f"{home[0]}/mlruns"] * 2, printed
    assert "\nfrom uv.lock: False\n" in printed
    assert "mlruns\n" not in printed.replace(f"{home[0]}/mlruns", "")


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_file_of_the_present_folder_has_open_mpi_write_nothing(is_loaded: bool) -> None:
    """``ucx.conf``, which its UCX reads there: with the module's variables it names no log, nor a program."""
    loads = "module load shared/horovod" if is_loaded else "export LD_LIBRARY_PATH=$MPI"
    printed = modules(
        'cd $(mktemp -d); echo "UCX_LOG_FILE=$PWD/written" > ucx.conf; '
        f"MPI=/cm/shared/apps/horovod/0.28.1/openmpi/usr/lib/x86_64-linux-gnu; {loads}; "
        "/usr/bin/python3 -c \"import ctypes; ctypes.CDLL('libucs.so.0')\"; ls"
    )
    assert "ucx.conf" in printed.split()
    assert ("written" in printed.split()) is not is_loaded


def test_every_script_of_an_environment_starts_with_its_own_python() -> None:
    for environment in Path("/cm/shared/apps").glob("*/[0-9]*"):
        for script in (environment / "bin").iterdir():
            first = b"" if script.is_symlink() else script.read_bytes().partition(b"\n")[0]
            if b"python" in first:
                assert first.startswith(f"#!{environment}/bin/python".encode()), script


def test_everybody_can_read_an_environment() -> None:
    """All but the locks of its builds, which nobody else is to hold."""
    found = sh("find", "/cm", "!", "-readable", user=PERSON).split()
    assert {Path(name).name for name in found} <= {".build.lock"}, found
