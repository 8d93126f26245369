"""What the notebook templates say before they begin, where a kernel has not what they need."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


@pytest.mark.parametrize("framework", ["TensorFlow", "PyTorch", "MXNet"])
def test_a_lesson_on_a_kernel_without_its_framework_ends_with_one_sentence(framework: str) -> None:
    cells = json.loads((NOTEBOOKS / framework.lower() / "mnist.ipynb").read_bytes())["cells"]
    first = next(cell for cell in cells if cell["id"] == "check-kernel")
    assert [cell["id"] for cell in cells if cell["cell_type"] == "code"].index("check-kernel") == 1, (
        "before all imports"
    )

    with pytest.raises(AssertionError, match=f"^This kernel has no {framework}: choose the kernel {framework}"):
        exec("".join(first["source"]), {})  # noqa: S102  this environment has none of the three
