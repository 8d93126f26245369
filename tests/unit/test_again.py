"""For how long a password that was given counts, and for whom."""

from __future__ import annotations

from portal.guard.again import FOR_TOKENS_S, REMEMBERED, Checks


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
        checks.note(str(number), "alice")

    assert not checks.is_fresh("0", "alice", FOR_TOKENS_S)
    assert checks.is_fresh(str(REMEMBERED), "alice", FOR_TOKENS_S)
