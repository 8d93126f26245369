"""Whether a framework sees the GPUs that Slurm gave, in one sentence where it does not.

A lesson says ``lesson_gpus.compare("PyTorch", torch.cuda.device_count())``. ``portal kernels test`` runs this file in
the Python of every kernel: ``built`` as its argument tells what each framework is built for, a framework's name its
version and how many GPUs it sees, in JSON on the last line.

Any Python of a kernel runs it, so it is written in what Python 3.6 knows, with the standard library alone. The original
is in portal/lessons; the copies beside lessons are the same file.
"""

import importlib
import importlib.util
import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any

FRAMEWORKS = {  # as people call it: the module
    "TensorFlow": "tensorflow",
    "PyTorch": "torch",
    "JAX": "jax",
    "ONNX Runtime": "onnxruntime",
    "MXNet": "mxnet",
    "PyTensor": "pytensor",
    "Theano": "theano",
}
CPUS = "CPUs"
MOST_GPUS = 64  # of one node
# Where Linux shows that it has the driver of a GPU.
DRIVERS = ("/proc/driver/nvidia", "/sys/module/nvidia", "/sys/module/amdgpu", "/sys/module/xe", "/dev/dxg")
# A network that copies one number, in ONNX's format: whoever computes it has a device that works.
_COPY = bytes.fromhex(
    "080712003a370a100a017812017922084964656e746974791201675a0f0a0178120a0a08080112040a020801"
    "620f0a0179120a0a08080112040a02080142040a00100d"
)


def compare(framework: str, seen: int, variables: Any = os.environ) -> None:
    """Print what is wrong where a framework sees other GPUs than Slurm gave this job; nothing where all is well."""
    words = sentence(framework, seen, given(variables), variables, built_for(framework))
    if words:
        print(words)


def given(variables: Any = os.environ) -> Any:
    """How many GPUs of this node Slurm gave to this job; None outside of a job."""
    if "SLURM_JOB_ID" not in variables:
        return None
    count = variables.get("SLURM_GPUS_ON_NODE", "")
    if count.isdigit():
        return int(count)
    ids = variables.get("SLURM_STEP_GPUS") or variables.get("SLURM_JOB_GPUS") or ""
    listed = [one for one in ids.split(",") if one]
    return len(listed) or len(visible(variables) or ())  # of a GPU that jobs share (shard) the last one tells


def visible(variables: Any = os.environ) -> Any:
    """The GPUs that CUDA may show to a program, as ``CUDA_VISIBLE_DEVICES`` lists them; None where it is not set."""
    if "CUDA_VISIBLE_DEVICES" not in variables:
        return None
    listed = [one.strip() for one in variables["CUDA_VISIBLE_DEVICES"].split(",")]
    ends = [number for number, one in enumerate(listed) if one in ("", "-1", "NoDevFiles")]
    return listed[: ends[0]] if ends else listed  # CUDA stops at the first that it does not know


def sentence(framework: str, seen: int, given: Any, variables: Any = os.environ, built: str = "") -> str:
    """What is wrong, and what to do; '' where a framework sees what Slurm gave, or where there is no job.

    Arguments:
        seen: how many GPUs the framework sees.
        given: how many Slurm gave, see :func:`given`.
        built: what it is built for, see :func:`built_for`.
    """
    if given is None or given == seen:
        return ""
    start = f"Slurm gave this job {_gpus(given)}, but {framework} sees {seen}: "
    if seen > given:
        return start + (
            "nothing keeps the jobs of this node from each other's GPUs. "
            "Tell your administrator (ConstrainDevices in Slurm's cgroup.conf)."
        )
    listed = visible(variables)
    if listed is not None and len(listed) < given:
        value = variables["CUDA_VISIBLE_DEVICES"]
        return start + (
            f"CUDA_VISIBLE_DEVICES is {value!r}, which hides the others. "
            "Take it out of what sets it: a start-up file, a module, or an earlier cell."
        )
    return start + _why_fewer(seen, built)


def _why_fewer(seen: int, built: str) -> str:
    if seen:
        return (
            "one of them does not answer, or they are parts of GPUs (MIG), of which a program uses one. "
            "nvidia-smi -L shows them; your administrator knows more."
        )
    if not any(map(os.path.exists, DRIVERS)):
        return (
            "this node has no driver of a GPU. In the portal's demo GPUs are emulated, and all runs on the CPU; "
            "elsewhere tell your administrator."
        )
    if built == CPUS:
        why = "this kernel's environment is built for CPUs. "
    elif built:
        why = f"this kernel's environment is built for {built}, but cannot use this node's driver or GPUs. "
    else:
        why = "this kernel's environment is built for CPUs, or cannot use this node's driver. "
    return why + "Choose a kernel for GPUs, or ask your administrator."


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"


def installed() -> Any:
    """The frameworks that this Python has, as people call them."""
    return [name for name, module in FRAMEWORKS.items() if _folder(module)]


def _folder(module: str) -> Any:
    """Where a package lies; None where it is not there. It is not imported."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin).parent if spec and spec.origin else None


def built_for(framework: str) -> str:
    """What a framework is built for, by its files and without importing it: "CPUs", "CUDA 13.0", …; '' is not known."""
    folder = _folder(FRAMEWORKS.get(framework, ""))
    try:
        return _BUILT[framework](folder) if folder else ""
    except Exception:  # a file that another version does not have, or writes otherwise
        return ""


def _built_tensorflow(folder: Any) -> str:
    found = runpy.run_path(str(folder / "python" / "platform" / "build_info.py"))["build_info"]
    if found["is_cuda_build"]:
        return f"CUDA {found.get('cuda_version', '')}".strip()
    return "ROCm" if found.get("is_rocm_build") else CPUS


def _built_pytorch(folder: Any) -> str:
    found = runpy.run_path(str(folder / "version.py"))
    if found.get("cuda"):
        return f"CUDA {found['cuda']}"
    return f"ROCm {found['hip']}" if found.get("hip") else CPUS


def _built_jax(_: Any) -> str:
    for major in ("13", "12"):
        if _folder(f"jax_cuda{major}_plugin"):
            return f"CUDA {major}"
    return "" if any(_folder(name) for name in ("jax_plugins", "libtpu")) else CPUS


def _built_onnxruntime(folder: Any) -> str:
    if list((folder / "capi").glob("libonnxruntime_providers_cuda.so")):
        return "CUDA"
    return CPUS if list((folder / "capi").glob("*.so*")) else ""


_BUILT = {
    "TensorFlow": _built_tensorflow,
    "PyTorch": _built_pytorch,
    "JAX": _built_jax,
    "ONNX Runtime": _built_onnxruntime,
}  # type: Any


def count(framework: str) -> Any:
    """How many GPUs a framework sees: it is imported and asked; None for one that does not count them."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX would take all of their memory
    module = importlib.import_module(FRAMEWORKS[framework])  # type: Any
    if framework == "TensorFlow":
        return len(module.config.list_physical_devices("GPU"))
    if framework == "PyTorch":
        return int(module.cuda.device_count())
    if framework == "JAX":
        return sum(device.platform != "cpu" for device in module.local_devices())
    if framework == "MXNet":
        return int(module.context.num_gpus())
    return _count_onnxruntime(module) if framework == "ONNX Runtime" else None


def version(framework: str) -> str:
    """The version of a framework that is imported."""
    return str(getattr(sys.modules[FRAMEWORKS[framework]], "__version__", ""))


def _count_onnxruntime(module: Any) -> int:
    """The GPUs on which it computes: it lists none, and takes the CPU without a word where one does not work."""
    provider = "CUDAExecutionProvider"
    if provider not in module.get_available_providers():
        return 0
    if hasattr(module, "preload_dlls"):
        module.preload_dlls()  # NVIDIA's libraries out of PyPI
    for number in range(MOST_GPUS):
        try:
            session = module.InferenceSession(_COPY, providers=[(provider, {"device_id": number})])
        except Exception:
            return number
        if provider not in session.get_providers():
            return number
    return MOST_GPUS


def main(words: Any) -> int:
    """``built``: what each framework that is here is built for; a framework: how many GPUs it sees, and its version."""
    if words == ["built"]:
        answer = {name: built_for(name) for name in installed()}  # type: Any
    else:
        answer = {"seen": count(words[0]), "version": version(words[0])}
    print()  # whatever stands in the line
    print(json.dumps(answer), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
