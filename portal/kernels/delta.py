"""What modules change in an environment: compute the changes, and make them.

Every start of a kernel imports this; it imports nothing that is not loaded already.
"""

from __future__ import annotations

from collections.abc import Mapping

Environment = dict[str, str]
# What becomes of a variable: new text; text put before and after what it holds; or None, when it is taken away.
Change = str | tuple[str, str] | None
Delta = Mapping[str, Change]


def applied(delta: Delta, environ: Mapping[str, str]) -> Environment:
    """``environ`` with every change of ``delta`` made."""
    env = {name: value for name, value in environ.items() if delta.get(name, value) is not None}
    for name, change in delta.items():
        if isinstance(change, str):
            env[name] = change
        elif change is not None:
            env[name] = change[0] + env.get(name, "") + change[1]
    return env


def difference(before: Environment, after: Environment) -> dict[str, Change]:
    """The changes that make ``after`` of ``before``; what is only put around a value is kept as that."""
    gone: dict[str, Change] = dict.fromkeys(before.keys() - after.keys())
    return gone | {
        name: _change(before.get(name, ""), value) for name, value in sorted(after.items()) if before.get(name) != value
    }


def _change(old: str, new: str) -> Change:
    start = f":{new}:".find(f":{old}:") if old else -1
    return new if start < 0 else (new[:start], new[start + len(old) :])
