"""JupyterHub's own tests of a spawner, as they are in its wheel."""

from jupyterhub.tests.test_spawner import *  # noqa: F403
