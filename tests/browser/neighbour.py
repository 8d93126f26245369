"""One pass of somebody else who is on a person's node over all that is open there."""

from __future__ import annotations

import json
import subprocess
from pwd import getpwnam

PLACES = ("/tmp", "/var/tmp", "/dev/shm", "/run")
# Runs as the neighbour. Of the person with this number: what listens (states of proc(5)), what answers on a UNIX
# socket, shared memory, processes that can be looked into, files that can be read in the places of all or changed
# anywhere, and what has a secret in it.
LOOK = """
import json, os, socket, stat, struct, sys
uid, homes, shared, secrets = json.load(sys.stdin)
found = {name: [] for name in ("ports", "sockets", "memory", "processes", "files", "secrets")}

def has_secret(where, text):
    if any(secret.encode() in text for secret in secrets):
        found["secrets"].append(where)

for table in ("tcp", "tcp6", "udp", "udp6"):
    with open(f"/proc/net/{table}") as lines:
        for part in map(str.split, list(lines)[1:]):
            if int(part[7]) == uid and part[3] == ("07" if table.startswith("udp") else "0A"):
                found["ports"].append(int(part[1].rpartition(":")[2], 16))
with open("/proc/net/unix") as lines:
    names = {line.split()[7] for line in lines if len(line.split()) > 7}
for name in sorted(names):
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        with socket.socket(socket.AF_UNIX, kind) as client:
            client.settimeout(2)
            try:
                client.connect("\\0" + name[1:] if name.startswith("@") else name)
            except (OSError, ValueError):
                continue
            if struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1] == uid:
                found["sockets"].append(name)
with open("/proc/sysvipc/shm") as lines:
    found["memory"] += [part[1] for part in map(str.split, lines) if str(uid) in part[7:8] and int(part[2], 8) & 6]
for process in filter(str.isdecimal, os.listdir("/proc")):
    for name in ("environ", "maps", "fd", "cwd", "cmdline"):
        path = f"/proc/{process}/{name}"
        try:
            if os.stat(f"/proc/{process}").st_uid != uid:
                break
            if name == "fd":
                os.listdir(path)
            elif name == "cwd":
                os.readlink(path)
            else:
                with open(path, "rb") as file:
                    has_secret(path, file.read())
        except OSError:
            continue
        if name != "cmdline":
            found["processes"].append(path)
for place in [*homes, *shared]:
    for folder, folders, files in os.walk(place):
        for path in (os.path.join(folder, name) for name in [*folders, *files]):
            try:
                entry = os.lstat(path)
            except OSError:
                continue
            if entry.st_uid != uid or stat.S_ISLNK(entry.st_mode):
                continue
            is_private = stat.S_ISDIR(entry.st_mode) or place in homes
            if os.access(path, os.W_OK) or (not is_private and os.access(path, os.R_OK)):
                found["files"].append(path)
            if stat.S_ISREG(entry.st_mode) and entry.st_size < 2**20:
                try:
                    with open(path, "rb") as file:
                        has_secret(path, file.read())
                except OSError:
                    continue
json.dump(found, sys.stdout)
"""


def found_by(neighbour: str, person: str, secrets: list[str]) -> dict[str, list[object]]:
    """What the neighbour finds open of a person, by its kind; under "secrets" where one of these can be read."""
    given = [getpwnam(person).pw_uid, [getpwnam(person).pw_dir], PLACES, secrets]
    argv = ["runuser", "-u", neighbour, "--", "/usr/bin/python3", "-I", "-c", LOOK]
    done = subprocess.run(argv, input=json.dumps(given), capture_output=True, text=True, check=True, cwd="/")
    found: dict[str, list[object]] = json.loads(done.stdout)
    return found
