"""What lies beside a kernelspec, such as its logo: a picture, with none of the rights of the session's own pages.

A kernelspec that somebody has copied, or linked, may have a picture with a script in it, or a page.
"""

from __future__ import annotations

from collections.abc import Generator

from jupyter_server.kernelspecs.handlers import KernelSpecResourceHandler
from jupyter_server.services.kernelspecs.handlers import kernel_name_regex

from portal.downloads.files import FileHandler

ADDRESS = rf"kernelspecs/{kernel_name_regex}/(?P<path>.*)"


class KernelFileHandler(KernelSpecResourceHandler):
    """Jupyter's, with what a browser is told of a downloaded file, and without waiting for whoever keeps one."""

    @property
    def content_security_policy(self) -> str:
        """A document of its own, whatever it is."""
        return f"{super().content_security_policy}; sandbox"

    @classmethod
    def get_content(cls, abspath: str, start: int | None = None, end: int | None = None) -> Generator[bytes]:
        """The file in parts."""
        return FileHandler.get_content(abspath, start, end)
