"""What is no text, or no number that a database can keep, is refused before anything is done with it. Pure.

JSON can write halves of characters (RFC 8259, 8.2), and numbers without a bound; no UTF-8 holds the first, no column
the second. A database that is handed one of them fails in the middle of a change.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote_to_bytes

from tornado import web

from portal.addresses import is_address
from portal.language.texts import N_, _

NOT_TEXT = N_("A field, the body or the address holds what is no text (UTF-8 without NUL). Type it again.")
NOT_A_NUMBER = N_("A number is finite, and a whole one has at most 63 bits.")
MANY_DIGITS = N_("A number in an address has at most 18 digits.")
LONG_CHALLENGE = N_("A code_challenge has at most 128 characters.")
TOO_MUCH = N_("The body holds too much: at most {lists} lists and objects, and {values} values.")
NO_BODY = N_("What is asked for stands in the address here.")
QUESTIONS = ("GET", "HEAD")
LARGEST = 2**63 - 1
LISTS_MOST = 10_000  # of JSON, with objects: what a body has many of are names
VALUES_MOST = 20_000  # names of values counted
DIGITS_MOST = 18  # of a number in an address: all of those are smaller
CHALLENGE_MOST = 128  # characters (RFC 7636, 4.2); a database keeps 255
COUNTED = ("offset", "id")  # which JupyterHub (6.1) hands to the database as numbers


def refused(status: int, words: str, **values: object) -> web.HTTPError:
    """The refusal of a request, with what JupyterHub's error page, or its REST API, says of it.

    Arguments:
        values: what the words name in braces.
    """
    error: Any = web.HTTPError(status, words)
    error.jupyterhub_message = _(words).format(**values) if values else _(words)
    found: web.HTTPError = error
    return found


def check_bytes(value: bytes) -> None:
    """Look at a field, an address or a body.

    Raises:
        web.HTTPError: 400, where it is no UTF-8, or has a NUL, which no column of PostgreSQL takes.
    """
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise refused(400, NOT_TEXT) from None
    if "\0" in text:
        raise refused(400, NOT_TEXT)


def check_body(value: bytes) -> None:
    """Look at a body of JSON before it is read: that, and to look at all of it, takes longer than for its length alone.

    Raises:
        web.HTTPError: 400, where it is no text, or has very many parts, also in its texts.
    """
    check_bytes(value)
    if sum(map(value.count, (b"[", b"{"))) > LISTS_MOST or sum(map(value.count, (b",", b":"))) > VALUES_MOST:
        raise refused(400, TOO_MUCH, lists=LISTS_MOST, values=VALUES_MOST)


def check_address(request: Any) -> None:
    """Look at the path, and at what the query or a form says.

    Raises:
        web.HTTPError: 400, where something is no text, or a number that no database knows; and for a question with a
            form, of which JupyterHub would take what it looks for in the address.
    """
    if request.method in QUESTIONS and request.body_arguments:
        raise refused(400, NO_BODY)
    for values in (*request.query_arguments.values(), *request.body_arguments.values()):
        for value in values:
            check_bytes(value)
    check_bytes(unquote_to_bytes(request.path))
    for given in (request.query_arguments, request.body_arguments):
        for name in COUNTED:
            for value in given.get(name, ()):
                check_digits(value.decode())
        if any(len(value) > CHALLENGE_MOST for value in given.get("code_challenge", ())):
            raise refused(400, LONG_CHALLENGE)
    drop_no_addresses(request)


def check_digits(number: str) -> None:
    """Look at the number of something in an address.

    Raises:
        web.HTTPError: 400, where it has more digits than a number that is kept.
    """
    if sum(map(str.isdigit, number)) > DIGITS_MOST:
        raise refused(400, MANY_DIGITS)


def drop_no_addresses(request: Any) -> None:
    """What is no address leads nowhere, as if it were not there: JupyterHub (6.1) fails at it."""
    for name in ("next", "url"):
        for found in (request.query_arguments, request.body_arguments, getattr(request, "arguments", {})):
            if not all(is_address(value.decode()) for value in found.get(name, ())):
                del found[name]


def check_json(value: object) -> None:
    """Look at all that was read out of JSON, however deep.

    Raises:
        web.HTTPError: 400, for a text or a number that can be kept nowhere.
    """
    for part in _parts(value):
        if isinstance(part, str):
            check_bytes(part.encode(errors="surrogatepass"))
        elif isinstance(part, int | float) and not _is_kept(part):
            raise refused(400, NOT_A_NUMBER)


def _is_kept(number: float) -> bool:
    """Whether there is a column for it."""
    return math.isfinite(number) if isinstance(number, float) else abs(number) <= LARGEST


def _parts(value: object) -> Iterator[object]:
    """All that stands in it, names too; without a call for each depth, which a body chooses."""
    left = [value]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            left.extend(part.keys())
            left.extend(part.values())
        elif isinstance(part, list):
            left.extend(part)
        else:
            yield part
