"""What the supervisor gives to PID 1 of the namespaces: one value, as JSON in its argv. It holds no secret."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from deploy.demo.releases import BASE


@dataclass(frozen=True)
class Plan:
    """One start: which folders, which variant, which parts."""

    state: str  # the state folder
    checkout: str
    venv: str  # the portal's own environment
    variant: str  # "root" or "rootless"
    groups: tuple[str, ...]  # the unpacked package groups, the first one on top
    hierarchies: tuple[str, ...] = ()  # cgroup v1 hierarchies, e.g. "memory", "cpu,cpuacct"; empty = no cgroups
    hub: bool = True
    domain: str = ""  # of the portal, with its port; "" = all at one address
    is_built: bool = False  # the private root is there: PID 1 goes on in it

    @property
    def isolates(self) -> bool:
        """Whether devices and memory of jobs are really constrained."""
        return bool(self.hierarchies)

    @property
    def is_whole(self) -> bool:
        """Whether the system comes out of packages, nothing of it from the host."""
        return BASE in self.groups

    def path(self, *parts: str) -> Path:
        """A path below the state folder."""
        return Path(self.state, *parts)

    def dumps(self) -> str:
        """The plan as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def loads(cls, text: str) -> Plan:
        """The plan that :meth:`dumps` wrote."""
        fields = json.loads(text)
        return cls(**{**fields, "groups": tuple(fields["groups"]), "hierarchies": tuple(fields["hierarchies"])})
