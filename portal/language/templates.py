"""What templates need to speak the reader's language, JupyterHub's own among them. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from jinja2 import Environment
from jinja2.ext import InternationalizationExtension

from portal.language import amounts
from portal.language.texts import N_, _, language, ngettext, script_texts

# Its texts that no block of ours takes the place of (JupyterHub 6.1, page.html); below, its times of tokens.
STOCK = (
    N_("Home"),
    N_("Token"),
    N_("Admin"),
    N_("Services"),
    N_("Login"),
    N_("Toggle navigation"),
    N_("Toggle dark mode"),
    N_("Close"),
    N_("Error"),
    N_("The error"),
    N_("JupyterHub requires JavaScript."),
    N_("Please enable it to proceed."),
)
TIMES = (N_("1 Hour"), N_("1 Day"), N_("1 Week"), N_("1 Month"), N_("1 Year"), N_("Never"))
TITLE = (">{{ title }}<", ">{{ _(title) }}<")  # of the window in which its scripts say an error
LANGUAGE = ('<html lang="en">', '<html lang="{{ language() }}">')


class Translated(InternationalizationExtension):
    """``_()`` and ``{% trans %}`` in a hub's templates, in the language of each request."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        environment.policies["ext.i18n.trimmed"] = True
        environment.install_gettext_callables(_, ngettext, newstyle=True)  # type: ignore[attr-defined]
        environment.globals |= {
            "language": language,
            "script_texts": script_texts,
            "in_language": in_language,
            "weekday_and_time": amounts.weekday_and_time,
        }

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        """The source of a template; JupyterHub's page, which all others extend, has its texts marked."""
        if LANGUAGE[0] not in source:
            return source
        return _replaced(source.replace(*LANGUAGE).replace(*TITLE), STOCK, '{{{{ _("{}") }}}}'.format)


def in_language(html: str) -> str:
    """The times for which JupyterHub offers a token, as it writes them."""
    most = {"hours": _("Max ({number} hours)"), "days": _("Max ({number} days)")}
    html = re.sub(r"Max \((\d+) (hours|days)\)", lambda found: most[found[2]].format(number=found[1]), html)
    return _replaced(html, TIMES, _)


def _replaced(html: str, texts: Iterable[str], made: Callable[[str], str]) -> str:
    """Each of the texts, where it stands alone between tags or in an attribute, replaced."""
    known = "|".join(map(re.escape, texts))
    return re.sub(rf'(?<=[>"])(\s*)({known})(\s*)(?=[<"])', lambda one: f"{one[1]}{made(one[2])}{one[3]}", html)
