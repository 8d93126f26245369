"""The kernels of the settings file, each started for real, as one of the cluster's people."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from portal.site import load
from tests.inside import SITE_FILE, VENV_BIN, home, sh

# Runs in the portal's environment as the person: start the kernel, let it calculate, print what it answered.
CALCULATE = """
import json, sys, tempfile
from jupyter_client import KernelManager

name, code = sys.argv[1:]
folder = tempfile.TemporaryDirectory(prefix="k-")
manager = KernelManager(kernel_name=name, transport="ipc", connection_file=f"{folder.name}/k.json")
said = []
def hear(message):
    content = message["content"]
    said.append(content.get("text") or content.get("data", {}).get("text/plain", "") or content.get("evalue", ""))
manager.start_kernel()
client = manager.client()
client.start_channels()
try:
    client.wait_for_ready(timeout=60)
    client.execute_interactive(code, timeout=60, output_hook=hear)
finally:
    client.stop_channels()
    manager.shutdown_kernel(now=True)
print(json.dumps("".join(said)))
"""


def answer(kernel: str, code: str) -> str:
    """What a kernel of the site says to a line of code, as alice."""
    folder = load(str(SITE_FILE)).kernels.folder
    variables = [f"JUPYTER_PATH={folder}", f"HOME={home('alice')}", "PATH=/usr/bin:/bin", "LANG=C.UTF-8"]
    command = ["env", "-i", *variables, str(VENV_BIN / "python"), "-I", "-c", CALCULATE, kernel, code]
    printed = sh(*command, user="alice", timeout_s=150).splitlines()  # what the kernel says on its stderr, too
    (told,) = [line for line in printed if line.startswith('"')]
    return str(json.loads(told))


@pytest.mark.parametrize(
    ("kernel", "code"), [("python3", "print(6 * 7)"), ("ir", "cat(6 * 7)"), ("tensorflow", "6 * 7")]
)
def test_a_kernel_of_the_site_calculates(kernel: str, code: str) -> None:
    assert "42" in answer(kernel, code)


def test_r_knows_that_it_is_r() -> None:
    assert answer("ir", "cat(R.version$language)") == "R"


def test_keras_is_a_kernel_of_its_own_upon_tensorflow() -> None:
    code = "import keras; print(keras.backend.backend(), keras.__version__)"
    assert re.search(r"^tensorflow 3\.", answer("keras", code), re.MULTILINE)  # beside what TensorFlow notes


def test_the_module_kernel_runs_out_of_the_modules_environment() -> None:
    interpreter = answer("tensorflow", "import sys; print(sys.prefix)")

    assert Path(interpreter.strip()).is_relative_to("/cm/shared/apps/tensorflow")
