"""The doors by which a person's choices come in: form, link, REST and saved options, with one check behind them.

Pure functions; the check itself is :func:`portal.request.checked`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from portal.errors import RequestError
from portal.language.texts import _
from portal.request import OPTIONS, SessionRequest
from portal.site import Identity, Site

_XSRF = "_xsrf"  # JupyterHub's own; some clients send it in the body instead of the address


def identity_of(user: Any, site: Site) -> Identity:
    """The person behind a JupyterHub user; an administrator by a group of the site, or by JupyterHub's own flag."""
    groups = frozenset(group.name for group in user.groups)
    is_admin = bool(user.admin) or (site.ldap is not None and site.ldap.makes_admin(groups))
    return Identity(user.name, groups, is_admin)


def from_form(form_data: Mapping[str, Sequence[object]]) -> dict[str, object]:
    """Form data (each field a list of texts, as JupyterHub hands it over) as options for ``checked``.

    Raises:
        RequestError: an unknown field, or a field that came more than once.
    """
    return {name: _only(name, values) for name, values in form_data.items() if name != _XSRF}


def _only(name: str, values: Sequence[object]) -> object:
    if name not in OPTIONS:
        raise RequestError("options", name, _("only the fields {names}").format(names=", ".join(OPTIONS)))
    if len(values) != 1:
        raise RequestError(name, list(values), _("one value"))
    return values[0]


def entered(form_data: Mapping[str, Sequence[object]]) -> SessionRequest:
    """What can be read of a form that was refused, so that the other choices are still there."""
    return remembered({name: values[0] for name, values in form_data.items() if values})


def remembered(options: Mapping[str, object]) -> SessionRequest:
    """What can be read of options kept from an earlier session; never raises."""
    request = SessionRequest()
    for name, value in options.items():
        try:
            read = SessionRequest.from_options({name: value})
        except RequestError:
            continue
        request = replace(request, **{name: getattr(read, name)})
    return request
