"""The training step of the template tensorflow/resnet50; PYTHONPATH names the folder of its modules."""

from __future__ import annotations

import os

import image_files
import resnet50_fast
import timed_training

from tests.bench.training import training_script


def main() -> None:
    """The lesson's model on the lesson's synthetic batch."""
    asked = training_script.arguments()
    cores = len(os.sched_getaffinity(0))
    model = resnet50_fast.resnet50(1000, asked.image_size, asked.precision)
    batches = resnet50_fast.synthetic(1000, image_files.How(asked.image_size, asked.batch_size, cores), seed=0)

    def train(steps: int) -> float:
        timing = timed_training.train(model, batches, steps, timed_training.Timing(asked.batch_size, warm_up=0))
        return float(timing.losses[-1])

    training_script.serve(train)


if __name__ == "__main__":
    main()
