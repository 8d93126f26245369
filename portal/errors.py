"""The errors of the portal.

::

    PortalError                 message for the person, reason for the metric, detail for the log
    ├── SiteError               the settings file has faults (all of them, in one error)
    ├── RequestError            what a person asked for is not allowed: field, given, allowed
    ├── SlurmError
    │   ├── SlurmUnavailable    Slurm did not answer, or answered nonsense: nothing is known
    │   │   ├── AccountGone     the person has no account on the hub's host
    │   │   └── ActingRefused   sudo does not let the hub act as the person
    │   └── SubmitRefused       sbatch said no; Slurm's own answer is in the message
    ├── SessionEnded            the job of a session is over before its server answered
    ├── DirectoryError
    │   ├── LoginRefused        wrong name or password (one message for both)
    │   ├── NotAllowed          right password, but this person may not use the portal
    │   └── DirectoryUnavailable  no LDAP server answered in time
    └── KernelError             a module environment cannot be loaded or has no kernel
"""

from __future__ import annotations

from collections.abc import Sequence

from portal.language.texts import _


def printable(text: str) -> str:
    """A text for a terminal: what others chose, such as the name of a file, may hold letters that steer it."""
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "?" for letter in text)


class PortalError(Exception):
    """An error with three readers: ``message`` for people, ``reason`` for metrics, ``detail`` for the log."""

    reason = "error"

    def __init__(self, message: str, *, detail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail or message


class SiteError(PortalError):
    """The settings file has faults; ``faults`` holds one sentence for each."""

    reason = "site"

    def __init__(self, source: str, faults: Sequence[str]) -> None:
        count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        super().__init__("\n".join([f"{source}: {count}", *(f"  {fault}" for fault in faults)]))
        self.faults = tuple(faults)


class RequestError(PortalError):
    """A choice that is not allowed: names the field, the value given and the values allowed."""

    reason = "request"

    def __init__(self, field: str, given: object, allowed: str) -> None:
        shown = repr(given)
        if len(shown) > 80:
            shown = f"{shown[:77]}…"
        words = _("{field}: {given} is not possible here. Allowed: {allowed}.")
        super().__init__(words.format(field=field, given=shown, allowed=allowed))
        self.field = field
        self.given = given
        self.allowed = allowed


class SlurmError(PortalError):
    """Slurm did not do what the portal asked of it."""

    reason = "slurm"


class SlurmUnavailable(SlurmError):
    """Slurm did not answer, or its answer cannot be read. Nothing is known about any job."""

    reason = "slurm_unavailable"


class AccountGone(SlurmUnavailable):
    """The person has no account on this host, or none any more, so nothing can be done as that person."""

    reason = "account_gone"
    why = "the account {} is gone"


class ActingRefused(SlurmUnavailable):
    """sudo does not let the hub act as the person: nothing was begun, and trying again changes nothing."""

    reason = "acting_refused"
    why = "sudo does not let the hub act as {}"


class SubmitRefused(SlurmError):
    """``sbatch`` refused the job; Slurm's own answer is in the message."""

    reason = "submit_refused"


class SessionEnded(PortalError):
    """The job of a session ended before its server answered; ``log`` holds the last lines of its log."""

    reason = "session_ended"

    def __init__(self, message: str, *, detail: str = "", log: str = "") -> None:
        super().__init__(message, detail=detail)
        self.log = log


class DirectoryError(PortalError):
    """A login did not succeed."""

    reason = "directory"


class LoginRefused(DirectoryError):
    """Wrong user name or wrong password; the message does not say which.

    Attributes:
        is_somebody: whether the directory has this name, as far as it says so; for the log alone.
    """

    reason = "login_refused"

    def __init__(self, message: str, *, detail: str = "", is_somebody: bool = False) -> None:
        super().__init__(message, detail=detail)
        self.is_somebody = is_somebody


class NotAllowed(DirectoryError):
    """The password is right, but this person may not use the portal."""

    reason = "not_allowed"


class DirectoryUnavailable(DirectoryError):
    """No LDAP server answered in time, or none could be trusted."""

    reason = "directory_unavailable"


class KernelError(PortalError):
    """A kernel's environment cannot be loaded."""

    reason = "kernel"
