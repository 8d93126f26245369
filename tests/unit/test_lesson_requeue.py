"""The lesson that puts a job back into the queue: when it tells Slurm to start the job again."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

LESSON = Path(__file__).parents[2] / "notebooks" / "cluster" / "checkpoint_resume.ipynb"
JOBS = {"whole": "7", "stopped": "8"}


class Queue:
    """A job that is told to end, waits again, and is lost when its node gets it within a second of its end."""

    def __init__(self, folder: Path) -> None:
        self.now = 100.0
        self.log = folder / "stopped.log"
        self.log.write_text("step 0: run 1 begins on gpu01\nstep 25: saved, loss 0.5\n")
        self.requeued_at = self.started_at = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def slurm(self, command: str, *words: str) -> tuple[int, str, str]:
        if command == "scancel":
            self.requeued_at = self.now
        if command == "scontrol":
            assert words[-2:] == ("JobId=8", "StartTime=now")
            self.started_at = self.started_at or self.now
        return 0, f"7|COMPLETED|None|gpu01\n8|{self.state()}" if command == "squeue" else "", ""

    def state(self) -> str:
        if self.started_at:
            return "FAILED|None|gpu01" if self.started_at < self.requeued_at + 1 else "COMPLETED|None|gpu01"
        return "PENDING|BeginTime|" if self.requeued_at else "RUNNING|None|gpu01"


def test_a_job_that_was_requeued_is_not_told_to_start_in_the_second_in_which_it_ended(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    cells = {cell["id"]: "".join(cell["source"]) for cell in json.loads(LESSON.read_bytes())["cells"]}
    known: dict[str, Any] = {"jobs": JOBS, "slurm": queue.slurm, "folder": tmp_path, "re": re, "stop_at": 25}

    exec(cells["follow-jobs"], known | {"time": queue, "wait_seconds": 60})  # noqa: S102  a cell of our own lesson

    assert queue.started_at > queue.requeued_at > 0
    assert queue.state() == "COMPLETED|None|gpu01"
