"""Checks of what runs on nodes: GPUs that the settings offer, what the last tests of kernels found, programs of tools,
and where jobs have their temporary files.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable, Mapping

from portal.catalogue import specs
from portal.catalogue.built import kernelspec, rights_of_trial, stranger
from portal.catalogue.versions import resolved
from portal.doctor.check import Check
from portal.errors import KernelError
from portal.gpus.frameworks import for_cpus_alone, kernel_python
from portal.kernels.containers import is_address
from portal.settings.session_tables import PartitionTable
from portal.site import Site
from portal.slurm.cluster import Cluster
from portal.slurm.nodes import Node
from portal.slurm.runner import Runner
from portal.trials import record
from portal.trials.trial import Trial
from portal.webtools import explained, kept

HOW_TO = "docs/howto/kernels.md, 'Environments for nodes with GPUs'"
TEMPORARY = "temporary files"
WITH_OWN_TEMPORARY = {"job_container/tmpfs", "namespace/tmpfs", "namespace/linux"}
OWN_TEMPORARY = (
    "In slurm.conf: PrologFlags=Contain and JobContainerType=job_container/tmpfs, with a BasePath and "
    "`Dirs=/tmp,/var/tmp,/dev/shm` in job_container.conf (by itself it is without /var/tmp); from Slurm 25.11 on "
    "NamespaceType=namespace/linux and the same in namespace.yaml. A plugin of SPANK, or pam_namespace, does it as "
    "well, which this check does not see."
)


async def temporary_files(site: Site, run: Runner) -> list[Check]:
    """Whether Slurm gives each job a ``/tmp`` that nobody else of its node reaches.

    slurm.conf(5): ``JobContainerType``, which is ``NamespaceType`` from Slurm 25.11 on.
    """
    shown = await run(("scontrol", "show", "config"))
    if shown.returncode or not shown.stdout:
        return [Check(TEMPORARY, "warning", "unknown: Slurm does not say", "See the lines about Slurm.")]
    named = re.findall(r"^(?:JobContainer|Namespace)Type\s*=\s*(\S+)", shown.stdout, re.MULTILINE)
    if found := ", ".join(sorted(set(named) & WITH_OWN_TEMPORARY)):
        own = "jobs have a /tmp of their own, unless `Dirs` leaves it out, and a /var/tmp where it is named there, too"
        return [Check(TEMPORARY, "ok", f"{found}: {own}")]
    said = "people on one node share /tmp: what programs keep there under known names, others can make first"
    return [Check(TEMPORARY, "warning", said, OWN_TEMPORARY)]


async def gpus(site: Site, run: Runner) -> list[Check]:
    """Each partition's nodes have the GPUs that it offers, and some kernel can compute on them."""
    nodes = (await Cluster(site.portal.launcher, run).nodes()).nodes.values()
    checks = [check for one in site.partitions if (check := offered(site, one, nodes))]
    with_gpus = [one.name for one in site.partitions if most_of(site, one) and _best(site, one, nodes)]
    if with_gpus:
        checks.append(await asyncio.to_thread(kernels, site, with_gpus))
    return checks


def most_of(site: Site, partition: PartitionTable) -> int:
    """The most GPUs that anybody may have in one session there."""
    by_rule = (partition.model_copy(update=rule.changes()) for rule in partition.rule)
    return max(site.gpus_max(one) for one in (partition, *by_rule))


def offered(site: Site, partition: PartitionTable, nodes: Iterable[Node]) -> Check | None:
    """A warning where no node of a partition has the GPUs that the settings offer there."""
    most = most_of(site, partition)
    there = _of(partition, nodes)
    if not most or not there or any("UNKNOWN" in node.states for node in there):
        return None
    for kind in partition.kinds or ("",):
        gres = site.gres(partition, kind)
        best = _most(gres, there)
        wanted = min(most, site.gpu(kind).gpus_max or most) if kind else most
        if gres.startswith("gpu") and best < wanted:
            return _warning(partition.name, gres, wanted, best, there)
    return None


def _warning(partition: str, gres: str, wanted: int, best: int, nodes: Iterable[Node]) -> Check:
    kinds = sorted({f"gpu:{kind}" if kind else "gpu" for node in nodes for kind, count in node.gpus.items() if count})
    has = f"no node of it has more than {best}" if best else f"its nodes have {', '.join(kinds) or 'none'}"
    found = f"the settings offer up to {wanted} of {gres} for a session, but {has}: such a session never starts"
    repair = f"Set gpus_max = {best} for it, or correct gpu and [[gpu]]; else Gres of its nodes in slurm.conf is wrong."
    return Check(f"partition {partition}, GPUs", "warning", found, repair)


def _of(partition: PartitionTable, nodes: Iterable[Node]) -> list[Node]:
    return [node for node in nodes if partition.name in node.partitions]


def _best(site: Site, partition: PartitionTable, nodes: Iterable[Node]) -> int:
    return max(
        (_most(site.gres(partition, kind), _of(partition, nodes)) for kind in partition.kinds or ("",)), default=0
    )


def _most(gres: str, nodes: Iterable[Node]) -> int:
    """The most GPUs of a kind that one node has; any kind will do for ``gpu`` alone."""
    kind = gres.partition(":")[2]
    return max((node.gpus.get(kind, 0) if kind else sum(node.gpus.values()) for node in nodes), default=0)


def kernels(site: Site, partitions: Iterable[str]) -> Check:
    """A warning about kernels whose frameworks are built for CPUs alone, on a site that offers GPUs."""
    what = "kernels on GPUs"
    slow = {}
    asked = 0
    for kernel in site.kernel:
        try:
            first = resolved(kernel, site)[0].kernel
            if is_address(first.container) or (os.geteuid() and stranger(first, site)):
                continue  # whoever can change it would have the rights of who asks
            python = kernel_python(kernelspec(first, site))
            built: Mapping[str, str] = python.ask("built", rights_of_trial(first, site)) if python else {}
        except KernelError:
            continue  # the line about this kernel says so
        asked += bool(built)
        if names := for_cpus_alone(built):
            slow[kernel.name] = ", ".join(names)
    if not slow:
        return Check(what, "ok", f"{asked} with a framework, none of them built for CPUs alone")
    shown = "; ".join(f"{name} ({frameworks})" for name, frameworks in slow.items())
    found = f"{', '.join(partitions)} offer GPUs, but these are built for CPUs and see none: {shown}"
    repair = (
        f"Offer environments for GPUs under the same names ({HOW_TO}).\n"
        f"`portal kernels test --partition {next(iter(partitions))}` asks all kernels in a job there."
    )
    return Check(what, "warning", found, repair)


# -- the last tests, and tools --------------------------------------------------------------------------


def last_tests(site: Site) -> list[Check]:
    """A warning for each kernel in which `portal kernels test` found a fault last; nothing is started."""
    folders = sorted(specs.ours(site))
    found = {folder: record.read(folder.parents[1]).get(folder.name) for folder in folders}
    tested = {folder.name: trial for folder, trial in found.items() if trial}
    faulty = {name: trial for name, trial in tested.items() if trial.is_fault}
    again = "Repair it, and test it again: portal kernels test --partition NAME --user PERSON"
    checks = [
        Check(f"kernel {name}, last test", "warning", trial.summary(), f"{again} {name}")
        for name, trial in faulty.items()
    ]
    if tested and not faulty:
        return [Check("last tests", "ok", f"{len(tested)} of {len(folders)} kernels were tested, all without a fault")]
    return checks


def tools(site: Site) -> list[Check]:
    """Each web tool's modules are loaded, and bring its program, and its last test found no fault; none is started."""
    trials = kept.read(site)
    return [_tool(tool.name, explained.fault_of(tool, site), trials.get(tool.name)) for tool in site.tool]


def _tool(name: str, fault: str, tested: Trial | None) -> Check:
    if fault:
        repair = f"portal tools explain {name} tells more; or take it out of [[tool]]."
        return Check(f"tool {name}", "failed", fault, repair)
    found = f"its program is there, {explained.last_test(tested)}"
    if tested and tested.is_fault:
        again = f"Repair it, and test it again: portal tools test --partition NAME --user PERSON {name}"
        return Check(f"tool {name}", "warning", found, again)
    return Check(f"tool {name}", "ok", found)
