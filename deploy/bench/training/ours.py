"""The training step of the template tensorflow/resnet50, as its module gives it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3] / "notebooks" / "tensorflow"))

import image_files
import resnet50_fast
import worker


def main() -> None:
    """The lesson's model on the lesson's synthetic batch."""
    asked = worker.arguments()
    cores = len(os.sched_getaffinity(0))
    model = resnet50_fast.resnet50(1000, asked.image_size, asked.precision)
    batches = resnet50_fast.synthetic(1000, image_files.How(asked.image_size, asked.batch_size, cores), seed=0)

    def train(steps: int) -> float:
        timing = resnet50_fast.train(model, batches, steps, resnet50_fast.Timing(asked.batch_size, warm_up=0))
        return float(timing.losses[-1])

    worker.serve(train)


if __name__ == "__main__":
    main()
