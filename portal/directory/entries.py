"""What the entry of a person tells: whether the account is locked, and when its password was set. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from portal.directory.searches import Attributes, texts

# Asked for by name, because most of them are operational; a directory that has none of them says nothing.
ENDS = ["pwdEndTime", "krbPrincipalExpiration"]  # slapo-ppolicy(5); FreeIPA and Kerberos
START = "pwdStartTime"
LOCKS = ["pwdAccountLockedTime", "nsAccountLock", "userAccountControl", "accountExpires", "shadowExpire", *ENDS, START]
PASSWORDS = ["pwdChangedTime", "pwdLastSet", "krbLastPwdChange", "pwdUpdateTime", "shadowLastChange"]
# slapo-ppolicy(5): 000001010000Z, or another spelling of it; other times are locks after wrong passwords.
_YEAR_OF_ADMINISTRATORS = "0000"
_ACCOUNT_DISABLED = 2  # Active Directory's userAccountControl, ADS_UF_ACCOUNTDISABLE
_NEVER = 0x7FFFFFFFFFFFFFFF  # accountExpires; so is 0
_OF_WINDOWS = datetime(1601, 1, 1, tzinfo=UTC)  # accountExpires counts 100 ns from there
_OF_UNIX = datetime(1970, 1, 1, tzinfo=UTC)
# RFC 4517 §3.3.13, to the minute at least
_TIME = re.compile(r"([0-9]{12})([0-9]{2})?(?:[.,][0-9]+)?(?:Z|([+-][0-9]{2})([0-9]{2})?)")


def locked(attributes: Attributes, now: datetime) -> str:
    """Why an account may not be used, in the administrator's words; ``""`` when it may.

    A lock after too many wrong passwords is none: anybody could end somebody's session with it. Neither is a login
    shell such as nologin: a site may have people who use the portal alone.
    """
    if any(value.startswith(_YEAR_OF_ADMINISTRATORS) for value in texts(attributes, "pwdaccountlockedtime")):
        return "locked (pwdAccountLockedTime)"
    if any(value.lower() == "true" for value in texts(attributes, "nsaccountlock")):
        return "locked (nsAccountLock)"
    if _number(attributes, "useraccountcontrol", 0) & _ACCOUNT_DISABLED:
        return "disabled (userAccountControl)"
    expires = _number(attributes, "accountexpires", 0)
    if 0 < expires < _NEVER and expires <= (now - _OF_WINDOWS) // timedelta(microseconds=1) * 10:
        return "expired (accountExpires)"
    if 0 <= _number(attributes, "shadowexpire", -1) <= (now - _OF_UNIX).days:
        return "expired (shadowExpire)"
    for name in ENDS:
        if any(_OF_UNIX < end <= now for end in _moments(attributes, name.lower())):  # Kerberos: 1970 is never
            return f"expired ({name})"
    return f"not open yet ({START})" if any(begin > now for begin in _moments(attributes, START.lower())) else ""


def is_hidden(attributes: Attributes) -> bool:
    """Whether an entry of Active Directory, which has a SID, does not show what every account there has."""
    return bool(attributes.get("objectsid")) and not attributes.get("useraccountcontrol")


def password_set(attributes: Attributes) -> str:
    """When the password was set: a later time is a later text. ``""`` when the directory does not tell.

    Some directories let people write ``shadowLastChange`` themselves: more digits than a time has are none.
    """
    for name in PASSWORDS:
        for value in texts(attributes, name.lower()):
            if digits := re.match(r"[0-9]{1,20}(?![0-9])", value):
                return f"{name} {digits[0]:0>20}"
    return ""


def is_later(now: str, before: str) -> bool:
    """Whether a password was set anew between two looks. Another server may be late: an earlier time is no change.

    Zero is no time, it says "to be changed": Active Directory writes it into ``pwdLastSet`` when an administrator
    resets a password, unless told otherwise, and shadow(5) has it for ``shadowLastChange``.
    """
    if not (now and before) or now.split()[0] != before.split()[0]:
        return False
    return now > before or (now != before and not now.split()[1].strip("0"))


def _moments(attributes: Attributes, name: str) -> list[datetime]:
    """The times of an attribute; what is none does not count."""
    return [found for value in texts(attributes, name) if (found := _moment(value))]


def _moment(value: str) -> datetime | None:
    if not (found := _TIME.fullmatch(value)):
        return None
    minute, second, hours, minutes = found.groups()
    zone = f"{hours}{minutes or '00'}" if hours else "+0000"
    try:
        return datetime.strptime(f"{minute}{second or '00'}{zone}", "%Y%m%d%H%M%S%z")
    except ValueError:
        return None


def _number(attributes: Attributes, name: str, default: int) -> int:
    """A number of an entry; what is none does not count."""
    for value in texts(attributes, name):
        if re.fullmatch(r"-?[0-9]{1,20}", value.strip()):
            return int(value)
    return default
