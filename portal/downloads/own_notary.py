"""Which notebooks JupyterLab shows with all that their outputs hold, scripts too: those that the person has run.

Jupyter signs a notebook when it is saved and nothing in it is more than text, or what is more was run, or trusted by
hand; what has its signature is trusted when it is opened.
"""

from __future__ import annotations

import json
from hmac import HMAC
from typing import Any

from nbformat.sign import NotebookNotary, signature_removed
from nbformat.v4.rwbase import rejoin_lines, strip_transient

PLAIN = ("stream", "error")  # the types of outputs that are text, whatever else stands in them


class _Node(dict[str, Any]):
    """A part of a notebook, as nbformat's functions read and change it; theirs takes ten times the memory."""

    __slots__ = ()
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


class OwnNotary(NotebookNotary):
    """Signs what is text, or the person's own; a signature is one notebook's alone.

    nbformat (5.11) takes an output for text whose type is none of two, and JupyterLab (4.6) shows another one in the
    same way. And it signs names and values without what is between them: a text could say all that a notebook holds.
    """

    def compute_signature(self, nb: Any) -> str:
        """Of all that a notebook holds, as it is in its file."""
        with signature_removed(nb):
            as_read_back = rejoin_lines(strip_transient(_copied(nb)))
            text = json.dumps(as_read_back, sort_keys=True)
        return HMAC(self.secret, text.encode(), self.digestmod).hexdigest()

    def _check_cell(self, cell: Any, nbformat_version: int) -> bool:
        """Whether a cell was run here, or has shown nothing but text."""
        if cell["metadata"].pop("trusted", False):
            return True
        return all(output.get("output_type") in PLAIN for output in cell["outputs"])


def _copied(value: Any) -> Any:
    """What can be changed of a notebook, once more; a deep copy holds everything else up for seconds."""
    if isinstance(value, dict):
        return _Node((name, _copied(one)) for name, one in value.items())
    return [_copied(one) for one in value] if isinstance(value, list) else value
