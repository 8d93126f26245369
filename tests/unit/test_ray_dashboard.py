"""Whether the way to Ray's dashboard leads to its person's own process: nobody else's ports are in that way."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import ModuleType

import pytest

from tests.lessons import module_of

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"
OURS = os.geteuid()
THEIRS = OURS + 1
PORT = 8265
AT_10_0_0_5 = "0500000A"
EVERYWHERE = "00000000"
EVERYWHERE_6 = "0" * 32
EVERYWHERE_MAPPED = "0000000000000000FFFF000000000000"
MAPPED = f"0000000000000000FFFF0000{AT_10_0_0_5}"


@pytest.fixture(scope="module")
def dashboard() -> Iterator[ModuleType]:
    """The module of the lesson's folder."""
    with module_of("ray/private_dashboard.py") as module:
        yield module


def listener(address: str, uid: int, port: int = PORT, state: str = "0A") -> str:
    """A line of /proc/net/tcp: proc_net_tcp(5)."""
    return f"   0: {address}:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 {uid} 0 77"


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([listener(AT_10_0_0_5, OURS)], True),
        ([listener(AT_10_0_0_5, OURS), listener("0100007F", THEIRS)], True),  # of another address of the node
        ([listener(AT_10_0_0_5, OURS), listener(EVERYWHERE_6, THEIRS)], True),  # the nearest one is asked
        ([listener(AT_10_0_0_5, OURS), listener(AT_10_0_0_5, THEIRS, port=PORT + 1)], True),
        ([listener(AT_10_0_0_5, OURS), listener(AT_10_0_0_5, THEIRS, state="01")], True),  # who is connected to it
        ([listener(EVERYWHERE, OURS)], True),
        ([listener(MAPPED, OURS)], True),
        ([], False),
        ([listener("0100007F", OURS)], False),
        ([listener(AT_10_0_0_5, THEIRS)], False),
        ([listener(AT_10_0_0_5, OURS), listener(AT_10_0_0_5, THEIRS)], False),
        ([listener(AT_10_0_0_5, OURS), listener(MAPPED, THEIRS)], False),
        ([listener(EVERYWHERE, OURS), listener(AT_10_0_0_5, THEIRS)], False),
        ([listener(EVERYWHERE, OURS), listener(EVERYWHERE_6, THEIRS)], False),
        ([listener(EVERYWHERE_6, OURS), listener(EVERYWHERE_MAPPED, THEIRS)], False),  # ours: of IPv6 alone
        ([listener(EVERYWHERE_MAPPED, OURS)], True),
    ],
)
def test_the_token_goes_where_its_person_alone_listens_and_a_neighbour_cannot_keep_it_from_there(
    dashboard: ModuleType, lines: list[str], found: bool
) -> None:
    assert dashboard.leads_to_us(f"10.0.0.5:{PORT}", [HEAD, *lines]) is found


@pytest.mark.parametrize("host", ["node001", "node001.cluster.example", "", "10.0.0.5.6"])
def test_a_name_is_asked_nothing_and_sent_no_token(dashboard: ModuleType, host: str) -> None:
    assert dashboard.leads_to_us(f"{host}:{PORT}", [HEAD, listener(EVERYWHERE, OURS)]) is False


def test_an_address_of_ipv6_may_stand_in_brackets(dashboard: ModuleType) -> None:
    assert dashboard.leads_to_us(f"[::1]:{PORT}", [HEAD, listener(EVERYWHERE_6, OURS)]) is True
