"""What runs inside: people, Slurm, the directory, and what a job may touch."""

from __future__ import annotations

import os
import shlex
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from ptyprocess import PtyProcess

from tests.demo.harness import CHECKOUT, IS_ROOT, Demo, wait_until

OPEN_GPUS = """
import os
for number in range(4):
    try:
        os.close(os.open(f"/dev/nvidia{number}", os.O_RDWR)); print("opened")
    except OSError as error:
        print(error.errno)
"""
HELD = """
import os, sys
ours = tuple(map(int, sys.argv[1:]))
for process in filter(str.isdigit, os.listdir("/proc")):
    place = f"/proc/{process}/"
    try:
        if os.stat(place).st_uid != 20001:
            continue
        print("process")
        print("token " * (b"A_TOKEN" in open(place + "environ", "rb").read()))
        for number in os.listdir(place + "fd"):
            file = os.stat(place + "fd/" + number)
            print("terminal " * ((file.st_dev, file.st_rdev) == ours))
    except FileNotFoundError:
        pass
"""
EPERM = "1"
ENXIO = "6"


def test_the_nodes_and_partitions_are_the_ones_of_the_source(cluster: Demo) -> None:
    lines = cluster.sh("sinfo -h -o '%P %N %l %c %m %G'").splitlines()
    assert lines == [
        "sxm2* gpu[01-03] 1-00:00:00 40 393216 gpu:4",
        "hipri gpu[01-03] 12:00:00 40 393216 gpu:4",
        "iq gpu04 4:00:00 40 393216 gpu:4",
        "requestq gpu[01-04] 8:00:00 40 393216 gpu:4",
    ]


def test_a_time_above_the_partitions_limit_is_refused_at_once(cluster: Demo) -> None:
    refused = cluster.inside("sbatch", "-p", "iq", "-t", "5:00:00", "--wrap", "true", user="alice")
    assert refused.returncode != 0
    assert "Requested time limit is invalid" in refused.stdout


def test_the_directorys_people_are_unix_users_with_closed_homes(cluster: Demo) -> None:
    assert cluster.sh("getent passwd alice") == "alice:*:20001:20000:Alice:/home/alice:/bin/bash"
    assert cluster.sh("id", user="carol") == "uid=20003(carol) gid=20000(hpcusers) groups=20000(hpcusers)"
    assert cluster.sh("stat -c '%a %U' /home/alice") == "700 alice"
    assert cluster.inside("ls", "/home/alice", user="bob").returncode != 0


def test_the_directory_tells_nothing_before_starttls_and_checks_passwords_after(cluster: Demo) -> None:
    search = "LDAPTLS_CACERT=/etc/dsportal/ldap-ca.crt ldapsearch -x -LLL -b dc=cluster,dc=example"
    for port in (3890, 3891):
        who = f"-H ldap://127.0.0.1:{port}"
        plain = cluster.inside("bash", "-c", f"{search} {who} uid=alice")
        assert "Confidentiality required" in plain.stdout
        members = cluster.sh(f"{search} {who} -ZZ cn=jupyter member").splitlines()
        assert len(members) == 12, "the entry and its eleven members: everybody but mallory"
        bind = f"ldapwhoami -x {who} -ZZ -D uid=alice,ou=people,dc=cluster,dc=example -w"
        tls = "LDAPTLS_CACERT=/etc/dsportal/ldap-ca.crt"
        assert cluster.sh(f"{tls} {bind} alice-demo") == "dn:uid=alice,ou=people,dc=cluster,dc=example"
        assert "Invalid credentials" in cluster.inside("bash", "-c", f"{tls} {bind} wrong").stdout


def test_a_job_opens_its_own_gpus_only_where_the_kernel_can_hold_it_to_that(cluster: Demo) -> None:
    request = ["srun", "--gres=gpu:2", "--mem=100M", "-t", "1", "/usr/bin/python3", "-c", OPEN_GPUS]
    results = cluster.inside(*request, user="alice").stdout.split()
    if IS_ROOT and Path("/sys/fs/cgroup/devices").is_dir():
        assert sorted(results) == [EPERM, EPERM, ENXIO, ENXIO], "two are its own (and nothing is behind them)"
    else:
        assert results == ["opened"] * 4, "without cgroups every job can open every GPU, as the demo says at its start"


def test_a_job_above_its_memory_is_killed(cluster: Demo) -> None:
    hungry = "x = bytearray(600 << 20); import time; time.sleep(60)"
    request = ["srun", "--mem=100M", "-t", "1", "/usr/bin/python3", "-c", hungry]
    assert cluster.inside(*request, user="bob").returncode != 0


def test_the_portal_may_run_the_launcher_as_a_person_and_nothing_else(cluster: Demo, stand_in: Path) -> None:
    launcher = f"{stand_in}/bin/portal-launch"

    def sudo(*arguments: str) -> subprocess.CompletedProcess[str]:
        return cluster.inside("sudo", "-n", *arguments, user="portal")

    done = sudo("-u", "alice", launcher, "-t", "1", "--wrap", "true")
    job = done.stdout.strip()
    assert job.isdigit(), done.stdout
    assert cluster.sh(f"scontrol show job {job} | grep -o 'UserId=[a-z]*'") == "UserId=alice"
    wait_until(lambda: "COMPLETED" in cluster.sh(f"sacct -n -X -o State -j {job}"), "the job ends well")
    for refused in (
        ["-u", "root", launcher],
        [launcher],
        ["-u", "slurm", launcher],
        ["-u", "alice", "/usr/bin/id"],
        ["-u", "alice", "-g", "root", launcher],
        ["-u", "alice", "SLURM_CONF=/tmp/x", launcher],
    ):
        assert sudo(*refused).returncode != 0, refused


def test_the_first_job_and_a_foreign_scancel(cluster: Demo) -> None:
    job = cluster.sh("sbatch --parsable --output=/dev/null -t 5 --wrap 'sleep 300'", user="alice")
    foreign = cluster.inside("scancel", job, user="bob")
    assert "Access/permission denied" in foreign.stdout
    assert cluster.sh(f"squeue -h -o %u -j {job}") == "alice"
    cluster.sh(f"scancel {job}", user="alice")
    wait_until(lambda: cluster.sh(f"squeue -h -j {job}") == "", "its owner ends it")


def test_a_daemon_can_be_stopped_and_started_again(cluster: Demo) -> None:
    assert "does not run" in cluster.call("service", "stop", "slapd2").stdout
    assert cluster.sh("getent passwd bob | cut -d: -f3") == "20002", "the other server answers"
    assert "runs as process" in cluster.call("service", "start", "slapd2").stdout
    assert "there are: slapd1, slapd2" in cluster.call("service", "start", "slapd3").stdout


def test_exec_passes_on_status_folder_and_environment(cluster: Demo) -> None:
    assert cluster.inside("bash", "-c", "exit 7").returncode == 7
    assert cluster.inside("no-such-program").returncode == 127
    assert "no account 'nobody-here'" in cluster.inside("true", user="nobody-here").stdout
    os.environ["DSPORTAL_SAMPLE"] = "kept"
    variant = f"DSPORTAL_CLUSTER={'root' if IS_ROOT else 'rootless'}"
    assert {"DSPORTAL_SAMPLE=kept", "HOME=/root", variant} <= set(cluster.inside("env").stdout.splitlines())
    of_alice = set(cluster.inside("env", user="alice").stdout.splitlines())
    assert {"HOME=/home/alice", "USER=alice", variant} <= of_alice
    assert "DSPORTAL_SAMPLE=kept" not in of_alice, "whoever logs in as alice could read it"


def test_secrets_are_closed_and_in_no_argv(cluster: Demo) -> None:
    keys = [cluster.folder / "cluster" / name for name in ("munge/munge.key", "ldap/root.pw", "tls/ca.key")]
    if IS_ROOT:
        assert [oct(key.stat().st_mode)[-2:] for key in keys] == ["00"] * 3
        password = keys[1].read_text()
        assert password not in cluster.sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert oct(cluster.folder.stat().st_mode)[-2:] == "00", "the state folder is closed to others"


def test_r_and_environment_modules_are_there(cluster: Demo) -> None:
    assert cluster.sh("""Rscript -e 'cat(is.function(IRkernel::main))'""", user="alice") == "TRUE"
    assert cluster.inside("bash", "-lc", "module --version", user="alice").returncode == 0
    assert cluster.sh("ls /usr/share/datasets/fashion-mnist").count("ubyte") == 4


def test_a_shell_as_a_person_has_neither_the_callers_terminal_nor_its_environment(cluster: Demo) -> None:
    """Whoever logs in to the demo as alice could type into the one, and read the other."""
    shell = PtyProcess.spawn([str(cluster.program), "shell"], env={**cluster.environment, "A_TOKEN": "secret"})
    ours = Path(f"/proc/{shell.pid}/fd/0").stat()
    try:
        wait_until(lambda: "bash" in cluster.sh("ps -u alice -o comm= || true"), "alice's shell")
        found = cluster.inside("/usr/bin/python3", "-c", HELD, str(ours.st_dev), str(ours.st_rdev)).stdout.split()
    finally:
        shell.terminate(force=True)

    assert found.count("process") >= 2, "the shell, and what gives it a terminal inside"
    assert set(found) == {"process"}


@pytest.mark.parametrize("way", ["< /dev/null", "> {told} 2>&1 3<&0", "2> {told} 3<> /dev/tty"])
def test_a_command_as_a_person_has_no_terminal_of_the_callers(cluster: Demo, way: str, tmp_path: Path) -> None:
    """Neither for its own, by ``/dev/tty``, nor to read and write; what it says comes there all the same."""
    told = tmp_path / "told"
    words = 'exec --user alice -- bash -c "echo > /dev/tty; echo said; exec sleep 3"'
    command = f"{shlex.quote(str(cluster.program))} {words} {way.format(told=shlex.quote(str(told)))}"
    shell = PtyProcess.spawn(["bash", "-c", command], env=cluster.environment)
    ours = Path(f"/proc/{shell.pid}/fd/0").stat()
    said: list[bytes] = []
    try:
        wait_until(lambda: "sleep" in cluster.sh("ps -u alice -o comm= || true"), "alice's command")
        found = cluster.inside("/usr/bin/python3", "-c", HELD, str(ours.st_dev), str(ours.st_rdev)).stdout.split()
        with suppress(EOFError):
            while True:
                said.append(shell.read())
    finally:
        shell.terminate(force=True)

    whole = b"".join(said).decode() + (told.read_text() if told.exists() else "")
    assert "process" in found
    assert "terminal" not in found
    assert "said" in whole
    assert "No such device or address" in whole


def test_a_command_as_a_person_goes_on_where_it_leads_a_session(cluster: Demo, tmp_path: Path) -> None:
    """As ``ssh -t HOST demo exec … > FILE`` starts it."""
    told = tmp_path / "told"
    command = [str(cluster.program), *["exec", "--user", "alice", "--", "bash", "-c"], "echo said; exit 3"]
    script = f"exec {shlex.join(command)} > {shlex.quote(str(told))} 2>&1"
    shell = PtyProcess.spawn(["bash", "-c", script], env=cluster.environment)

    assert (shell.wait(), told.read_text()) == (3, "said\n")


def test_what_git_keeps_of_the_checkout_is_shown_to_nobody_inside(cluster: Demo) -> None:
    kept = CHECKOUT / ".git"
    assert cluster.inside("cat", str(kept / "config" if kept.is_dir() else kept)).stdout.count("[core]") == 0
    assert cluster.inside("ls", str(CHECKOUT / "deploy"), user="alice").returncode == 0
