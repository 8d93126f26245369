"""The session's own token, kept where no process that the server starts finds it.

JupyterHub and its libraries look for it in the environment, whenever they happen to need it; terminals and all other
children get that environment, and hand it on: to Slurm, for one, with a job that is submitted there.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

from portal.session_settings import HUB_ANSWER

TOKEN = "JUPYTERHUB_API_TOKEN"  # noqa: S105  the name of a variable
HUB_ANSWER_S = 20  # for so long a session believes what the hub has said of who asks; JupyterHub's own is 300
SECRETS = (TOKEN, "JPY_API_TOKEN")  # the second is the name that JupyterHub gave it before 1.0


class HubToken:
    """The token of this process's session; ``""`` before it was taken."""

    def __init__(self) -> None:
        self.text = ""

    def take(self, environ: MutableMapping[str, str]) -> None:
        """Keep the token, and take it out of the environment under each of its names."""
        found = [environ.pop(name) for name in SECRETS if name in environ]
        self.text = next(filter(None, found), self.text)

    def __repr__(self) -> str:
        return "HubToken()"

    def give_to_server(self) -> None:
        """JupyterHub's single-user server takes its token from here (6.1: two parts of it make a HubOAuth)."""
        from jupyterhub.httpclient import JupyterHubHTTPClient
        from jupyterhub.services.auth import HubOAuth
        from jupyterhub.singleuser import extension
        from traitlets import default

        from portal.session_pages.questions import AskedOnce, ask_without_limit

        ours = self

        class SessionAuth(AskedOnce, HubOAuth):  # type: ignore[misc]
            """Asks the hub who somebody is, with the token that is not in the environment."""

            @default("api_token")
            def _kept_token(self) -> Any:
                return ours.text

            def _get_xsrf_token_id(self, handler: Any) -> bytes:
                """Of the session's login alone: JupyterHub adds a number that other hosts of the domain may set."""
                made_for: bytes = super()._get_xsrf_token_id(handler)
                return made_for.rpartition(b":")[2]

        extension.HubOAuth = SessionAuth
        ask_without_limit(JupyterHubHTTPClient)


token = HubToken()


def believed_s(environ: Mapping[str, str]) -> int:
    """For how long an answer of the hub is believed, in seconds: as usual, or shorter; for ever is none of these."""
    seconds = int(environ.get(HUB_ANSWER) or HUB_ANSWER_S)
    return seconds if 0 < seconds < HUB_ANSWER_S else HUB_ANSWER_S
