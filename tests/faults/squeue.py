"""A squeue that lies: it stands first in the PATH of the tests' hub and answers what the test has put there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from portal.testing.outages import SlurmGarbage

# Every answer is made in one file and moved into place, so that the hub never reads half of what a test writes.
_SCRIPT = """#!/bin/sh
answer={folder}/answer
[ -d "$answer" ] || exec {real} "$@"
cat "$answer/stdout"
cat "$answer/stderr" >&2
echo >> {folder}/count
exit "$(cat "$answer/returncode")"
"""


class LyingSqueue:
    """The wrapper in ``folder``; without an answer it is squeue itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._answer, self._count = folder / "answer", folder / "count"

    def install(self) -> None:
        """Write the wrapper."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        program = self.folder / "squeue"
        program.write_text(_SCRIPT.format(folder=self.folder, real=shutil.which("squeue")))
        program.chmod(0o755)
        self._count.touch()
        self._count.chmod(0o666)

    @contextmanager
    def says(self, answer: SlurmGarbage) -> Iterator[None]:
        """Meanwhile the hub gets this answer."""
        made = self.folder / "made"
        made.mkdir()
        (made / "stdout").write_text(answer.stdout, newline="")
        (made / "stderr").write_text(answer.stderr)
        (made / "returncode").write_text(str(answer.returncode))
        made.rename(self._answer)
        try:
            yield
        finally:
            shutil.rmtree(self._answer)

    def asked(self) -> int:
        """How often the hub got a bad answer so far."""
        return self._count.stat().st_size
