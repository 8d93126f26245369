"""Every recorded answer of every version is read rightly, or refused with its text; none is guessed.

What an answer should say comes from what was submitted (scenario.tsv), from a second recording of the same scene in
another form, or from the recording's README.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest

from portal.errors import SlurmUnavailable
from portal.slurm import nodes
from portal.slurm.accounting import JobEnd, parse_sacct, parse_show_job
from portal.slurm.jobs import Job, Phase, parse_ping, parse_squeue, phase_of
from tests.unit.recorded import VERSIONS, Case, as_ours, case, names, one_line_each, rows, scenario

Value = TypeVar("Value")


@pytest.fixture(autouse=True)
def universal_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The recordings' clock was in UTC; times in JSON are seconds, times in text are local."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def answer(recorded: Case) -> str:
    """The text that a reader gets: none after a failure, as :class:`portal.slurm.cluster.Cluster` does it."""
    if recorded.returncode != 0:
        raise SlurmUnavailable("Slurm does not answer.", detail=recorded.stderr)
    return recorded.stdout


def refused(reader: Callable[[str], object], recorded: Case) -> None:
    with pytest.raises(SlurmUnavailable) as caught:
        reader(answer(recorded))
    shown = recorded.stderr if recorded.returncode else recorded.stdout
    assert not shown or any(line.strip()[:40] in caught.value.detail for line in shown.splitlines() if line.strip())


def is_silent(recorded: Case) -> bool:
    """Slurm, munge or the configuration was not there."""
    return recorded.name.startswith(("ctlddown-", "ctldhang-", "mungedead-", "noconf-"))


# -- squeue ---------------------------------------------------------------------------------------------


def a_listing_in_our_columns(recorded: Case) -> None:
    if "JOBID" in recorded.stdout[:10]:  # asked for with a heading, which we never do
        with pytest.raises(SlurmUnavailable, match="cannot be read"):
            parse_squeue(as_ours(recorded.stdout))
        return
    jobs = parse_squeue(as_ours(answer(recorded)))
    told = {row["id"]: row for row in rows(recorded.stdout)}
    assert list(jobs) == list(told)
    assert told or recorded.name == "empty-squeue-us"
    for job_id, job in jobs.items():
        row = told[job_id]
        times = (job.submitted_at, job.starts_at, job.ends_at)
        known = [row[name] for name in ("submitted", "starts", "ends") if row[name] not in ("N/A", "NONE")]
        assert [f"{time.astimezone():%Y-%m-%dT%H:%M:%S}" for time in times if time] == known
        assert (job.state, job.user, job.node) == (row["state"], row["user"], row["node"])
        assert (job.partition, job.priority) == (row["partition"], int(row["priority"]))
        assert job.phase is not Phase.UNKNOWN
    if recorded.name == "squeue-us-all":
        is_the_scene(recorded.version, jobs)


def a_listing_in_columns_of_others(recorded: Case) -> None:
    """Also an empty one, which has a heading; without a heading, nothing is an empty queue."""
    if recorded.returncode == 0 and not recorded.stdout:
        assert parse_squeue(recorded.stdout) == {}
        assert recorded.name == "empty-squeue-h"
    else:
        refused(parse_squeue, recorded)


def is_the_scene(version: str, jobs: Mapping[str, Job]) -> None:
    """Each accepted submission is there, in the name of the right person and in the right partition."""
    for job in scenario(version).values():
        found = [jobs[key] for key in jobs if re.fullmatch(rf"{job.id}([_+].*)?", key)]
        assert found, job
        if "--array" not in job.command and " : " not in job.command:
            assert {(one.user, one.partition) for one in found} == {(job.user, job.partition)}


def a_queue_in_json(recorded: Case) -> None:
    """Nothing here asks for JSON: what comes in its place is never taken for a job."""
    if recorded.returncode == 0 and not recorded.stdout:
        assert parse_squeue(recorded.stdout) == {}
    else:
        refused(parse_squeue, recorded)


# -- scontrol show job, sacct ---------------------------------------------------------------------------

ENDS = {
    "completed": JobEnd("COMPLETED", "0:0"),
    "failed3": JobEnd("FAILED", "3:0", reason="NonZeroExitCode"),
    "oom": JobEnd("OUT_OF_MEMORY", "0:125", reason="OutOfMemory"),
    "timeout": JobEnd("TIMEOUT", "0:15", reason="TimeLimit"),
    "cancel_run": JobEnd("CANCELLED", "0:15"),
    "cancel_pend": JobEnd("CANCELLED", "0:0", reason="JobHeldUser"),
    "run1": None,
    "special_me": None,
    "requeuehold_me": None,
    "p_held": None,
    "tocomplete": None,
}


def jobs_shown(recorded: Case) -> None:
    """Each job of the answer by itself, in one line, as we ask for it."""
    if is_silent(recorded) or recorded.name.endswith(("-unknown", "-bad")):
        return refused(parse_show_job, recorded)
    shown = lines_shown(recorded)
    assert shown or recorded.stdout == "No jobs in the system\n"
    for line in shown.values():
        end, state = parse_show_job(line), re.search(r" JobState=(\w+)", line)
        assert state
        assert (end.state if end else None) == (state[1] if phase_of(state[1]) is Phase.ENDED else None)
    if recorded.name in ("scontrol-show-job", "scontrol-show-job-o", "scontrol-show-job-a", "scontrol-show-job-d"):
        code = "0:0" if recorded.version < "25.05" else "0:1"
        for label, expected in (ENDS | {"nodefail": JobEnd("NODE_FAIL", code, reason="NodeDown")}).items():
            assert parse_show_job(shown[scenario(recorded.version)[label].id]) == expected, label
    return None


def lines_shown(recorded: Case) -> Mapping[str, str]:
    """The line of each job by number."""
    lines = one_line_each(answer(recorded), "JobId").split("\n")[:-1]
    return {line.split()[0].removeprefix("JobId="): line for line in lines}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_job_that_crashed_tells_its_signal_from_23_02_on(version: str) -> None:
    job_id = scenario(version)["failed_segv"].id
    line = lines_shown(case(version, "scontrol-show-job-o"))[job_id]

    reason = "JobLaunchFailure" if version == "22.05" else "RaisedSignal:11(Segmentation fault)"
    assert parse_show_job(line) == JobEnd("FAILED", "0:11", reason=reason)


def accounting(recorded: Case) -> None:
    """State and exit code out of the recorded columns, as we ask for them, job by job."""
    if is_silent(recorded) or recorded.name in ("dbddown-sacct", "noacct-sacct", "sacct-bad-field"):
        return refused(parse_sacct, recorded)
    if recorded.name in ("sacct-plain", "empty-sacct", "sacct-unknown-job", "sacct-foreign"):
        assert parse_sacct(answer(recorded)) is None  # other columns, or nothing at all: no end
        return None
    ends = {job_id: (state, parse_sacct(f"{state}|{code}\n")) for job_id, state, code in accounted(recorded)}
    assert len(ends) >= 9
    for state, end in ends.values():
        word = state.split()[0]
        assert (end.state if end else None) == (word if phase_of(word) is Phase.ENDED else None)
    if recorded.name in ("sacct-P", "sacct-PX", "sacct-P-after"):
        submitted = scenario(recorded.version)
        assert ends[submitted["failed3"].id][1] == JobEnd("FAILED", "3:0")
        assert ends[submitted["oom"].id][1] == JobEnd("OUT_OF_MEMORY", "0:125")
        assert ends[submitted["run4"].id][1] is None
    if recorded.name in ("sacct-P", "sacct-PX"):
        assert ends[submitted["timeout"].id][1] == JobEnd("TIMEOUT", "0:0")
        assert ends[submitted["cancel_run"].id][1] == JobEnd("CANCELLED", "0:0", cancelled_by="0")
    return None


def accounted(recorded: Case) -> Iterator[tuple[str, str, str]]:
    """Number, state and exit code of each job (not of its steps) whose name holds no separator."""
    columns = re.findall(r"\w+", recorded.command.rpartition("-o ")[2])
    state, code = columns.index("state"), columns.index("exitcode")
    for line in recorded.stdout.split("\n"):
        fields = line.split("|")
        if len(fields) == len(columns) and re.fullmatch(r"\d+([_+]\d+)?", fields[0]):
            yield fields[0], fields[state], fields[code]


def a_ping(recorded: Case) -> None:
    """Up only where it was, whatever the exit status."""
    assert parse_ping(recorded.stdout) == (recorded.name == "scontrol-ping")


# -- scontrol show node, partition, reservation ---------------------------------------------------------


def some_nodes(recorded: Case) -> None:
    if is_silent(recorded) or recorded.name.endswith("-unknown"):
        return refused(nodes.parse_nodes, recorded)
    told = nodes_in_json(recorded)
    found = nodes.parse_nodes(with_details(one_line_each(answer(recorded), "NodeName"), told))
    assert sorted(found) == [f"gn0{number}" for number in range(1, 9)]
    for name, node in found.items():
        entry = told[name]
        state = entry["state"]
        words = [state.upper(), *entry["state_flags"]] if isinstance(state, str) else state
        # 23.02 says ALLOCATED in JSON where its text says MIXED
        assert node.states - {"MIXED", "ALLOCATED"} == set(words) - {"MIXED", "ALLOCATED"}
        assert node.partitions == tuple(entry["partitions"])
        assert (node.cores, node.memory_mib) == (40, 393216)
        used = entry.get("alloc_memory")
        assert used is None or node.memory_used_mib == used
        assert node.reason == entry["reason"]
        assert node.gpus == ({} if name == "gn08" else {"a100": 2} if name > "gn04" else {"v100": 4})
    unusable = {name for name, node in found.items() if not node.is_usable}
    assert unusable == {"gn05", "gn06", "gn07", "gn08"} | ({"gn02"} if recorded.name.startswith("extra") else set())
    if not recorded.name.startswith("extra"):
        assert (found["gn01"].cores_used, found["gn01"].memory_used_mib) == (8, 40960)
        assert found["gn01"].gpus_free == {"v100": 0}
        assert found["gn05"].gpus_free == {"a100": 2}
    return None


def nodes_in_json(recorded: Case) -> Mapping[str, dict[str, Any]]:
    """The same scene in JSON: sinfo has it by node in 22.05 only, scontrol from 23.02 on."""
    prefix = "extra-" if recorded.name.startswith("extra-") else ""
    name = "sinfo-json" if recorded.version == "22.05" else "scontrol-show-node-json"
    return {entry["name"]: entry for entry in case(recorded.version, prefix + name).json["nodes"]}


def with_details(listing: str, told: Mapping[str, dict[str, Any]]) -> str:
    """The listing as ``--details`` gives it (seen on 22.05): with GPUs in use, here out of the same scene's JSON."""

    def details(line: re.Match[str]) -> str:
        return f"{line[0]} GresDrain=N/A GresUsed={told[line[1]]['gres_used']}"

    return re.sub(r"NodeName=(\S+) .*? Gres=\S*", details, listing)


@pytest.mark.parametrize("version", VERSIONS)
def test_gpus_in_use_are_those_that_accounting_counts(version: str) -> None:
    recorded = case(version, "scontrol-show-node-o")
    listing = with_details(recorded.stdout, nodes_in_json(recorded))

    counted = dict(re.findall(r"NodeName=(\S+) .* AllocTRES=\S*gres/gpu=(\d+)", recorded.stdout))

    assert counted == {f"gn0{number}": "4" for number in range(1, 5)}
    for name, node in nodes.parse_nodes(listing).items():
        assert sum(node.gpus_used.values()) == int(counted.get(name, 0))


@pytest.mark.parametrize("version", VERSIONS)
def test_nodes_without_details_are_unknown_for_nobody_knows_which_gpus_are_in_use(version: str) -> None:
    found = nodes.parse_nodes(case(version, "scontrol-show-node-o").stdout)

    assert {name for name, node in found.items() if not node.gpus} == set(found)
    assert {name for name, node in found.items() if node.is_usable} == set()


LIMITS_MIN = {  # README.md of the recordings, "How it was recorded"
    "gpu": 1440,
    "long": None,
    "hipri": 720,
    "iq": 240,
    "scav": 10080,
    "old": 2880,
    "internal": 1440,
    "maintq": 1440,
    "admins": 1440,
    "staffonly": 1440,
    "downq": 1440,
    "drainq": 1440,
    "inactq": 1440,
}


def some_partitions(recorded: Case) -> None:
    if recorded.name.endswith("-unknown"):
        return refused(nodes.parse_partitions, recorded)
    found = nodes.parse_partitions(one_line_each(answer(recorded), "PartitionName"))
    if recorded.name.startswith("extra-"):  # asked for one only, which was made inactive
        assert [(one.name, one.state, one.is_up) for one in found.values()] == [("iq", "inactive", False)]
        return None
    assert {name: one.time_limit_min for name, one in found.items()} == LIMITS_MIN
    closed = {"downq": "down", "drainq": "drain", "inactq": "inactive"}
    assert {name: one.state for name, one in found.items() if not one.is_up} == closed
    assert [name for name, one in found.items() if one.is_hidden] == ["internal"]
    assert [name for name, one in found.items() if one.is_default] == ["gpu"]
    assert {name: one.allow_groups for name, one in found.items() if one.allow_groups} == {"admins": {"admins"}}
    assert {name: one.allow_accounts for name, one in found.items() if one.allow_accounts} == {"staffonly": {"staff"}}
    assert (found["gpu"].nodes, found["old"].nodes, found["iq"].nodes) == (4, 3, 1)
    return None


def some_reservations(recorded: Case) -> None:
    if recorded.name.startswith("empty-"):
        assert nodes.parse_reservations(answer(recorded)) == {}
        return
    found = nodes.parse_reservations(one_line_each(answer(recorded), "ReservationName"))
    assert {name: one.ends_at - one.starts_at for name, one in found.items()} == {
        "maint_gn07": timedelta(days=7),
        "class": timedelta(hours=2),
        "maint_all": timedelta(hours=8),
    }
    assert {name: one.is_maintenance for name, one in found.items()} == {
        "maint_gn07": True,
        "class": False,
        "maint_all": True,
    }
    assert (found["maint_gn07"].nodes, found["class"].nodes) == (frozenset({"gn07"}), frozenset({"gn01"}))
    assert found["maint_all"].nodes == {f"gn0{number}" for number in range(1, 9)}
    assert found["maint_gn07"].starts_at < datetime(2026, 11, 21, tzinfo=UTC) < found["class"].starts_at


# -- all of them ----------------------------------------------------------------------------------------

READERS: tuple[tuple[str, Callable[[Case], None]], ...] = (
    (r".*squeue(-start)?-us.*", a_listing_in_our_columns),
    (r".*squeue-json.*", a_queue_in_json),
    (r".*squeue(-\w+)*", a_listing_in_columns_of_others),
    (r".*show-job(-\w+)?", jobs_shown),
    (r".*sacct(-\w+)*", accounting),
    (r".*scontrol-ping", a_ping),
    (r".*show-node(-o|-a|-unknown)?", some_nodes),
    (r".*show-partition(-o|-a|-unknown)?", some_partitions),
    (r".*show-res(ervation)?(-o|-a)?", some_reservations),
)
ONLY_COMPARED_WITH = {"sinfo-json", "extra-sinfo-json", "scontrol-show-node-json", "extra-scontrol-show-node-json"}


@pytest.mark.parametrize(
    ("version", "name"),
    [(version, name) for version in VERSIONS for name in names(version) if name not in ONLY_COMPARED_WITH],
)
def test_a_recorded_answer_is_read_rightly_or_refused_with_its_text(version: str, name: str) -> None:
    check = next(check for pattern, check in READERS if re.fullmatch(pattern, name))

    check(case(version, name))
