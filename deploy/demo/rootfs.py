"""The private root file system: the host's /usr with the unpacked packages over it, everything else our own.

A whole system (``--debian``, of a release that is not the host's) lies below the packages instead of the host's /usr.

Runs as PID 1's first step, inside the mount namespace; nothing here is seen by the host.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

from deploy.demo import people
from deploy.demo.start_plan import Plan

FOLDERS = [
    "usr",
    "etc",
    "dev",
    "proc",
    "sys",
    "run",
    "tmp",
    "var",
    "home",
    "root",
    "mnt",
    "opt",
    "srv",
    "cluster",
    "cm",
    "old",
]
CLUSTER = ["etc", "hub", "home", "isilon", "jupyter", "ldap", "logs", "munge", "mysql", "slurm", "tls", "tmp"]
DEVICES = ["null", "zero", "full", "random", "urandom", "tty", "fuse"]
GPUS = 4
# Rules of the host that must not hold inside.
FORGOTTEN = ["sudoers.d", "cron.d", "cron.daily", "ssh", "systemd", "security/limits.d"]
# What a whole system has of the host's /etc: its certificates, and how it reaches a network.
SHARED = ["ssl/certs", "resolv.conf", "hosts", "pip.conf", "localtime"]


def mount(*arguments: str | Path, cwd: Path | None = None) -> None:
    """Run mount(8)."""
    subprocess.run(["mount", *map(str, arguments)], cwd=cwd, check=True)


def build(plan: Plan) -> None:
    """Build the new root and make it ours; afterwards / is private and the host's is out of reach."""
    new = plan.path("ns")
    new.mkdir(exist_ok=True)
    mount("-t", "tmpfs", "-o", "mode=755", "dsportal", new)
    mount("--make-unbindable", new)  # else the checkout, bound below, would hold the new root once more
    make_folders(new)
    make_system(plan, new)
    make_dev(plan, new)
    mount("-t", "proc", "proc", new / "proc")
    make_sys(plan, new)
    bind_state(plan, new)
    bind_open(Path(plan.checkout), new)
    close(new / Path(plan.checkout).relative_to("/") / ".git")
    if not Path(plan.venv).is_relative_to(plan.checkout):
        bind_open(Path(plan.venv), new)
    mount("--make-private", new)
    pivot(new)


def make_system(plan: Plan, new: Path) -> None:
    """/usr and /etc."""
    below = [] if plan.is_whole else ["/usr"]
    layers = ":".join([*(f"{group}/usr" for group in plan.groups), *below])
    # Relative layers: a ':' or a ',' in the state folder's path would end the option.
    mount("-t", "overlay", "overlay", "-o", f"lowerdir={layers}", new / "usr", cwd=plan.path("root"))
    copy_etc(plan, new)
    if plan.is_whole:  # the names of libraries, which ctypes asks for
        subprocess.run(["chroot", str(new), "/sbin/ldconfig"], check=True)


def make_folders(new: Path) -> None:
    """The top-level folders and the links of the merged /usr."""
    for name in FOLDERS:
        (new / name).mkdir()
    link_merged(new)
    for name in ["var/lib/sudo/lectured", "var/log/munge", "var/lib/munge", "var/cache", "var/tmp", "mnt/isilon"]:
        (new / name).mkdir(parents=True)
    for name in ["lock", "munge", "mysqld", "nslcd", "slapd", "slurm", "sudo", "demo"]:
        (new / "run" / name).mkdir()
    (new / "var/run").symlink_to("/run")
    (new / "run/lock").chmod(0o1777)


def link_merged(new: Path) -> None:
    """The links of the merged /usr."""
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        (new / name).symlink_to(f"usr/{name}")


def copy_etc(plan: Plan, new: Path) -> None:
    """The host's /etc (what may be read of it), the packages' over it; for a whole system SHARED of it alone."""
    packages = [plan.path("root", group, "etc") for group in plan.groups]
    for source in reversed(packages) if plan.is_whole else (Path("/etc"), *packages):
        if source.is_dir():
            copy_over(f"{source}/.", new / "etc")
    for name in SHARED if plan.is_whole else ():
        if Path("/etc", name).exists():
            (new / "etc" / name).parent.mkdir(parents=True, exist_ok=True)
            copy_over(f"/etc/{name}", (new / "etc" / name).parent, "-L")
    for name in FORGOTTEN:
        shutil.rmtree(new / "etc" / name, ignore_errors=True)


def copy_over(source: str, target: Path, *options: str) -> None:
    """Copy what may be read, in the place of what is there."""
    command = ["cp", "-r", *options, "--preserve=mode,links", "--remove-destination", source, str(target)]
    subprocess.run(command, stderr=subprocess.DEVNULL, check=False)


def make_dev(plan: Plan, new: Path) -> None:
    """A /dev with the few devices that programs need, own terminals, own shared memory, and the GPUs."""
    dev = new / "dev"
    for name in DEVICES:
        if Path("/dev", name).exists():
            bind_file(Path("/dev", name), dev / name)
    for name, target in {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}.items():
        (dev / name).symlink_to(target)
    for name, kind, options in (
        ("pts", "devpts", "newinstance,ptmxmode=0666,mode=620,gid=5"),
        ("shm", "tmpfs", "mode=1777"),
        ("mqueue", "mqueue", "rw"),
    ):
        (dev / name).mkdir()
        mount("-t", kind, "-o", options, kind, dev / name)
    (dev / "ptmx").symlink_to("pts/ptmx")
    for number in range(GPUS):
        make_gpu(dev / f"nvidia{number}", number, plan.isolates)


def make_gpu(file: Path, number: int, real: bool) -> None:
    """An emulated GPU: a device node with NVIDIA's number and nothing behind it, or else /dev/null under its name."""
    if real:
        os.mknod(file, stat.S_IFCHR | 0o666, os.makedev(195, number))
        file.chmod(0o666)
    else:
        bind_file(Path("/dev/null"), file)


def bind_file(source: Path, target: Path) -> None:
    """Show one file at another place."""
    target.touch()
    mount("--bind", source, target)


def make_sys(plan: Plan, new: Path) -> None:
    """/sys; with cgroups, the hierarchies as our cgroup namespace sees them: our own group is their root."""
    if not plan.isolates:
        mount("--rbind", "/sys", new / "sys")
        return
    mount("-t", "sysfs", "sysfs", new / "sys")
    groups = new / "sys/fs/cgroup"
    mount("-t", "tmpfs", "-o", "mode=755", "cgroup", groups)
    for hierarchy in plan.hierarchies:
        (groups / hierarchy).mkdir()
        mount("-t", "cgroup", "-o", hierarchy, "cgroup", groups / hierarchy)
        for name in hierarchy.split(","):
            if name != hierarchy:
                (groups / name).symlink_to(hierarchy)


def bind_state(plan: Plan, new: Path) -> None:
    """The live state at /cluster, the homes, the big storage, the module tree, and a /tmp on the disk."""
    for name in CLUSTER:
        folder = plan.path("cluster", name)
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
    plan.path("cluster").chmod(0o755)
    plan.path("cm").mkdir(exist_ok=True)
    empty(plan.path("cluster", "tmp"))
    for name in ("tmp", "isilon"):
        plan.path("cluster", name).chmod(0o1777)
    for source, target in {
        "cluster": "cluster",
        "cluster/home": "home",
        "cluster/isilon": "mnt/isilon",
        "cluster/tmp": "tmp",
        "cm": "cm",
    }.items():
        mount("--bind", plan.path(source), new / target)
    (new / "root").chmod(0o700)
    (new / "var/tmp").rmdir()
    (new / "var/tmp").symlink_to("/tmp")  # noqa: S108  the cluster's own


def empty(folder: Path) -> None:
    """Take everything out of a folder."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def bind_open(folder: Path, new: Path) -> None:
    """A folder (the checkout, its environment) at its own path, where every account can pass.

    One that is closed to others is bound entry by entry, into an open folder: what in it is readable
    (the environment in a closed checkout) can then be reached.
    """
    target = new
    for part in folder.parts[1:]:
        target = target / part
        target.mkdir(exist_ok=True)
        if not target.stat().st_mode & stat.S_IXOTH:
            target.chmod(stat.S_IMODE(target.stat().st_mode) | 0o011)
    if folder.stat().st_mode & 0o005 == 0o005:
        mount("--rbind", folder, target)
        return
    for entry in folder.iterdir():
        place = target / entry.name
        place.mkdir() if entry.is_dir() else place.touch()
        mount("--rbind", entry, place)


def close(kept_by_git: Path) -> None:
    """Show nobody inside what git keeps of a checkout: the addresses of its remotes may have passwords in them."""
    if kept_by_git.is_dir():
        mount("-t", "tmpfs", "-o", "ro,mode=0,size=4k", "dsportal", kept_by_git)
    elif kept_by_git.exists():
        mount("--bind", "/dev/null", kept_by_git)


def pivot(new: Path) -> None:
    """Make ``new`` the root and let go of the old one."""
    os.chdir(new)
    subprocess.run(["pivot_root", ".", "old"], check=True)
    os.chdir("/")
    subprocess.run(["umount", "-l", "/old"], check=True)
    Path("/old").rmdir()


def make_homes() -> None:
    """A closed home for every demo person, and the portal's."""
    for name, uid in people.uids().items():
        home = Path("/home", name)
        if not home.exists():
            shutil.copytree("/etc/skel", home)
            subprocess.run(["chown", "-R", f"{uid}:{people.GROUP_ID}", str(home)], check=True)
            home.chmod(0o700)
