"""``[[partition]] options``: options of ``sbatch`` that only root writes, and which of them the portal sets itself."""

from __future__ import annotations

import re

# sbatch(1). What the portal sets itself, what has a key of its own, and what would make another thing of the job.
_KEYS = {
    "account": "account",
    "qos": "qos",
    "reservation": "reservation",
    "constraint": "constraint",
    "licenses": "licenses",
    "mail-type": "mail_type",
    "comment": "comment",
    "exclusive": "exclusive",
    "gres": "[[gpu]] gres",
    "gpus": "[[gpu]] gres",
    "gpus-per-node": "[[gpu]] gres",
    "gpus-per-socket": "[[gpu]] gres",
    "gpus-per-task": "[[gpu]] gres",
    "cpus-per-gpu": "cores_per_gpu",
    "mem-per-gpu": "memory_gb_per_gpu",
    "mem": "memory_gb_per_gpu and memory_gb_without_gpu",
    "mem-per-cpu": "memory_gb_per_gpu and memory_gb_without_gpu",
    "cpus-per-task": "cores_per_gpu and cores_without_gpu",
    "time": "hours_max",
    "time-min": "hours_max",
    "partition": "name",
    "clusters": "[cluster] slurm_conf (one portal serves one cluster)",
    "cluster": "[cluster] slurm_conf (one portal serves one cluster)",
    "cluster-constraint": "[cluster] slurm_conf (one portal serves one cluster)",
}
_OURS = frozenset(
    {
        "array", "bb", "bbf", "begin", "burst-buffer", "chdir", "container", "deadline", "dependency",
        "error", "export", "export-file", "get-user-env", "gid", "help", "hold", "ignore-pbs", "input",
        "job-name", "no-requeue", "nodes", "ntasks", "ntasks-per-core", "ntasks-per-gpu", "ntasks-per-node",
        "ntasks-per-socket", "open-mode", "output", "parsable", "requeue", "test-only", "uid", "usage",
        "version", "wait", "wrap", "x11",
    }
)  # fmt: skip
_FORM = re.compile(r"--([a-z][a-z0-9-]{1,40})(=[ -~]{1,200})?")


def fault(option: str) -> str:
    """What is wrong with an option that root wrote; ``""`` for one that may stand there.

    ``sbatch`` takes any beginning of an option's name that is not ambiguous (getopt_long(3)), so a beginning of one
    that is not for the taking is refused as well.
    """
    found = _FORM.fullmatch(f"--clusters={option[2:].strip()}" if option.startswith("-M") else option)
    if not found:
        return "one option of sbatch with its long name, such as '--switches=1'"
    name = found[1]
    if name in _KEYS:
        return f"options that have no key of their own: for this one there is {_KEYS[name]}"
    taken = next((other for other in sorted(_OURS | _KEYS.keys()) if other.startswith(name)), "")
    return f"options that the portal does not set itself: --{taken} is not for the taking" if taken else ""
