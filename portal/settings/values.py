"""The kinds of values in a settings file: what each allows, in the words of its fault."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator

from portal.addresses import networks
from portal.settings import free_options
from portal.settings.groups import LONGEST, is_dn

OF_THE_PORTAL = ("JUPYTERHUB_", "DSPORTAL_", "JPY_", "CONFIGPROXY_", "JUPYTER_TOKEN")


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


def _optional_name(value: str) -> str:
    if value and not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]{0,63}", value):
        raise ValueError("the name of an attribute, such as 'uid', or ''")
    return value


def _user_dn(value: str) -> str:
    if value and "{username}" not in value:
        raise ValueError("a DN with {username} in it")
    return value


def _user_base(value: str) -> str:
    if not is_dn(f"{value},dc=x") or "{" in value:
        raise ValueError("the DN of a folder, such as 'ou=people,dc=example,dc=org'")
    return value


def _user_filter(value: str) -> str:
    if not re.fullmatch(r"\(.+\)", value) or value.count("(") != value.count(")"):
        raise ValueError("an LDAP filter in ( )")
    if "{username}" not in value and "{login}" not in value:
        raise ValueError("an LDAP filter with {username} in it, or {login}")
    return value


def _login_domain(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,253}", value):
        raise ValueError("a domain such as 'corp.example' (alice@corp.example) or 'CORP' (CORP\\alice)")
    return value


def _group(value: str) -> str:
    if not re.fullmatch(r"[^\x00-\x1f\x7f]+", value) or len(value) > LONGEST:
        raise ValueError(f"a group's name or its DN, of up to {LONGEST} characters, without control characters")
    return value


def _image(value: str) -> str:
    if value and not (PurePosixPath(value).is_absolute() or re.fullmatch(r"[a-z][a-z0-9+.-]*://[^\s]+", value)):
        raise ValueError("the absolute path of an image, or an address such as docker://tensorflow/tensorflow, or ''")
    return value


def _badge(value: str) -> str:
    if value and not re.fullmatch(r"[A-Za-z0-9.+ -]{1,6}", value):
        raise ValueError("1 to 6 letters, digits, '.', '+', '-' and spaces, or ''")
    return value


def _private_folder(value: str) -> str:
    parts = value.split("/")
    form = r"(/[A-Za-z0-9._-]+|/\{(?:user|uid)\})+"  # as portal.homes.private_folder has it; a test holds them together
    is_own = {"{user}", "{uid}"} & set(parts) and not {".", ".."} & set(parts)
    if value and not (re.fullmatch(form, value, re.ASCII) and is_own):
        raise ValueError(
            "an absolute path in which one whole part is {user} or {uid}, such as '/scratch/{user}/.dsportal', or ''"
        )
    return value


def _persons_folder(value: str) -> str:
    in_home = re.fullmatch(r"~(/[A-Za-z0-9._-]+)+", value, re.ASCII) and not {".", ".."} & set(value.split("/"))
    if in_home:
        return value
    try:
        return _private_folder(value or "/")
    except ValueError:
        raise ValueError(
            "a path below the home, such as '~/environments', or an absolute path in which one whole part is {user} "
            "or {uid}, such as '/scratch/{user}/environments'"
        ) from None


def _domain(value: str) -> str:
    found = re.fullmatch(r"(?:https?://)?([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)(?::(\d{1,5}))?", value)
    is_address = found and re.fullmatch(r"[0-9.]+", found[1])  # nothing can stand before the digits of an IP address
    if value and (not found or is_address or int(found[2] or 1) not in range(1, 65536)):
        raise ValueError(
            "a name such as portal.example.org, with scheme (https://…) and port (…:8443) where they are needed, or ''"
        )
    return value


def _variables(value: dict[str, str]) -> dict[str, str]:
    for name, text in value.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name.startswith(OF_THE_PORTAL):
            raise ValueError(f"names of variables, none that begins with {', '.join(OF_THE_PORTAL)}")
        if not re.fullmatch(r"[^\x00-\x1f\x7f]*", text):
            raise ValueError("values in one line, without control characters")
    return value


def _url_path(value: str) -> str:
    if not re.fullmatch(r"/(?:[A-Za-z0-9._~-]+/)*", value) or re.search(r"/\.\.?/", value):
        raise ValueError(
            "a path that begins and ends with /, of letters, digits, '.', '_', '~' and '-', such as /jupyter/"
        )
    return value


_SLURM_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_MAIL_TYPE = r"(ALL|BEGIN|END|FAIL|REQUEUE|TIME_LIMIT(_(50|80|90))?)"
_FORMS = {  # what Slurm's names look like: sbatch(1)
    "name": (re.compile(_SLURM_NAME), "a name of letters, digits, '.', '_' and '-'"),
    "kind": (re.compile(r".*"), "the name of a [[gpu]]"),
    "constraint": (re.compile(r"[A-Za-z0-9(\[][A-Za-z0-9._&|*:()\[\],-]{0,199}"), "features such as 'a100&nvlink'"),
    "licenses": (
        re.compile(rf"{_SLURM_NAME}(@{_SLURM_NAME})?(:\d{{1,6}})?(,{_SLURM_NAME}(@{_SLURM_NAME})?(:\d{{1,6}})?)*"),
        "licences such as 'matlab:1'",
    ),
    "mail_type": (re.compile(rf"{_MAIL_TYPE}(,{_MAIL_TYPE}){{0,5}}"), "sbatch's --mail-type, such as 'BEGIN,END'"),
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


def _database(value: str) -> str:
    form = (
        r"(?:postgresql|mariadb)://[A-Za-z0-9._-]+@(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\])(?::\d{1,5})?/[A-Za-z0-9._-]+"
    )
    if value and not re.fullmatch(form, value):
        raise ValueError(
            "postgresql://ACCOUNT@HOST:PORT/NAME or mariadb://ACCOUNT@HOST:PORT/NAME, without a password (that is in "
            "database_password_file), or ''"
        )
    return value


AbsolutePath = Annotated[str, AfterValidator(_absolute)]
OptionalPath = Annotated[str, AfterValidator(_absolute_or_empty)]
Name = Annotated[str, AfterValidator(_name)]
OptionalName = Annotated[str, AfterValidator(_optional_name)]
Group = Annotated[str, AfterValidator(_group)]
Image = Annotated[str, AfterValidator(_image)]
Badge = Annotated[str, AfterValidator(_badge)]
UserDn = Annotated[str, AfterValidator(_user_dn)]
UserBase = Annotated[str, AfterValidator(_user_base)]
UserFilter = Annotated[str, AfterValidator(_user_filter)]
LoginDomain = Annotated[str, AfterValidator(_login_domain)]
PrivateFolder = Annotated[str, AfterValidator(_private_folder)]
PersonsFolder = Annotated[str, AfterValidator(_persons_folder)]
NetworkText = Annotated[str, AfterValidator(_network)]
Server = Annotated[str, AfterValidator(_server)]
Variables = Annotated[dict[str, str], AfterValidator(_variables)]
Domain = Annotated[str, AfterValidator(_domain)]
DatabaseUrl = Annotated[str, AfterValidator(_database)]
UrlPath = Annotated[str, AfterValidator(_url_path)]
Texts = str | tuple[str, ...]  # one that is fixed, or several to choose from
Kinds = Annotated[Texts, _choices("kind")]
Accounts = Annotated[Texts, _choices("name", frozenset({"*"}))]
Reservations = Annotated[Texts, _choices("name", frozenset({""}))]
Constraints = Annotated[Texts, _choices("constraint", frozenset({""}))]
Licenses = Annotated[Texts, _choices("licenses", frozenset({""}))]
MailTypes = Annotated[Texts, _choices("mail_type", frozenset({""}))]
Comment = Annotated[str, AfterValidator(_comment)]
FreeOption = Annotated[str, AfterValidator(_option)]
Port = Annotated[int, Field(ge=1, le=65535)]
Hours = Annotated[int, Field(ge=1, le=8760)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]


class Table(BaseModel):
    """One table of the settings file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)
