"""Who a request comes from: what proxies in front say counts as far as they are believed."""

from __future__ import annotations

import pytest

from portal.addresses import client_of, counted, networks

TRUSTED = networks(["192.0.2.0/24", "2001:db8::/32"])


@pytest.mark.parametrize(
    ("forwarded", "client"),
    [
        ("", "127.0.0.1"),
        ("198.51.100.7", "198.51.100.7"),
        ("::ffff:198.51.100.7", "198.51.100.7"),
        ("203.0.113.9, 198.51.100.7", "198.51.100.7"),  # the left one is the client's own word
        ("198.51.100.7, 192.0.2.1", "198.51.100.7"),
        ("203.0.113.9, 198.51.100.7, 192.0.2.1, 192.0.2.200", "198.51.100.7"),
        ("198.51.100.7, 2001:db8::5", "198.51.100.7"),
        ("192.0.2.1", "192.0.2.1"),
        ("nonsense, 192.0.2.1", "192.0.2.1"),
        ("nonsense", "127.0.0.1"),
        ("::ffff:198.51.100.7", "198.51.100.7"),
        ("203.0.113.9, 198.51.100.7:40001", "198.51.100.7"),  # as some load balancers write it
        ("203.0.113.9, [2001:db9::7]:40001, 192.0.2.1:80", "2001:db9::7"),
        ("203.0.113.9, [2001:db9::7]", "2001:db9::7"),
        ("203.0.113.9, unknown, 192.0.2.1", "192.0.2.1"),
        ("203.0.113.9, [198.51.100.7, 192.0.2.1", "192.0.2.1"),
        ("203.0.113.9, 198.51.100.7:http", "127.0.0.1"),
        ("203.0.113.9, ", "127.0.0.1"),
    ],
)
def test_the_client_is_the_last_one_that_no_believed_proxy_is(forwarded: str, client: str) -> None:
    assert client_of("127.0.0.1", forwarded, TRUSTED) == client


@pytest.mark.parametrize(
    ("address", "as_"),
    [
        ("198.51.100.7", "198.51.100.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("no address", "no address"),
    ],
)
def test_an_address_counts_as_one_however_it_is_written_and_of_ipv6_so_do_64_bits(address: str, as_: str) -> None:
    assert counted(address) == as_
