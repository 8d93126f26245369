"""Starts a kernel as a session does, has it calculate one line, and ends it: by its kernelspec, on private sockets."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from portal.errors import KernelError
from portal.homes import temporary

if TYPE_CHECKING:
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import KernelManager

TIMEOUT_S = 120  # an environment may lie on a slow file server, and is read for the first time
LINE = "6 * 7"
RESULT = "42"
CALCULATES = frozenset({"python", "r", "julia", "ruby"})  # languages of which that is a line
PROVISIONER = "dsportal-module"  # a session's own (pyproject.toml): a module that is missing is told at once
LONGEST_FOLDER = 60  # bytes of a path; sockets below it have 107 in all: unix(7)


@dataclass(frozen=True)
class Started:
    """A kernel that did what it should: the time until its first result, and what it calls itself."""

    seconds: float
    language: str


def started(name: str, specs: KernelSpecManager, environ: Mapping[str, str]) -> Started:
    """Start a kernel, and have it calculate where its language is known.

    Arguments:
        environ: what a session would give to it.

    Raises:
        KernelError: it does not start, ends, is silent, or calculates something else.
    """
    with (
        _folder() as folder,
        (folder / "said").open("w+b") as said,
        _process(name, specs, folder, environ, said) as one,
    ):
        manager, began_s = one
        client = manager.blocking_client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=TIMEOUT_S)
            told = client.kernel_info(reply=True, timeout=TIMEOUT_S)["content"]["language_info"]
            _calculate(client, str(told.get("name", "")))
        except RuntimeError as error:  # it ended, or was not ready in time
            raise KernelError(_ended(manager, said)) from error
        except TimeoutError as error:
            raise KernelError(f"it did not answer within {TIMEOUT_S} s") from error
        finally:
            client.stop_channels()
        return Started(time.monotonic() - began_s, _language(told))


def _folder() -> AbstractContextManager[Path]:
    """A private folder whose path is short enough for sockets."""
    if max(map(len, temporary.places()), default=0) >= LONGEST_FOLDER:
        return temporary.folder("dsp-", "/tmp")  # noqa: S108
    return temporary.folder("dsp-")


@contextmanager
def _process(
    name: str, specs: KernelSpecManager, folder: Path, environ: Mapping[str, str], said: IO[bytes]
) -> Iterator[tuple[KernelManager, float]]:
    """The process of a kernel, and when its start began; it is ended in any case."""
    from jupyter_client.manager import KernelManager
    from jupyter_client.provisioning.factory import KernelProvisionerFactory

    factory = KernelProvisionerFactory.instance()
    if PROVISIONER in factory.provisioners:
        factory.default_provisioner_name = PROVISIONER
    file = str(folder / "k.json")
    manager = KernelManager(kernel_name=name, kernel_spec_manager=specs, transport="ipc", connection_file=file)
    began_s = time.monotonic()
    try:
        manager.start_kernel(env=dict(environ), cwd=str(folder), stdout=subprocess.DEVNULL, stderr=said)
    except Exception as error:  # whatever a provisioner raises: its words are for the person
        raise KernelError(getattr(error, "message", "") or str(error)) from error
    try:
        yield manager, began_s
    finally:
        with suppress(RuntimeError):
            manager.shutdown_kernel(now=True)


def _calculate(client: Any, language: str) -> None:
    if language.lower() not in CALCULATES:
        return
    heard: list[str] = []
    client.execute_interactive(LINE, timeout=TIMEOUT_S, output_hook=lambda message: heard.append(_text(message)))
    if RESULT not in "".join(heard):
        raise KernelError(f"it starts, but says {''.join(heard)[:200]!r} to {LINE}")


def _text(message: Mapping[str, Any]) -> str:
    content = message["content"]
    return str(content.get("data", {}).get("text/plain") or content.get("text") or content.get("evalue") or "")


def _language(told: Mapping[str, Any]) -> str:
    name = str(told.get("name", ""))
    return f"{name[:1].upper()}{name[1:]} {told.get('version', '')}".strip()


def _ended(manager: KernelManager, said: IO[bytes]) -> str:
    """Why a kernel was not ready: its own last line, where it has ended."""
    if manager.is_alive():
        return f"it was not ready within {TIMEOUT_S} s"
    said.seek(0)
    lines = [line for line in said.read(65536).decode(errors="replace").splitlines() if line.strip()]
    return f"it ended at its start: {lines[-1]}" if lines else "it ended at its start without a word"
