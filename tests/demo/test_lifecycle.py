"""Starting, ending and crashing: the machine is left as it was, whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.demo.harness import Demo, cgroups, etc_sum, free_port, is_open, mounts, wait_until

MakeDemo = Callable[[], Demo]


@dataclass(frozen=True)
class Running:
    """A demo that runs with its portal, for tests that only look: where it is, and what its start printed."""

    demo: Demo
    port: int
    printed: str


@pytest.fixture(scope="module")
def running(new_demo: MakeDemo) -> Iterator[Running]:
    demo = new_demo()
    port = free_port()
    yield Running(demo, port, demo.up("--port", str(port)))
    demo.down()


def test_a_demo_that_came_and_went_leaves_the_machine_as_it_was(make_demo: MakeDemo) -> None:
    demo = make_demo()
    port = free_port()
    before = etc_sum(), mounts()
    demo.up("--port", str(port))
    assert etc_sum() == before[0], "nothing changes while it runs either"
    assert mounts() == before[1], "its mounts are its own"
    assert demo.processes()
    assert not list(Path("/sys/fs/cgroup").glob("*/slurm_*")), "its cgroups lie in a group of its own"
    demo.down()
    assert (etc_sum(), mounts()) == before
    assert demo.processes() == []
    assert not is_open(port)


def test_only_the_chosen_port_is_open_and_it_leads_to_the_portal(running: Running) -> None:
    assert f"http://localhost:{running.port}" in running.printed
    with urllib.request.urlopen(f"http://127.0.0.1:{running.port}/hub/x", timeout=10) as answer:
        assert answer.read() == b"961 /hub/x", "the hub is not root"
    assert [p for p in (3890, 3891, 6817, 6818, 6819, 6821) if is_open(p)] == []


def test_a_kill_of_the_starter_leaves_no_process_and_the_next_start_works(make_demo: MakeDemo) -> None:
    demo = make_demo()
    demo.up("--no-hub")
    job = demo.sh("sbatch --parsable --output=/dev/null --wrap 'sleep 600'", user="alice")
    wait_until(lambda: demo.sh(f"squeue -h -o %T -j {job}") == "RUNNING", "the job runs")
    assert demo.processes()
    os.kill(int(str(demo.run()["supervisor_pid"])), signal.SIGKILL)
    wait_until(lambda: demo.processes() == [], "every process is gone")
    assert demo.call("status").returncode == 3
    demo.up("--no-hub")
    assert "idle" in demo.sh("sinfo -h -o %T -n gpu04")
    assert demo.sh(f"squeue -h -o %u -j {job}") == "alice", "Slurm put the job back into the queue"
    assert demo.sh("sacctmgr -n show cluster format=cluster") == "demo", "the database is whole"


def test_two_demos_on_one_machine_do_not_meet(make_demo: MakeDemo) -> None:
    one = make_demo()
    two = make_demo()
    one.up("--no-hub")
    two.up("--no-hub")
    job = one.sh("sbatch --parsable --output=/dev/null --gres=gpu:4 -w gpu01 --wrap 'sleep 600'", user="alice")
    one.sh("touch /tmp/mine /home/alice/mine /mnt/isilon/mine")
    wait_until(lambda: one.sh(f"squeue -h -o %T -j {job}") == "RUNNING", "the job runs")
    assert two.sh("squeue -h") == ""
    assert two.sh("find /tmp /home /mnt/isilon -name mine") == ""
    assert two.sh("srun --gres=gpu:4 -w gpu01 -t 1 true && echo ran", user="alice") == "ran"
    names = cgroups()
    one.down()
    assert "idle" in two.sh("sinfo -h -o %T -n gpu01"), "the end of one does not reach the other"
    assert len(cgroups()) == max(len(names) - 1, 0)


def test_a_second_start_says_that_it_runs_already_and_where(running: Running) -> None:
    for verb in ("up", "run"):
        again = running.demo.call(verb, "--port", str(running.port))
        assert again.returncode == 0
        assert f"The demo runs already: http://localhost:{running.port}" in again.stdout


def test_a_later_start_downloads_and_unpacks_nothing(running: Running) -> None:
    assert not [word for word in ("downloading", "unpacking") if word in running.printed]


def test_a_taken_port_is_named_with_its_holder_and_the_next_free_one(running: Running, make_demo: MakeDemo) -> None:
    second = make_demo()
    refused = second.call("up", "--port", str(running.port))
    assert refused.returncode == 1
    assert f"port {running.port} is taken by another demo (process " in refused.stdout
    assert "Choose another: make demo PORT=" in refused.stdout
    assert second.processes() == []


def test_ctrl_c_ends_the_demo_in_the_foreground(make_demo: MakeDemo) -> None:
    demo = make_demo()
    command = [str(demo.program), "run", "--no-hub"]
    process = subprocess.Popen(command, env=demo.environment, stdout=subprocess.DEVNULL)
    wait_until(lambda: (demo.folder / "run.json").exists(), "it is up", 60)
    assert demo.processes()
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    assert demo.processes() == []


def test_a_demo_in_the_foreground_ends_when_its_starter_is_killed(make_demo: MakeDemo) -> None:
    demo = make_demo()
    command = ["sh", "-c", f"{demo.program} run --no-hub; true"]
    starter = subprocess.Popen(command, env=demo.environment, stdout=subprocess.DEVNULL)
    wait_until(lambda: (demo.folder / "run.json").exists(), "it is up", 60)
    assert demo.processes()
    starter.kill()
    starter.wait()
    wait_until(lambda: demo.processes() == [], "every process is gone")


def test_a_portal_that_does_not_start_is_named_with_its_last_words(make_demo: MakeDemo) -> None:
    demo = make_demo()
    port = free_port()
    broken = demo.folder / "cluster" / "hub" / "broken"
    broken.parent.mkdir(parents=True)
    broken.touch()
    failed = demo.call("up", "--port", str(port))
    assert failed.returncode == 1
    assert "demo: hub ended with status 1" in failed.stdout
    assert "the settings are wrong" in failed.stdout
    assert f"All logs: {demo.folder}/cluster/logs" in failed.stdout
    assert demo.processes() == []
    assert not is_open(port)


def test_where_no_cluster_can_run_the_local_mode_starts_and_one_line_says_why(make_demo: MakeDemo) -> None:
    demo = make_demo()
    demo.env["PATH"] = "/nowhere"
    done = demo.call("run", "--port", "8099", "--variant", "root" if os.geteuid() else "rootless")
    assert "No private cluster: " in done.stdout
    site = f"--site {demo.folder}/local/site.toml"
    assert done.stdout.splitlines()[-1].startswith(f"portal up --local {site}")
    assert done.stdout.splitlines()[-1].endswith("--port 8099")


def test_clean_removes_a_state_folder_and_nothing_else(make_demo: MakeDemo) -> None:
    demo = make_demo()
    demo.up("--no-hub")
    assert "a demo runs in" in demo.call("clean").stdout
    demo.down()
    (demo.folder / "thesis.txt").touch()
    refused = demo.call("clean")
    assert refused.returncode == 1
    assert "is not a demo's state folder (thesis.txt in it)" in refused.stdout
    (demo.folder / "thesis.txt").unlink()
    assert demo.call("clean").returncode == 0
    assert not demo.folder.exists()
