"""Nodes, partitions and reservations: what scontrol says of them, and nothing that somebody made it say."""

from __future__ import annotations

from datetime import datetime

import pytest

from portal.errors import SlurmUnavailable
from portal.slurm import nodes, scontrol

NODE = (
    "NodeName=gpu01 Arch=x86_64 CoresPerSocket=20  CPUAlloc=8 CPUEfctv=38 CPUTot=40 CPULoad=1.46"
    " Gres=gpu:v100:3(S:0-1),gpu:a100:1(S:0),nvme:2 GresDrain=N/A GresUsed=gpu:v100:2(IDX:0,2),gpu:a100:0(IDX:N/A)"
    " NodeAddr=gpu01 OS=Linux 6.1.0 #1 SMP  RealMemory=393216 AllocMem=40960 FreeMem=17616 MemSpecLimit=16384"
    " State=MIXED ThreadsPerCore=1 Partitions=sxm2,long  CfgTRES=cpu=40 AllocTRES=cpu=8,mem=40G"
)
PARTITION = "PartitionName=sxm2 Default=YES Hidden=NO MaxTime=1-12:30:00 Nodes=gpu[01-04] State=UP TotalNodes=4"
RESERVATION = (
    "ReservationName=class StartTime=2026-11-21T17:00:00 EndTime=2026-11-21T19:00:00 Nodes=gpu[01-02] Flags=SPEC_NODES"
)


def test_a_node_has_what_jobs_may_use_and_what_they_use() -> None:
    found = nodes.parse_nodes(NODE)["gpu01"]

    assert (found.cores, found.cores_used, found.cores_free) == (38, 8, 30)
    assert (found.memory_mib, found.memory_used_mib, found.memory_free_mib) == (376832, 40960, 335872)
    assert (found.gpus, found.gpus_used) == ({"v100": 3, "a100": 1}, {"v100": 2, "a100": 0})
    assert found.gpus_free == {"v100": 1, "a100": 1}
    assert (found.partitions, found.states, found.is_usable) == (("sxm2", "long"), frozenset({"MIXED"}), True)


@pytest.mark.parametrize(
    ("gres", "used", "free"),
    [
        ("gpu:4", "gpu:1(IDX:0)", {"": 3}),
        ("gpu:4", "gpu:(null):3(IDX:0-2)", {"": 1}),
        ("gpu:tesla-v100.sxm2:2", "gpu:tesla-v100.sxm2:2(IDX:0-1)", {"tesla-v100.sxm2": 0}),
        ("gpu:2,shard:8", "gpu:2(IDX:0-1),shard:8(0/8,8/8)", {"": 0}),
        ("gpu:a100:no_consume:2", "gpu:a100:0(IDX:N/A)", {"a100": 2}),
        ("gpu:no_consume:2", "gpu:0(IDX:N/A)", {"": 2}),
        ("gpu:a100_1g.5gb:7(S:0)", "gpu:a100_1g.5gb:3(IDX:0-2)", {"a100_1g.5gb": 4}),
        ("(null)", "gpu:0", {}),
        ("", "", {}),
    ],
)
def test_gpus_are_counted_by_kind_as_the_site_names_them(gres: str, used: str, free: dict[str, int]) -> None:
    line = NODE.replace(NODE[NODE.index(" Gres=") : NODE.index(" NodeAddr")], f" Gres={gres} GresUsed={used}")

    assert nodes.parse_nodes(line)["gpu01"].gpus_free == free


@pytest.mark.parametrize(
    ("state", "is_usable"),
    [
        ("IDLE", True),
        ("ALLOCATED", True),
        ("MIXED+COMPLETING+PLANNED", True),
        ("IDLE+CLOUD", True),
        ("IDLE+DRAIN", False),
        ("DOWN+NOT_RESPONDING", False),
        ("MIXED+NOT_RESPONDING", False),
        ("IDLE+MAINTENANCE+RESERVED", False),
        ("IDLE+FAIL", False),
        ("IDLE+CLOUD+POWERED_DOWN", False),
        ("IDLE+REBOOT_REQUESTED", False),
        ("UNKNOWN", False),
        ("IDLE+STATE_OF_A_LATER_SLURM", False),
        ("IDLE-", True),
        ("IDLE*", False),
        ("DOWN*+DRAIN", False),
        ("IDLE~", False),
        ("IDLE#", False),
        ("MIXED$", False),
        ("IDLE@", False),
        ("IDLE^", False),
        ("IDLE!", False),
        ("IDLE%", False),
        ("IDLE~*", False),
    ],
)
def test_only_a_node_in_states_known_to_take_jobs_is_usable(state: str, is_usable: bool) -> None:
    found = nodes.parse_nodes(NODE.replace("State=MIXED", f"State={state}"))["gpu01"]

    assert found.is_usable == is_usable


@pytest.mark.parametrize(
    "text",
    [
        "fan broken [root@2026-11-21T09:00:00]",
        "fan broken [root@2026-11-21T09:00:00] Comment=State=IDLE",
        "fan broken [root@2026-11-21T09:00:00] Extra=x\n\nlast line",
    ],
)
def test_a_reason_is_what_stands_before_who_and_when(text: str) -> None:
    assert nodes.parse_nodes(f"{NODE} Reason={text}\n")["gpu01"].reason == "fan broken"


@pytest.mark.parametrize("place", ["Reason=", "Comment=", "Extra="])
def test_a_free_text_cannot_speak_for_another_field(place: str) -> None:
    lie = f"{place}ok State=IDLE CPUAlloc=0 Reason=x\nRealMemory=1 Gres=gpu:64\nState=IDLE [bob@2026-11-21T09:00:00]"
    drained, plain = NODE.replace("State=MIXED", "State=IDLE+DRAIN"), NODE.replace("gpu01", "gpu02")

    found = nodes.parse_nodes(f"{drained} {lie}\n{plain}\n")

    assert (found["gpu01"].is_usable, found["gpu01"].cores_used) == (False, 8)
    assert (found["gpu01"].gpus["v100"], found["gpu01"].memory_mib) == (3, 376832)
    assert found["gpu02"].is_usable


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "''"),
        ("slurm_load_node error: Unable to contact slurm controller", "Unable to contact"),
        (f"{NODE}\nhello\n", "'hello'"),
        (f"{NODE}\n{NODE}\n", "twice"),
        (f"{NODE} State=IDLE\n", "State is there twice"),
        (NODE.replace(" GresUsed", " Used"), "GresUsed is missing"),
        (NODE.replace("State=MIXED", "State=mixed"), "State=mixed"),
        (NODE.replace("AllocMem=40960", "AllocMem=40G"), "AllocMem=40G"),
        (NODE.replace("CPUEfctv=38", "CPUEfctv=-1"), "CPUEfctv=-1"),
        (NODE.replace("gpu:v100:3(S", "gpu:v100:3k(S"), "Gres=gpu:v100:3k"),
        (NODE.replace("GresUsed=gpu:v100:2", "GresUsed=gpu:h100:2"), "h100"),
    ],
)
def test_nodes_that_cannot_be_read_are_refused_with_the_text(text: str, told: str) -> None:
    with pytest.raises(SlurmUnavailable, match="nothing is lost") as caught:
        nodes.parse_nodes(text)

    assert told in caught.value.detail


@pytest.mark.parametrize(
    ("right", "odd"),
    [
        ("State=MIXED", "State=MIXED?"),
        ("gpu:v100:3(S", "gpu:v100:3k(S"),
        ("CPUEfctv=38", "CPUEfctv=-1"),
        ("Partitions=sxm2,long", "Partitions=sxm2 State=IDLE"),
    ],
)
def test_one_odd_node_is_one_unknown_node_and_is_said_in_the_log_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, right: str, odd: str
) -> None:
    monkeypatch.setattr(scontrol, "_odd", set())
    listing = f"{NODE.replace('gpu01', 'gpu02')}\n{NODE.replace(right, odd)}\n"

    found = [nodes.parse_nodes(listing) for _ in range(2)][-1]

    assert found["gpu02"].is_usable
    assert (found["gpu01"].states, found["gpu01"].is_usable) == (frozenset({"UNKNOWN"}), False)
    assert "sxm2" in found["gpu01"].partitions, "the certificate of a session there needs its name"
    assert not found["gpu01"].gpus
    (said,) = caplog.messages
    assert "'gpu01'" in said


def test_one_odd_partition_or_reservation_does_not_hide_the_others() -> None:
    other = PARTITION.replace("sxm2", "long").replace("State=UP", "State=?")
    later = RESERVATION.replace("class", "lab").replace("19:00:00", "never")

    assert list(nodes.parse_partitions(f"{PARTITION}\n{other}\n")) == ["sxm2"]
    assert list(nodes.parse_reservations(f"{RESERVATION}\n{later}\n")) == ["class"]


def test_a_partition_tells_whom_slurm_lets_in() -> None:
    limits = "AllowGroups=staff,ai AllowAccounts=research DenyQos=slow AllowQos=ALL"

    found = nodes.parse_partitions(f"{PARTITION} {limits}")["sxm2"]

    assert (found.allow_groups, found.allow_accounts) == (frozenset({"staff", "ai"}), frozenset({"research"}))
    assert (found.allow_qos, found.deny_qos, found.deny_accounts) == (None, frozenset({"slow"}), frozenset())


@pytest.mark.parametrize(
    ("limit", "minutes"), [("1-12:30:00", 2190), ("04:00:00", 240), ("00:00:30", 0), ("UNLIMITED", None)]
)
def test_a_partition_has_a_limit_in_minutes_or_none(limit: str, minutes: int | None) -> None:
    found = nodes.parse_partitions(PARTITION.replace("1-12:30:00", limit))["sxm2"]

    assert found == nodes.Partition("sxm2", "up", 4, minutes, is_hidden=False, is_default=True)
    assert found.is_up


@pytest.mark.parametrize("state", ["DOWN", "DRAIN", "INACTIVE"])
def test_a_partition_that_is_not_up_says_so(state: str) -> None:
    found = nodes.parse_partitions(PARTITION.replace("State=UP", f"State={state}"))["sxm2"]

    assert (found.is_up, found.state) == (False, state.lower())


@pytest.mark.parametrize(
    ("before", "after"),
    [("1-12:30:00", "soon"), ("1-12:30:00", "12:30"), ("State=UP", "State=?"), ("Hidden=NO", "Hidden=no"), ("=4", "=")],
)
def test_partitions_that_cannot_be_read_are_refused(before: str, after: str) -> None:
    with pytest.raises(SlurmUnavailable):
        nodes.parse_partitions(PARTITION.replace(before, after))


def test_a_reservation_has_its_time_its_nodes_and_whether_it_is_a_maintenance() -> None:
    maintenance = RESERVATION.replace("class", "maint").replace("=SPEC", "=MAINT,IGNORE_JOBS,SPEC")

    found = nodes.parse_reservations(f"{RESERVATION}\n{maintenance} Comment=x\n")

    start, end = datetime(2026, 11, 21, 17).astimezone(), datetime(2026, 11, 21, 19).astimezone()
    assert found["class"] == nodes.Reservation("class", start, end, frozenset({"gpu01", "gpu02"}), is_maintenance=False)
    assert found["maint"].is_maintenance


def test_no_reservation_is_said_in_words_and_silence_is_no_answer() -> None:
    assert nodes.parse_reservations("No reservations in the system\n") == {}
    for text in ("", "No reservations\n", RESERVATION.replace("2026-11-21T19:00:00", "later")):
        with pytest.raises(SlurmUnavailable):
            nodes.parse_reservations(text)


@pytest.mark.parametrize(
    ("hostlist", "names"),
    [
        ("gpu01", ("gpu01",)),
        ("gpu[08-10,12],login1", ("gpu08", "gpu09", "gpu10", "gpu12", "login1")),
        ("rack[0-1]node[1,3]", ("rack0node1", "rack0node3", "rack1node1", "rack1node3")),
        ("a[1-2].x,b", ("a1.x", "a2.x", "b")),
        ("(null)", ()),
    ],
)
def test_a_list_of_nodes_is_written_out(hostlist: str, names: tuple[str, ...]) -> None:
    assert nodes.expand(hostlist) == names


@pytest.mark.parametrize("hostlist", ["gpu[1-", "gpu[x]", "gpu[]", "a b", "gpu[1-2-3]"])
def test_what_is_no_list_of_nodes_is_refused(hostlist: str) -> None:
    with pytest.raises(ValueError, match="a list of nodes"):
        nodes.expand(hostlist)


def test_the_commands_see_hidden_things_too_in_one_line_each() -> None:
    for command in (nodes.nodes_command(), nodes.partitions_command(), nodes.reservations_command()):
        assert {"--oneliner", "--all", "show"} < set(command)
    assert "--details" in nodes.nodes_command()
