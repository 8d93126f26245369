"""What the answers of servers to a bind mean: told only what they say after the right password."""

from __future__ import annotations

from typing import Any

import pytest

from portal.directory.verdicts import (
    ACCOUNT_EXPIRED,
    DISABLED,
    EXPIRED,
    MUST_CHANGE,
    NOT_FROM_HERE,
    NOT_NOW,
    POLICY_CONTROL,
    policy_error,
    verdict,
)

# The values of OpenLDAP 2.5's response control, and one with a warning before the error.
CHANGE_AFTER_RESET, PASSWORD_EXPIRED, LOCKED = b"\x30\x03\x81\x01\x02", b"\x30\x03\x81\x01\x00", b"\x30\x03\x81\x01\x01"
WITH_WARNING = b"\x30\x08\xa0\x03\x81\x01\x05\x81\x01\x02"
GRACE = b"\x30\x05\xa0\x03\x81\x01\x05"


def answer(code: int, message: str = "", controls: dict[str, bytes] | None = None) -> dict[str, Any]:
    """A result as ldap3 gives it."""
    given = {oid: {"value": value} for oid, value in (controls or {}).items()}
    return {"result": code, "description": "whatever", "message": message, "controls": given}


def of_windows(data: str) -> str:
    """Active Directory's words."""
    return f"80090308: LdapErr: DSID-0C09044E, comment: AcceptSecurityContext error, data {data}, v2580\x00"


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (CHANGE_AFTER_RESET, 2),
        (WITH_WARNING, 2),
        (PASSWORD_EXPIRED, 0),
        *(
            (value, None)
            for value in (GRACE, b"\x30\x00", b"", b"\x30\x80", b"\x30\x7f\x81", b"\x81\x01\x02", b"\x30\x02\x81\x00")
        ),
    ],
)
def test_the_error_of_a_password_policy_is_read_and_nonsense_is_none(value: bytes, error: int | None) -> None:
    assert policy_error(value) == error


@pytest.mark.parametrize("value", [CHANGE_AFTER_RESET, WITH_WARNING])
def test_a_password_that_was_reset_is_right_and_does_not_log_in(value: bytes) -> None:
    found = verdict(answer(0, controls={POLICY_CONTROL: value}))

    assert (found.is_right, found.trouble) == (False, MUST_CHANGE)


def test_the_older_control_of_389_says_the_same() -> None:
    old = {"2.16.840.1.113730.3.4.4": b"0"}

    assert verdict(answer(0, controls=old)).trouble == MUST_CHANGE
    assert verdict(answer(49, controls=old)).trouble == ""


def test_a_password_that_may_be_used_a_few_times_more_logs_in() -> None:
    assert verdict(answer(0, controls={POLICY_CONTROL: GRACE})).is_right


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (b"0\x84\0\0\0\3\x81\1\0", 0),  # recorded from 389 Directory Server 2.3.1: "password expired!"
        (b"0\x84\0\0\0\x0c\xa0\x84\0\0\0\3\x81\1\5\x81\1\2", 2),  # with a warning before it
        (b"0\x81\3\x81\1\2", 2),
        (b"0\x84\0\0\0", None),
        (b"0\x84\0\0\0\x7f\x81\1\0", None),  # cut off
        (b"0\x80\x81\1\0", None),  # without a length, which LDAP forbids
        (b"0\xff\x81\1\0", None),
    ],
)
def test_lengths_in_their_long_form_are_read_as_389_writes_them(value: bytes, error: int | None) -> None:
    assert policy_error(value) == error


def test_the_expired_password_of_389_is_said_to_be_so() -> None:
    controls = {POLICY_CONTROL: b"0\x84\0\0\0\3\x81\1\0", "2.16.840.1.113730.3.4.4": b"0"}

    assert verdict(answer(49, "password expired!", controls)).trouble == EXPIRED


def test_an_expired_password_is_said_to_be_so_and_a_locked_account_is_not() -> None:
    assert verdict(answer(49, controls={POLICY_CONTROL: PASSWORD_EXPIRED})).trouble == EXPIRED
    assert verdict(answer(49, controls={POLICY_CONTROL: LOCKED})).trouble == ""
    assert verdict(answer(49, controls={POLICY_CONTROL: CHANGE_AFTER_RESET})).trouble == ""


@pytest.mark.parametrize(
    ("data", "trouble"),
    [("532", EXPIRED), ("533", DISABLED), ("701", ACCOUNT_EXPIRED), ("773", MUST_CHANGE)]
    + [("530", NOT_NOW), ("531", NOT_FROM_HERE)]
    + [(data, "") for data in ("52e", "525", "775", "")],
)
def test_of_active_directorys_sub_codes_those_after_a_right_password_are_told(data: str, trouble: str) -> None:
    found = verdict(answer(49, of_windows(data)))

    assert (found.is_right, found.is_refusal, found.trouble) == (False, True, trouble)


@pytest.mark.parametrize(
    "message", ["data 532, v2580", f"cn={of_windows('532')}", "AcceptSecurityContext error, data 532,"]
)
def test_words_that_only_look_like_active_directorys_say_nothing(message: str) -> None:
    assert verdict(answer(49, message)).trouble == ""
    assert verdict(answer(53, of_windows("532"))).trouble == ""
