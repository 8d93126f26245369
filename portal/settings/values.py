"""The kinds of values in a settings file: what each allows, in the words of its fault."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from portal.addresses import networks


def _absolute(value: str) -> str:
    if not PurePosixPath(value).is_absolute():
        raise ValueError("an absolute path")
    return value


def _absolute_or_empty(value: str) -> str:
    if value and not PurePosixPath(value).is_absolute():
        raise ValueError("an absolute path, or ''")
    return value


def _name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", value):
        raise ValueError("a name of letters, digits, '.', '_' and '-', starting with a letter or digit")
    return value


def _server(value: str) -> str:
    found = re.fullmatch(r"ldaps?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\])(?::(\d{1,5}))?", value)
    if not found or int(found.group(1) or 1) not in range(1, 65536):
        raise ValueError("an address such as ldap://ldap1.example.org:389 or ldaps://ldap1.example.org")
    return value


def _network(value: str) -> str:
    try:
        networks([value])
    except ValueError:
        raise ValueError("an address such as 192.0.2.7, or a network such as 192.0.2.0/24 or 2001:db8::/64") from None
    return value


def _user_dn(value: str) -> str:
    if "{username}" not in value:
        raise ValueError("a DN with {username} in it")
    return value


def _group(value: str) -> str:
    if not re.fullmatch(r"[^\x00-\x1f\x7f]{1,128}", value):
        raise ValueError("a group's name, without control characters")
    return value


def _domain(value: str) -> str:
    found = re.fullmatch(r"(?:https?://)?([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)(?::(\d{1,5}))?", value)
    is_address = found and re.fullmatch(r"[0-9.]+", found[1])  # nothing can stand before the digits of an IP address
    if value and (not found or is_address or int(found[2] or 1) not in range(1, 65536)):
        raise ValueError(
            "a name such as portal.example.org, with scheme (https://…) and port (…:8443) where they are needed, or ''"
        )
    return value


def _url_path(value: str) -> str:
    if not re.fullmatch(r"/(?:[A-Za-z0-9._~-]+/)*", value) or re.search(r"/\.\.?/", value):
        raise ValueError(
            "a path that begins and ends with /, of letters, digits, '.', '_', '~' and '-', such as /jupyter/"
        )
    return value


def _database(value: str) -> str:
    form = r"postgresql://[A-Za-z0-9._-]+@(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\])(?::\d{1,5})?/[A-Za-z0-9._-]+"
    if value and not re.fullmatch(form, value):
        raise ValueError(
            "postgresql://ACCOUNT@HOST:PORT/NAME, without a password (that is in database_password_file), or ''"
        )
    return value


AbsolutePath = Annotated[str, AfterValidator(_absolute)]
OptionalPath = Annotated[str, AfterValidator(_absolute_or_empty)]
Name = Annotated[str, AfterValidator(_name)]
Group = Annotated[str, AfterValidator(_group)]
UserDn = Annotated[str, AfterValidator(_user_dn)]
NetworkText = Annotated[str, AfterValidator(_network)]
Server = Annotated[str, AfterValidator(_server)]
Domain = Annotated[str, AfterValidator(_domain)]
DatabaseUrl = Annotated[str, AfterValidator(_database)]
UrlPath = Annotated[str, AfterValidator(_url_path)]
Port = Annotated[int, Field(ge=1, le=65535)]
Hours = Annotated[int, Field(ge=1, le=8760)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]


class Table(BaseModel):
    """One table of the settings file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)
