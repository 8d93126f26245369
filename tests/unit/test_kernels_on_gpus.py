"""`portal kernels test` and the doctor: the GPUs that Slurm has and gives beside what kernels can compute on."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.kernelspec import KernelSpecManager

from portal import site as sites
from portal.doctor import kernel_checks
from portal.errors import KernelError, RequestError
from portal.gpus import as_person, comparison, job
from portal.gpus.frameworks import for_cpus_alone, kernel_python
from portal.lessons import lesson_gpus
from portal.site import Site
from portal.slurm.nodes import Node
from portal.trials.trial import from_json
from tests.unit.test_lesson_gpus import frameworks

JOB = {"SLURM_JOB_ID": "7", "SLURM_GPUS_ON_NODE": "2"}


def spec(*before: str, language: str = "python", **env: str) -> dict[str, Any]:
    """A kernelspec of this Python."""
    argv = [*before, sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    return {"argv": argv, "language": language, "env": env}


def found(one: Mapping[str, Any], environ: Mapping[str, str]) -> list[str]:
    note, frameworks = comparison.asked(one, environ)
    return [note] if note else [framework.words for framework in frameworks]


def written(folder: Path, **specs: dict[str, Any]) -> KernelSpecManager:
    """These kernelspecs alone."""
    for name, one in specs.items():
        (folder / "kernels" / name).mkdir(parents=True)
        (folder / "kernels" / name / "kernel.json").write_text(json.dumps(one | {"display_name": name}))
    manager = comparison.kernelspecs(str(folder))
    manager.kernel_dirs = [str(folder / "kernels")]
    return manager


def test_each_framework_of_a_kernel_is_set_beside_what_slurm_gave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lesson_gpus, "DRIVERS", ["/proc"])
    path = frameworks(tmp_path)["PYTHONPATH"]
    (tmp_path / "tensorflow/__init__.py").write_text(
        "class config:\n    list_physical_devices = staticmethod(lambda kind: [])"
    )
    (tmp_path / "pytensor.py").write_text("__version__ = '3.1'")
    assert found(spec(PYTHONPATH=path), JOB) == [
        "Slurm gave this job 2 GPUs, but TensorFlow sees 0: this kernel's environment is built for CPUs. "
        "Choose a kernel for GPUs, or ask your administrator.",
        "PyTorch sees 2 GPUs (built for CUDA 13.0), as many as Slurm gave",
        "JAX does not work: OSError: libcudart.so.13 is not there",
        "PyTensor 3.1 is imported; it counts no GPUs",
    ]
    assert found(spec(PYTHONPATH=path), {})[0] == "TensorFlow sees 0 GPUs (built for CPUs)"


def test_a_kernel_is_asked_as_a_session_starts_it_and_sees_nothing_of_the_shell(tmp_path: Path) -> None:
    shell = {**JOB, "PYTHONPATH": "/mine", "HOME": "/home/x", "CUDA_VISIBLE_DEVICES": "1", "JUPYTERHUB_API_TOKEN": "s"}
    python = kernel_python(spec("/usr/bin/env", "A=b", EXTRA="$$x"), shell)
    assert python
    assert python.command == ("/usr/bin/env", "A=b", sys.executable)
    assert python.environ.keys() & shell.keys() == {*JOB, "HOME", "CUDA_VISIBLE_DEVICES"}
    assert (python.environ["EXTRA"], python.environ["PATH"]) == ("$x", "/usr/local/bin:/usr/bin:/bin")


def test_what_is_no_python_of_ipykernel_is_not_asked() -> None:
    assert found(spec(language="R"), {}) == [comparison.NO_PYTHON]
    assert found({"argv": ["bash", "-c", "x"], "language": "python"}, {}) == [comparison.NO_PYTHON]


def test_a_kernel_starts_calculates_and_is_ended_and_what_it_is_stands_in_the_trial(tmp_path: Path) -> None:
    path = frameworks(tmp_path / "packages")["PYTHONPATH"]
    manager = written(tmp_path, one=spec(PYTHONPATH=path))
    job = {**JOB, "SLURM_JOB_PARTITION": "gpu", "SLURMD_NODENAME": "n1", "HOME": str(tmp_path)}
    trial = comparison.trial("one", manager, job)
    assert (trial.fault, trial.partition, trial.node, trial.gpus) == ("", "gpu", "n1", 2)
    assert trial.language == f"Python {platform.python_version()}"
    assert trial.start_s
    assert [(one.name, one.version, one.gpus) for one in trial.frameworks][1] == ("PyTorch", "2.13.0", 2)
    assert trial.is_fault, "JAX does not work there"


def test_a_kernel_that_does_not_start_says_why(tmp_path: Path) -> None:
    dying = [sys.executable, "-c", "raise SystemExit('no space left on device')"]
    gone = {"argv": [str(tmp_path / "none"), "-m", "ipykernel_launcher"], "language": "python"}
    manager = written(tmp_path, dying={"argv": dying, "language": "python"}, gone=gone)
    assert comparison.trial("dying", manager, {}).fault == "it ended at its start: no space left on device"
    assert "No such file or directory" in comparison.trial("gone", manager, {}).fault


def test_the_command_names_an_unknown_kernel_and_fails_for_one_that_sees_too_few(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_PATH", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for name in [one for one in os.environ if one.startswith("SLURM_")]:
        monkeypatch.delenv(name)
    for name, value in JOB.items():
        monkeypatch.setenv(name, value)
    written(tmp_path, one=spec(PYTHONPATH=frameworks(tmp_path / "packages")["PYTHONPATH"]))
    assert comparison.main(str(tmp_path), ["one"]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("one: it starts in ")
    assert "one: PyTorch sees 2 GPUs (built for CUDA 13.0), as many as Slurm gave" in said
    assert comparison.main(str(tmp_path), ["one"], as_json=True) == 1
    (answer,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (answer["kernel"], from_json(answer["trial"]).is_fault) == ("one", True)
    with pytest.raises(KernelError, match=r"There is no kernel two; there are .*one"):
        comparison.main(str(tmp_path), ["two"])


def test_root_starts_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(KernelError, match=r"root starts no kernels: .* --partition NAME --user PERSON"):
        comparison.main("", [])
    with pytest.raises(KernelError, match=r"root starts no kernels and no tools; name somebody"):
        as_person.rights_of("root")
    with pytest.raises(KernelError, match=r"There is no person nobody-there; name somebody"):
        as_person.rights_of("nobody-there")


# -- in a job -------------------------------------------------------------------------------------------


def site(**tables: Any) -> Site:
    return sites.parse(tables)


def test_the_job_is_as_a_session_of_that_partition_and_people_choose_arguments_alone() -> None:
    one = site(
        gpu=[{"name": "a100", "title": "A100", "gres": "gpu:a100"}],
        partition=[{"name": "gpu", "gpu": "a100", "account": "ds", "options": ["--nice=5"]}],
        kernels={"folder": "/k"},
    )
    argv = job.command(one, "gpu", 2, ["tensorflow", "$(id)"], Path("/home/50%/out"))
    assert argv[:3] == ["sbatch", "--wait", "--parsable"]
    assert {"--partition=gpu", "--gres=gpu:a100:2", "--account=ds", "--nice=5", "--output=/home/50%%/out"} <= set(argv)
    assert [word for word in argv if word.startswith("--time=")][-1] == "--time=15"
    program = argv.index(str(Path(sys.prefix, "bin", "portal")))
    assert argv[program + 1 :] == ["kernels", "test", "--folder", "/k", "--", "tensorflow", "$(id)"]
    assert not [word for word in argv if word.startswith("--job-name=dsportal")]  # no session of a hub


def test_a_partition_or_a_number_that_the_site_does_not_offer_is_refused_with_what_is_allowed() -> None:
    one = site(partition=[{"name": "gpu", "gpus_max": 2}])
    with pytest.raises(RequestError, match=r"partition: 'cpu' is not possible here. Allowed: one of gpu"):
        job.command(one, "cpu", 1, [], Path("/o"))
    with pytest.raises(RequestError, match=r"gpus: 3 is not possible here. Allowed: a whole number from 0 to 2"):
        job.command(one, "gpu", 3, [], Path("/o"))


@pytest.fixture
def sbatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program sbatch that ends as its file says, in a PATH with env and sh."""
    program = tmp_path / "bin" / "sbatch"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    return program


@pytest.mark.parametrize(("ends", "expected"), [(0, 0), (1, 1)])
def test_what_the_job_said_is_printed_and_its_file_goes(
    sbatch: Path, capfd: pytest.CaptureFixture[str], ends: int, expected: int
) -> None:
    sbatch.write_text(
        "#!/bin/sh\necho '12;cluster'\n"
        'for word; do case "$word" in --output=*) echo "k: it sees 1" > "${word#--output=}";; esac; done\n'
        f"exit {ends}\n"
    )
    sbatch.chmod(0o755)
    assert job.main(site(partition=[{"name": "gpu"}]), "gpu", 1, []) == expected
    assert capfd.readouterr().out == "job 12 is submitted; Ctrl-C takes it back\nk: it sees 1\n"
    assert [path.name for path in sbatch.parents[1].iterdir()] == ["bin"]


def test_a_job_that_could_not_write_its_words_or_is_not_taken_is_a_fault_with_a_way_out(
    sbatch: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    sbatch.write_text("#!/bin/sh\necho 12\n")
    sbatch.chmod(0o755)
    assert job.main(site(partition=[{"name": "gpu"}]), "gpu", 1, []) == 1
    assert "said nothing and ended with status 0: run this as somebody who may use" in capfd.readouterr().out
    sbatch.write_text("#!/bin/sh\necho 'sbatch: error: Invalid account' >&2\nexit 1\n")
    with pytest.raises(KernelError, match=r"^sbatch took no job: its own words stand above\.$"):
        job.main(site(partition=[{"name": "gpu"}]), "gpu", 1, [])
    assert capfd.readouterr().err == "sbatch: error: Invalid account\n"
    sbatch.unlink()
    with pytest.raises(KernelError, match=r"sbatch cannot be started: .*Put Slurm's commands into PATH"):
        job.main(site(partition=[{"name": "gpu"}]), "gpu", 1, [])


# -- the doctor -----------------------------------------------------------------------------------------


def node(name: str, *states: str, **gpus: int) -> Node:
    kinds = {kind.replace("any", ""): count for kind, count in gpus.items()}
    return Node(name, frozenset(states or ("IDLE",)), ("gpu",), 8, 0, 1000, 0, kinds, {})


KINDS = [{"name": "a100", "title": "A100", "gres": "gpu:a100"}, {"name": "v", "title": "V", "gres": "gpu:v100"}]
SHARD = [{"name": "part", "title": "Part", "gres": "shard"}]


@pytest.mark.parametrize(
    ("partition", "nodes", "expected"),
    [
        ({}, [node("a", any=4)], ""),
        ({}, [node("a", v100=2, a100=2)], ""),  # --gres=gpu:4 takes any
        ({}, [node("a"), node("b", any=2)], "up to 4 of gpu for a session, but no node of it has more than 2: such a"),
        ({}, [node("a")], "up to 4 of gpu for a session, but its nodes have none"),
        ({"gpus_max": 0}, [node("a")], ""),
        ({"gpus_max": 2}, [node("a", any=2)], ""),
        ({"gpus_max": 2, "rule": [{"people": ["ann"], "gpus_max": 4}]}, [node("a", any=2)], "offer up to 4 of gpu"),
        ({"gpu": "a100"}, [node("a", v100=4)], "up to 4 of gpu:a100 for a session, but its nodes have gpu:v100"),
        ({"gpu": ["v", "a100"]}, [node("a", v100=4), node("b", a100=4)], ""),
        ({}, [node("a"), node("b", "UNKNOWN")], ""),  # what cannot be read may have them
        ({}, [], ""),
    ],
)
def test_a_partition_that_offers_gpus_which_its_nodes_have_not_is_a_warning(
    partition: dict[str, Any], nodes: list[Node], expected: str
) -> None:
    one = site(gpu=KINDS, partition=[{"name": "gpu", **partition}])
    check = kernel_checks.offered(one, one.partitions[0], nodes)
    assert bool(check) == bool(expected), check
    if check:
        assert (check.what, check.result) == ("partition gpu, GPUs", "warning")
        assert expected in check.found
        assert "gpus_max = " in check.repair


def test_gpus_that_jobs_share_are_not_counted_as_whole_ones() -> None:
    one = site(gpu=SHARD, partition=[{"name": "gpu", "gpu": "part"}])
    assert kernel_checks.offered(one, one.partitions[0], [node("a", any=1)]) is None


@pytest.mark.parametrize(
    ("built", "expected"),
    [
        ({"TensorFlow": "CPUs"}, ["TensorFlow"]),
        ({"TensorFlow": "CPUs", "JAX": "CPUs"}, ["TensorFlow", "JAX"]),
        ({"TensorFlow": "CPUs", "ONNX Runtime": "CUDA"}, []),  # some of it computes on GPUs
        ({"MXNet": ""}, []),
        ({}, []),
    ],
)
def test_an_environment_is_for_cpus_when_nothing_of_it_is_for_gpus(built: dict[str, str], expected: list[str]) -> None:
    assert list(for_cpus_alone(built)) == expected


def test_the_doctor_names_the_kernels_that_see_no_gpu_of_the_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "cpu"
    path = frameworks(packages)["PYTHONPATH"]
    one = site(
        partition=[{"name": "gpu"}],
        kernels={"environment": {"PYTHONPATH": path}},
        kernel=[{"name": "k", "title": "K", "argv": spec()["argv"]}],
    )
    assert kernel_checks.kernels(one, ["gpu"]).result == "ok"  # PyTorch there is for GPUs
    (packages / "torch/version.py").write_text("cuda = hip = None\n")
    (packages / "jax_cuda13_plugin/__init__.py").unlink()
    (packages / "jax_cuda13_plugin").rename(packages / "other")
    check = kernel_checks.kernels(one, ["gpu"])
    assert check.result == "warning"
    assert check.found.endswith("built for CPUs and see none: k (TensorFlow, PyTorch, JAX)")
    assert "`portal kernels test --partition gpu`" in check.repair
