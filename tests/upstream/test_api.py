"""JupyterHub's own tests of its REST interface, as they are in its wheel."""

from jupyterhub.tests.test_api import *  # noqa: F403
