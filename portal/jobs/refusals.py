"""Why ``sbatch`` takes no job, in words that say what to do: its own words come after them. Pure."""

from __future__ import annotations

import re

from portal.errors import SubmitRefused

# Of slurm_errno.c and sbatch's opt.c; the same in 22.05 and 25.05.
_WORDS = {
    r"[Ii]nvalid partition": "There is no such partition: `sinfo --format=%R` names those that you see.",
    r"[Ii]nvalid account": "Slurm does not let you use this account there: `sacctmgr show associations user=$USER` "
    "names yours.",
    r"group not permitted|not permitted to use this partition": "This partition is closed to you: choose another one.",
    r"[Ii]nvalid generic resource|Invalid gres": "The nodes there have no such GPUs: ask for none, or elsewhere.",
    r"node configuration is not available|[Mm]ore processors requested": "No node there has so much: ask for fewer "
    "GPUs, cores or GB on each node, or for another partition.",
    r"time limit is invalid|exceeds partition time limit": "So many hours are not allowed there: ask for fewer.",
    r"Node count specification|Requested partition configuration": "The partition does not give so many nodes, or not "
    "so many hours: ask for fewer.",
    r"violates accounting/QOS policy|limit": "This is more than your account or QOS allows: ask for less.",
    r"look like a batch script": "The script's first line must name its interpreter, such as #!/bin/bash.",
    r"DOS line breaks": "The script has the line ends of Windows: `sed -i 's/\\r$//' FILE` takes them out.",
    r"[Ii]nvalid job array|array size": "Such an array is not allowed here: ask for smaller indexes.",
    r"[Uu]nable to open file|[Pp]ermission denied": "The file cannot be read.",
}


def refused(said: str) -> SubmitRefused:
    """The error for what ``sbatch`` said."""
    plain = "\n".join(line.removeprefix("sbatch: ").removeprefix("error: ") for line in said.strip().splitlines())
    words = next((words for pattern, words in _WORDS.items() if re.search(pattern, said)), "")
    first = f"Slurm did not accept the job. {words}".strip()
    return SubmitRefused(f"{first}\n{plain}" if plain else first, detail=plain)
