"""What a server's answer to a bind means: right, refused, or right and not enough. Pure.

A locked, expired or disabled account is told only where the server says it after the right password; before it, it
would tell a stranger who exists. So these are not told, and look like a wrong password: ``accountLocked`` of slapd and
389-ds, which they answer without looking at the password, and Active Directory's sub-code 775 (locked out).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from portal.language.texts import N_

SUCCESS = 0  # RFC 4511 §4.1.9
_INVALID_CREDENTIALS = 49
# Result codes with which servers refuse one person; 19 and 53 are locked accounts of 389-ds.
REFUSALS = {19, 32, 48, _INVALID_CREDENTIALS, 50, 53}
# draft-behera-ldap-password-policy-10 §6.2: asked for with a bind, answered with it.
POLICY_CONTROL = "1.3.6.1.4.1.42.2.27.8.5.1"
# draft-vchu-ldap-pwd-policy-00: 389-ds lets a password that must be changed in, and says so by this.
_EXPIRED_CONTROL = "2.16.840.1.113730.3.4.4"
_EXPIRED = 0  # PasswordPolicyResponseValue.error
_CHANGE_AFTER_RESET = 2

MUST_CHANGE = N_("it must be changed before you can log in: change it as your site says, and log in again")
EXPIRED = N_("it has expired: change it as your site says, and log in again")
DISABLED = N_("your account is disabled: ask your administrator")
ACCOUNT_EXPIRED = N_("your account has expired: ask your administrator")
NOT_NOW = N_("your account may not log in at this hour: ask your administrator")
NOT_FROM_HERE = N_("your account may log in at certain computers only: ask your administrator")
# The end of Active Directory's words, as Windows' error in hexadecimal digits. Of these it gives all after the right
# password alone (seen on Samba 4.17); 775 (locked out), 525 (no such person) and 52e (wrong password) are others.
_OF_WINDOWS = {
    "530": NOT_NOW,
    "531": NOT_FROM_HERE,
    "532": EXPIRED,
    "533": DISABLED,
    "701": ACCOUNT_EXPIRED,
    "773": MUST_CHANGE,
}
_WORDS_OF_WINDOWS = re.compile(
    r"[0-9A-F]{8}: LdapErr: DSID-[0-9A-F]+, comment: AcceptSecurityContext error, data (\w+),"
)


@dataclass(frozen=True)
class Verdict:
    """A server's answer to a bind.

    Attributes:
        code: the result code.
        answer: the server's words, for the log.
        trouble: why a password that is right is not enough, for the person; ``""`` = there is nothing to say.
    """

    code: int
    answer: str
    trouble: str = ""

    @property
    def is_right(self) -> bool:
        """Whether the login is done, and nothing is in its way."""
        return self.code == SUCCESS and not self.trouble

    @property
    def detail(self) -> str:
        """The server's words, and what is the matter with the password, for the log."""
        return (
            f"{self.answer}; the password is right, but {self.trouble.partition(':')[0]}"
            if self.trouble
            else self.answer
        )

    @property
    def is_refusal(self) -> bool:
        """Whether it is an answer about the person; others are about the server."""
        return self.code in REFUSALS


def verdict(result: Mapping[str, Any]) -> Verdict:
    """What ldap3's result of a bind means."""
    code = int(result["result"])
    message = result.get("message") or ""
    answer = " ".join(f"{result['description']} {message}".split())[:200]
    return Verdict(code, answer, _trouble(code, message, result.get("controls") or {}))


def _trouble(code: int, message: str, controls: Mapping[str, Mapping[str, Any]]) -> str:
    error = policy_error((controls.get(POLICY_CONTROL) or {}).get("value") or b"")
    if code == SUCCESS and (error == _CHANGE_AFTER_RESET or _EXPIRED_CONTROL in controls):
        return MUST_CHANGE
    if code in (SUCCESS, _INVALID_CREDENTIALS) and error == _EXPIRED:
        return EXPIRED
    found = _WORDS_OF_WINDOWS.match(message) if code == _INVALID_CREDENTIALS else None
    return _OF_WINDOWS.get(found[1].lower(), "") if found else ""


def policy_error(value: bytes) -> int | None:
    """The error in the value of a password policy's response control; ``None``: there is none.

    ``SEQUENCE { warning [0] CHOICE {…} OPTIONAL, error [1] ENUMERATED OPTIONAL }``, in BER.
    """
    for tag, inner in _elements(value):
        if tag == 0x30:
            return next((part[0] for kind, part in _elements(inner) if kind == 0x81 and part), None)
    return None


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and value of each element; what is cut off ends it. 389-ds writes even short lengths in the long form."""
    while len(data) >= 2:
        digits = data[1] - 0x80 if data[1] >= 0x80 else 0
        start = 2 + digits
        size = int.from_bytes(data[2:start], "big") if digits else data[1]
        if data[1] == 0x80 or len(data) < start + size:
            return
        yield data[0], data[start : start + size]
        data = data[start + size :]
