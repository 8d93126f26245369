"""The environment variables by which ``portal up`` tells JupyterHub's configuration what was asked for."""

from __future__ import annotations

SITE = "DSPORTAL_SITE"  # the settings file
LOCAL_STATE = "DSPORTAL_LOCAL"  # the state folder of the local mode; set = the local mode
LOCAL_PASSWORD = "DSPORTAL_LOCAL_PASSWORD"  # noqa: S105  the name of a variable, not a password
LOCAL_PORT = "DSPORTAL_LOCAL_PORT"
LOCAL_FILES = "DSPORTAL_LOCAL_FILES"  # the folder that sessions show
WITHOUT_PROXY = "DSPORTAL_WITHOUT_PROXY"  # set = a service of its own runs `portal proxy`
