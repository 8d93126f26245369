"""The password of the account that is asked who may use the portal still."""

from __future__ import annotations

from portal.settings import secret

KEY = "ldap.bind_password_file"


def read_secret(path: str) -> str:
    """The one line of a file of this account alone.

    Raises:
        SiteError: as :func:`portal.settings.secret.read_secret`.
    """
    return secret.read_secret(path, KEY)
