"""JupyterHub's settings file of the portal: everything comes from site.toml (the variable DSPORTAL_SITE)."""

from portal.hub.config import configure_from_environment

configure_from_environment(get_config())  # noqa: F821  traitlets puts get_config here
