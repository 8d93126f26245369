"""What lies beside lessons in their folders, byte for byte: small modules that a notebook imports as its neighbours.

A notebook and the modules beside it are copied into homes as they are, so a shared module is a copy in each folder that
uses it; the original is here, and ``portal notebooks check`` holds the copies to it. They run in the kernels' own
Pythons and import nothing of the portal.
"""

from __future__ import annotations

from pathlib import Path

SHARED = {file.name: file for file in Path(__file__).parent.glob("lesson_*.py")}
