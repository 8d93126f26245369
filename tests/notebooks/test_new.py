"""What ``portal notebooks new`` writes runs at once on the kernel that was named."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.forms import of_long_form
from tests.inside import SITE_FILE, VENV_BIN, home, sh
from tests.notebooks.jobs import PERSON, own_folder


def notebooks(*words: str) -> str:
    """What a command of ``portal notebooks`` prints for the person, with the site's kernels."""
    clean = ["env", "-i", "PATH=/usr/bin:/bin", f"HOME={home(PERSON)}", f"USER={PERSON}"]
    command = [*clean, str(VENV_BIN / "portal"), "notebooks", *words, "--site", str(SITE_FILE)]
    return sh(*command, user=PERSON, timeout_s=120)


@pytest.mark.parametrize("kernel", ["python3", of_long_form("ir")])
def test_a_new_template_has_no_fault_and_runs_on_its_kernel(kernel: str) -> None:
    folder = own_folder("new-template")
    notebooks("new", "mine/first", "--kernel", kernel, "--folder", str(folder))
    assert "1 checked, no fault" in notebooks("check", "--folder", str(folder))
    output = folder / "out.ipynb"
    assert f"done: {output}" in notebooks("run", "mine/first", "--folder", str(folder), "--output", str(output))
    (check,) = (cell for cell in json.loads(output.read_bytes())["cells"] if cell["id"] == "check")
    assert "As expected: 3.1" in "".join(check["outputs"][0]["text"])
    shutil.rmtree(folder)
