"""Unpack downloaded packages into a tree, as namespace root: owners and set-user-id bits come out right."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from deploy.demo.console import DemoError, Progress

# Debian's packages carry /lib and /bin; Debian's systems have them merged into /usr.
MERGED = ("bin", "sbin", "lib", "lib32", "lib64")
UNREAD = ("./usr/share/doc", "./usr/share/lintian", "./usr/share/locale", "./usr/share/man")
# What the packages' scripts would make (by update-alternatives, mostly): link → what it points to.
LINKS = {
    "usr/sbin/slurmctld": "slurmctld-wlm",
    "usr/sbin/slurmd": "slurmd-wlm",
    "usr/sbin/slurmstepd": "slurmstepd-wlm",
    "usr/lib/x86_64-linux-gnu/libblas.so.3": "blas/libblas.so.3",
    "usr/lib/x86_64-linux-gnu/liblapack.so.3": "lapack/liblapack.so.3",
    "etc/R/Renviron": "../../usr/lib/R/etc/Renviron.ucf",
    "usr/bin/tclsh": "tclsh8.6",
    "usr/bin/pager": "less",
    "usr/bin/awk": "mawk",
    "usr/bin/which": "which.debianutils",
}
# And the accounts of a whole system, which a package keeps elsewhere.
COPIES = {"usr/share/base-passwd/passwd.master": "etc/passwd", "usr/share/base-passwd/group.master": "etc/group"}
STAMP = ".unpacked"


def is_unpacked(tree: Path, stamp: str) -> bool:
    """Whether ``tree`` was unpacked completely from the packages that ``stamp`` stands for."""
    try:
        return (tree / STAMP).read_text() == stamp
    except OSError:
        return False


def unpack(files: list[Path], tree: Path, stamp: str) -> None:
    """Unpack ``files`` into ``tree``, anew and all or nothing."""
    partial = tree.with_name(tree.name + ".part")
    for old in (partial, tree):
        shutil.rmtree(old, ignore_errors=True)
    prepare(partial)
    with Progress(f"unpacking {len(files)} packages ({tree.name})") as progress:
        for number, file in enumerate(files, 1):
            progress.show(f"{number} of {len(files)}  {file.name.split('_')[0]}")
            unpack_one(file, partial)
    link(partial)
    settle(partial)
    (partial / STAMP).write_text(stamp)
    partial.rename(tree)


def prepare(tree: Path) -> None:
    """An empty tree with merged /usr."""
    tree.mkdir(parents=True)
    tree.chmod(0o755)
    for name in MERGED:
        (tree / "usr" / name).mkdir(parents=True)
        (tree / name).symlink_to(f"usr/{name}")


def unpack_one(file: Path, tree: Path) -> None:
    """Unpack one package. ``dpkg -x`` would replace the links of the merged /usr by folders, tar can keep them."""
    unread = [f"--exclude={name}" for name in UNREAD]
    tar = ["tar", "-C", str(tree), "-x", "-p", "--keep-directory-symlink", *unread, "-f", "-"]
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(file)], stdout=subprocess.PIPE) as source:
        done = subprocess.run(tar, stdin=source.stdout, capture_output=True, text=True, check=False)
    if source.returncode or done.returncode:
        raise DemoError(f"{file.name} cannot be unpacked: {done.stderr.strip() or 'the file is damaged'}")


def link(tree: Path) -> None:
    """Make those of LINKS whose target this tree has."""
    for name, target in LINKS.items():
        place = tree / name
        if (place.parent / target).exists() and not place.exists():
            place.symlink_to(target)


def settle(tree: Path) -> None:
    """A whole system: its accounts, and its Python compiled (every start would compile it anew)."""
    if not all((tree / source).exists() for source in COPIES):
        return
    for source, target in COPIES.items():
        shutil.copyfile(tree / source, tree / target)
    library = str(next((tree / "usr/lib").glob("python3.*")).relative_to(tree))
    command = ["chroot", str(tree), "/usr/bin/python3", "-I", "-m", "compileall", "-q", f"/{library}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DemoError(f"the Python of {tree.name} does not run: {(done.stdout + done.stderr).strip()[-300:]}")


def main(arguments: list[str]) -> None:
    """``unpack_debs TREE STAMP FILE…``: how the rootless variant runs it inside a user namespace."""
    tree, stamp, *files = arguments
    unpack([Path(file) for file in files], Path(tree), stamp)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
