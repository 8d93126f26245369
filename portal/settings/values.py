"""The kinds of values in a settings file: what each allows, in the words of its fault."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator

from portal.addresses import networks
from portal.settings import free_options


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


_SLURM_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_FORMS = {  # what Slurm's names look like: sbatch(1)
    "name": (re.compile(_SLURM_NAME), "a name of letters, digits, '.', '_' and '-'"),
    "kind": (re.compile(r".*"), "the name of a [[gpu]]"),
    "constraint": (re.compile(r"[A-Za-z0-9(\[][A-Za-z0-9._&|*:()\[\],-]{0,199}"), "features such as 'a100&nvlink'"),
    "licenses": (
        re.compile(rf"{_SLURM_NAME}(@{_SLURM_NAME})?(:\d{{1,6}})?(,{_SLURM_NAME}(@{_SLURM_NAME})?(:\d{{1,6}})?)*"),
        "licences such as 'matlab:1'",
    ),
}


def _choices(form: str, others: frozenset[str] = frozenset()) -> PlainValidator:
    """One text, or a list of texts to choose from; each as ``form`` says, or in a list one of ``others``."""
    pattern, words = _FORMS[form]
    more = "".join(f", or '{other}'" for other in sorted(others))
    allowed = f"{words} (fixed), or a list of them to choose from, each once, the default first{more}"

    def check(value: object) -> object:
        several = value if isinstance(value, tuple) else (value,)
        also = others if isinstance(value, tuple) else {""}
        is_known = all(isinstance(one, str) and (one in also or pattern.fullmatch(one)) for one in several)
        if not is_known or len(set(several)) != len(several):
            raise ValueError(allowed)
        return value

    return PlainValidator(check)


def _comment(value: str) -> str:
    if not re.fullmatch(r"[ -~]{0,200}", value):
        raise ValueError("printable ASCII, at most 200 characters")
    return value


def _option(value: str) -> str:
    if fault := free_options.fault(value):
        raise ValueError(fault)
    return value


AbsolutePath = Annotated[str, AfterValidator(_absolute)]
OptionalPath = Annotated[str, AfterValidator(_absolute_or_empty)]
Name = Annotated[str, AfterValidator(_name)]
Group = Annotated[str, AfterValidator(_group)]
UserDn = Annotated[str, AfterValidator(_user_dn)]
NetworkText = Annotated[str, AfterValidator(_network)]
Server = Annotated[str, AfterValidator(_server)]
Domain = Annotated[str, AfterValidator(_domain)]
Texts = str | tuple[str, ...]  # one that is fixed, or several to choose from
Kinds = Annotated[Texts, _choices("kind")]
Accounts = Annotated[Texts, _choices("name", frozenset({"*"}))]
Reservations = Annotated[Texts, _choices("name", frozenset({""}))]
Constraints = Annotated[Texts, _choices("constraint", frozenset({""}))]
Licenses = Annotated[Texts, _choices("licenses", frozenset({""}))]
Comment = Annotated[str, AfterValidator(_comment)]
FreeOption = Annotated[str, AfterValidator(_option)]
Port = Annotated[int, Field(ge=1, le=65535)]
Hours = Annotated[int, Field(ge=1, le=8760)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]


class Table(BaseModel):
    """One table of the settings file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)
