"""A module command that a test tells what to answer."""

from __future__ import annotations

from pathlib import Path

from portal.kernels.modules import ModuleSystem


class Modules:
    """A module command that knows what a test tells it, and counts how often it is asked."""

    def __init__(self, folder: Path) -> None:
        self.command, self.asked = folder / "modulecmd", folder / "asked"
        self.tree = folder / "modulefiles"
        (self.tree / "shared").mkdir(parents=True)
        self.file = self.tree / "shared" / "tf"
        self.file.write_text("#%Module\n")
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.loads({"PATH": f"{self.bin}:$PATH", "TF": "1"})

    def says(self, text: str, words: str = "") -> None:
        """Answer with ``text``, and ``words`` for the person."""
        answer = f'echo "$*" >> {self.asked}\necho "{words}" >&2\ncat <<END\n{text}\nEND\n'
        self.command.write_text(f"#!/bin/sh\n{answer}")
        self.command.chmod(0o755)

    def loads(self, variables: dict[str, str]) -> None:
        """Answer with these variables and the modulefile as the one that was loaded."""
        lines = [f"os.environ['{name}'] = '{value}'" for name, value in variables.items()]
        self.says("\n".join([*lines, f"os.environ['_LMFILES_'] = '{self.file}'", "_mlstatus = True"]))

    @property
    def system(self) -> ModuleSystem:
        return ModuleSystem(str(self.command), (str(self.tree),))

    @property
    def times_asked(self) -> int:
        return len(self.asked.read_text().splitlines()) if self.asked.exists() else 0

    def program(self, name: str, script: str) -> Path:
        """Put a program into the module's PATH."""
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path
