"""What somebody wants to be run as a job, and the command line, environment and words that become of it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from portal.errors import KernelError, RequestError, SlurmUnavailable
from portal.homes import cache_folders
from portal.jobs import environment
from portal.jobs.inside import job_id
from portal.jobs.order import JobOrder, order_of
from portal.jobs.reasons import refused, waiting
from portal.jobs.submit import filled_in, parse_submit, submit_command
from portal.kernels.run_kernel import Launch
from tests.unit.module_command import Modules

HERE = Path("/home/alice/my work")
SCRIPT = Path("/opt/dsportal/job.sh")
PYTHON = "/opt/dsportal/bin/python"


def order(file: str, **given: Any) -> JobOrder:
    return order_of(HERE / file, HERE, given)


def command(file: str, **given: Any) -> list[str]:
    return list(submit_command(order(file, **given), PYTHON, SCRIPT))


def test_a_script_is_given_to_sbatch_as_it_is() -> None:
    argv = ["env", f"--chdir={HERE}", "sbatch", "--parsable", "--export=ALL", f"{HERE}/sample.job"]
    assert command("sample.job") == argv


def test_what_was_chosen_is_argv_and_nothing_else() -> None:
    chosen = {"nodes": 2, "tasks": 8, "cores": 4, "hours": 0.51, "array": "0-9%2", "partition": "sxm2"}
    argv = command("$(x).sh", **chosen, account="ml", memory_gb=3, gpus=4, name="a b", arguments=["-x", "; rm"])

    assert argv[5:] == [
        *("--job-name=a b", "--nodes=2", "--ntasks=8", "--cpus-per-task=4", "--time=31", "--array=0-9%2"),
        *("--partition=sxm2", "--account=ml", "--mem=3G", "--gres=gpu:4", f"{HERE}/$(x).sh", "-x", "; rm"),
    ]


def test_a_notebook_and_a_program_are_arguments_of_a_constant_script() -> None:
    assert command("100 %j\\.ipynb", arguments=["epochs=3"])[5:] == [
        *("--output=100__j_-%j.log", "--job-name=100 %j\\.ipynb", str(SCRIPT), "notebook", "-", "-", "-", PYTHON),
        *(f"{HERE}/100 %j\\.ipynb", "100__j_-%j.ipynb", "epochs=3"),
    ]
    assert command("train.py", array="1-3", arguments=["-v"])[5:] == [
        *("--output=train-%A_%a.log", "--job-name=train.py", "--array=1-3"),
        *(str(SCRIPT), "python", "-", "-", "-", f"{HERE}/train.py", "-v"),
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"node": 2}, "node: 2 is not possible here. Allowed: the options arguments, modules, nodes, tasks, gpus"),
        ({"nodes": "2"}, "nodes: '2' is not possible here. Allowed: a whole number from 0 to 10000."),
        ({"gpus": True}, "gpus: True is not"),
        ({"hours": float("nan")}, "hours: nan is not possible here. Allowed: a number above 0"),
        ({"hours": 1e9}, "hours: 1000000000.0 is not"),
        ({"partition": "a b"}, "partition: 'a b' is not"),
        ({"account": "--help"}, "account: '--help' is not"),
        ({"array": "1-3\n"}, "array: '1-3\\n' is not"),
        ({"name": "a\nb"}, "name: 'a\\nb' is not"),
        ({"name": "dsportal-0123456789abcdef"}, "Allowed: names that do not begin with 'dsportal-'"),
        ({"modules": "shared"}, "modules: 'shared' is not possible here. Allowed: a list of names of modules"),
        ({"modules": ["--force"]}, "modules: '--force' is not"),
        ({"arguments": ["a\0b"]}, "arguments: 'a\\x00b' is not"),
        ({"arguments": ["\ud800"]}, "arguments: '\\ud800' is not"),
        ({"modules": ["a\udfff"]}, "modules: 'a\\udfff' is not"),
        ({"name": "\ud800"}, "name: '\\ud800' is not"),
        ({"arguments": ["x"] * 101}, "arguments: ['x', 'x'"),
    ],
)
def test_what_is_not_allowed_is_refused_by_name(given: dict[str, Any], said: str) -> None:
    with pytest.raises(RequestError) as refusal:
        order("a.sh", **given)
    assert said in str(refusal.value)


def test_only_files_that_can_be_run_are_taken() -> None:
    with pytest.raises(RequestError, match=r"Allowed: files whose names end with \.ipynb, \.py, \.sh, \.job"):
        order("data.csv")
    with pytest.raises(RequestError, match="for a notebook NAME=VALUE, for example epochs=3"):
        order("a.ipynb", arguments=["epochs"])


def test_what_was_left_empty_is_as_if_it_were_not_there() -> None:
    assert order("a.sh", nodes=None, gpus=0, partition="", modules=[]) == order("a.sh")


def test_the_answer_of_sbatch_is_a_number_or_not_known() -> None:
    assert parse_submit("4711\n") == "4711"
    assert parse_submit("4711;cluster\n") == "4711"
    with pytest.raises(SlurmUnavailable, match="the job may have been submitted"):
        parse_submit("")


def test_names_hold_the_number_of_the_job_and_folders_do_not() -> None:
    assert filled_in("/h/%j/a-%j.log", "12") == "/h/%j/a-12.log"
    assert filled_in("a-%A_%a.log", "12_3") == "a-12_3.log"
    assert job_id({"SLURM_JOB_ID": "12"}) == "12"
    assert job_id({"SLURM_JOB_ID": "15", "SLURM_ARRAY_JOB_ID": "12", "SLURM_ARRAY_TASK_ID": "3"}) == "12_3"


# -- environment ----------------------------------------------------------------------------------------


def test_a_job_has_nothing_of_the_session_and_all_of_the_person() -> None:
    session = {
        "JUPYTERHUB_API_TOKEN": "s",
        "JPY_PARENT_PID": "1",
        "DSPORTAL_SESSION": "{}",
        "JUPYTER_TOKEN": "s",
        "JUPYTERHUB_SERVICE_PREFIX": "/",
        "SLURM_JOB_ID": "1",
        "SBATCH_PARTITION": "x",
        "CUDA_VISIBLE_DEVICES": "0",
        "TMPDIR": "/tmp/job",
        "XDG_RUNTIME_DIR": "/run/user/1",
        "JUPYTER_RUNTIME_DIR": "/tmp/dsp-1",
        "PORTAL_RUNTIME_DIR": "/tmp/dsp-1",
    }
    person = {
        "HOME": "/home/alice",
        "PATH": "/bin",
        "MY_OWN": "1",
        "SLURM_CONF": "/etc/slurm.conf",
        "JUPYTER_PATH": "/cluster/jupyter",
        "DSPORTAL_PRIVATE_FOLDER": "/scratch/alice",
        "BASH_ENV": "/init",
    }
    assert environment.of_job(session | person) == cache_folders.with_own(person)


def test_a_shell_without_modules_gets_the_command_of_the_sites_kernels(tmp_path: Path) -> None:
    system = Modules(tmp_path).system
    spec = tmp_path / "jupyter" / "kernels" / "tf" / "kernel.json"
    spec.parent.mkdir(parents=True)
    launch = Launch("tf", ("shared",), system, ("python3",))
    spec.write_text(json.dumps({"argv": launch.argv()}))
    (spec.parent.parent / "odd").mkdir()
    (spec.parent.parent / "odd" / "kernel.json").write_text("[]")

    environ = environment.of_job({"PATH": "/usr/bin:/bin", "JUPYTER_PATH": str(tmp_path / "jupyter")})

    assert environ["MODULEPATH"] == ":".join(system.path)
    function = environ[environment.MODULE_FUNCTION]
    assert function == f'() {{ eval "$({system.command} bash "$@")"; }}'


def test_bash_takes_the_command_from_the_environment(tmp_path: Path) -> None:
    command = tmp_path / "module command"
    command.write_text("#!/bin/sh\necho \"echo '$1 $2 $3'\"\n")
    command.chmod(0o755)
    environ = environment.of_job({"PATH": "/usr/bin:/bin", "MODULES_CMD": str(command), "MODULEPATH": "/m"})

    argv = ["bash", "-c", "module load 'a  b'"]
    assert subprocess.run(argv, env=environ, capture_output=True, text=True, check=True).stdout == "bash load a  b\n"


def test_modules_that_cannot_be_loaded_are_said_before_anything_is_submitted(tmp_path: Path) -> None:
    environ = {"PATH": "/usr/bin:/bin", "MODULES_CMD": "/bin/false", "MODULEPATH": "/m", "HOME": str(tmp_path)}
    with pytest.raises(KernelError, match="module load nope/1 failed"):
        environment.of_job(environ, ("nope/1",))


# -- words ----------------------------------------------------------------------------------------------


def test_a_reason_is_words_and_says_when_it_does_not_end() -> None:
    assert waiting("Priority").text == "other jobs are ahead in the queue"
    assert waiting("").text == "Slurm is looking for a place"
    assert waiting("Odd").text == "Slurm's reason: Odd"
    assert waiting("ReqNodeNotAvail, UnavailableNodes:gn1").text.endswith("down or reserved (UnavailableNodes:gn1)")
    assert waiting("PartitionTimeLimit").is_lasting
    assert waiting("Job's account not permitted to use this partition").is_lasting


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("invalid partition specified: nope", "There is no such partition"),
        ("Batch job submission failed: Invalid account or account/partition combination specified", "this account"),
        ("Batch job submission failed: Requested node configuration is not available", "No node there has so much"),
        (
            "Batch job submission failed: Requested time limit is invalid",
            "So many hours",
        ),
        ("Batch job submission failed: Invalid generic resource (gres) specification", "no such GPUs"),
        ("Batch job submission failed: User's group not permitted to use this partition", "closed to you"),
        ("Batch job submission failed: Job violates accounting/QOS policy (job submit limit)", "than your account"),
        ("This does not look like a batch script.", "#!/bin/bash"),
        ("Batch script contains DOS line breaks (\\r\\n)", "line ends of Windows"),
    ],
)
def test_what_sbatch_says_has_words_that_say_what_to_do(said: str, words: str) -> None:
    error = refused(f"sbatch: error: {said}\n")
    first, _, rest = error.message.partition("\n")
    assert first.startswith("Slurm did not accept the job. ")
    assert words in first
    assert rest == said


def test_what_is_not_known_is_slurms_own_word() -> None:
    assert refused("sbatch: error: odd").message == "Slurm did not accept the job.\nodd"
