"""What each script of this bench has in common: its arguments, and the steps that the bench asks for."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable


def arguments() -> argparse.Namespace:
    """The model's batch and image size, and how the script computes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--image-size", type=int, required=True)
    parser.add_argument("--precision", choices=("float32", "bfloat16"), required=True)
    return parser.parse_args()


def serve(train: Callable[[int], float]) -> None:
    """Warm up, then train as many steps as each line on standard input says, and answer with one JSON line.

    Arguments:
        train: takes so many steps and answers the last loss, when all is computed.
    """
    train(2)
    answer(ready=True)
    for line in sys.stdin:
        started = time.perf_counter()
        loss = train(int(line))
        answer(seconds=time.perf_counter() - started, loss=loss)


def answer(**fields: object) -> None:
    """One line for the bench."""
    print(json.dumps(fields), flush=True)
