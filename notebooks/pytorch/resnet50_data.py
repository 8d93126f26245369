"""Images and limits of the lesson on ResNet50, out of the modules beside its twin in TensorFlow."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "tensorflow"))
from measuring import memory_mib, training_memory_mib
from training_data import Data, load

__all__ = ["Data", "load", "memory_mib", "training_memory_mib"]
