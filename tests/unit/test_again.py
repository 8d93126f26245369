"""For how long a password that was given counts, and for whom."""

from __future__ import annotations

from portal.administration.again import FOR_TOKENS_S, REMEMBERED, REMEMBERED_EACH, Checks


def test_a_password_counts_for_its_browser_its_person_and_some_minutes() -> None:
    now = [0.0]
    checks = Checks(lambda: now[0])
    checks.note("a", "alice")

    assert checks.is_fresh("a", "alice", FOR_TOKENS_S)
    assert not checks.is_fresh("b", "alice", FOR_TOKENS_S)
    assert not checks.is_fresh("a", "bob", FOR_TOKENS_S)
    now[0] = FOR_TOKENS_S
    assert not checks.is_fresh("a", "alice", FOR_TOKENS_S)


def test_who_has_no_session_has_given_no_password() -> None:
    checks = Checks()
    checks.note("", "alice")

    assert not checks.is_fresh("", "alice", FOR_TOKENS_S)


def test_the_longest_ago_is_forgotten_first() -> None:
    checks = Checks(lambda: 0.0)
    for number in range(REMEMBERED + 1):
        checks.note("a", str(number))

    assert not checks.is_fresh("a", "0", FOR_TOKENS_S)
    assert checks.is_fresh("a", str(REMEMBERED), FOR_TOKENS_S)


def test_ones_own_browsers_alone_push_out_ones_own() -> None:
    checks = Checks(lambda: 0.0)
    checks.note("a", "alice")
    for number in range(REMEMBERED):
        checks.note(str(number), "bob")

    assert checks.is_fresh("a", "alice", FOR_TOKENS_S)
    assert not checks.is_fresh(str(REMEMBERED - REMEMBERED_EACH - 1), "bob", FOR_TOKENS_S)
    assert checks.is_fresh(str(REMEMBERED - REMEMBERED_EACH), "bob", FOR_TOKENS_S)
