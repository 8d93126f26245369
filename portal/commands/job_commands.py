"""``portal job``: a notebook, a program or a script as a job of Slurm, as the person who types."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from portal.commands.log_text import LogText
from portal.errors import printable

if TYPE_CHECKING:  # `portal` starts without what only this needs
    from portal.jobs.desk import JobDesk
    from portal.jobs.words import JobView

FOLLOW_EVERY_S = 1.0
_NUMBERS = {
    "--nodes": "how many nodes",
    "--tasks": "how many tasks in all; a Python program runs once in each",
    "--gpus": "GPUs on each node",
    "--cores": "cores for each task",
    "--memory-gb": "memory on each node, in GB",
}
_TEXTS = {
    "--array": "indexes of a job array, such as 0-9",
    "--partition": "the partition",
    "--account": "Slurm's account",
    "--name": "what the job is called",
}


class _WithArguments(argparse.ArgumentParser):
    """Leaves what stands behind ``--`` to the file that is run, wherever the options stand."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As its own, with ``arguments`` where the command has them."""
        if self.get_default("arguments") is None or "--" not in args:
            return super().parse_known_args(args, namespace)
        end = args.index("--")
        parsed, unknown = super().parse_known_args(args[:end], namespace)
        parsed.arguments = args[end + 1 :]
        return parsed, unknown


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands to those of ``portal``."""
    words = "a notebook or a script as a Slurm job of yours"
    job = commands.add_parser("job", help=words).add_subparsers(required=True, parser_class=_WithArguments)
    submit = job.add_parser("submit", help="run a file as a job; what is not said is Slurm's default, or the script's")
    submit.add_argument("file", help="a notebook (.ipynb), a program (.py) or a batch script (.sh, .job)")
    for name, words in _NUMBERS.items():
        submit.add_argument(name, type=int, metavar="N", help=words)
    submit.add_argument("--hours", type=float, metavar="N", help="after which the job ends at the latest")
    submit.add_argument("--module", action="append", dest="modules", metavar="M", help="to load; may be repeated")
    for name, words in _TEXTS.items():
        submit.add_argument(name, metavar=name.removeprefix("--").upper(), help=words)
    submit.epilog = "What stands behind -- are arguments of the file's own; of a notebook NAME=VALUE."
    submit.set_defaults(command=_submit, arguments=[])
    job.add_parser("list", help="your jobs").set_defaults(command=_list)
    others = {"show": "one job", "log": "what a job has written", "cancel": "cancel a job, or one task of an array"}
    for (name, text), act in zip(others.items(), (_show, _log, _cancel), strict=True):
        parser = job.add_parser(name, help=text)
        parser.add_argument("id", help="its number, such as 4711, or 4711_2 for a task of an array")
        parser.set_defaults(command=act)
        if name == "log":
            parser.add_argument("--follow", action="store_true", help="go on until the job has ended")


def _desk() -> JobDesk:
    from portal.jobs.desk import JobDesk

    return JobDesk(os.environ)


def _submit(arguments: argparse.Namespace) -> int:
    """A notebook runs in its own folder, as in Jupyter; anything else in this one, as with sbatch."""
    from portal.jobs.order import OPTIONS, order_of

    file = Path(arguments.file).absolute()
    folder = file.parent if file.suffix == ".ipynb" else Path.cwd()
    note = asyncio.run(_desk().submit(order_of(file, folder, {name: getattr(arguments, name) for name in OPTIONS})))
    print(f"job {note.id} is submitted: portal job log --follow {note.id}")
    return 0


def _list(arguments: argparse.Namespace) -> int:
    views = asyncio.run(_desk().jobs())
    for view in views:
        print(printable(f"{view.id:<12} {view.state:<12} {view.name[:30]:<30} {_told(view)}"))
    if not views:
        print("You have no jobs: portal job submit FILE.")
    return 0


def _show(arguments: argparse.Namespace) -> int:
    view = asyncio.run(_desk().job(arguments.id))
    rows = {
        "job": view.id,
        "name": view.name,
        "state": f"{view.state}: {_told(view)}".removeprefix(": "),
        "partition": view.partition,
        "submitted": _clock_time(view.submitted_at),
        "started": "" if view.phase == "waiting" else _clock_time(view.starts_at),
        "ended" if view.phase == "ended" else "ends": _clock_time(view.ends_at),
        "file": view.file,
        "output": view.output,
        "log": view.log,
    }
    for name, text in rows.items():
        if text:
            print(printable(f"{name:<10} {text}"))
    return 0


def _log(arguments: argparse.Namespace) -> int:
    return asyncio.run(_print_log(_desk(), arguments.id, arguments.follow))


async def _print_log(desk: JobDesk, job_id: str, follows: bool) -> int:
    """Print the log, whoever wrote it: with colours, and without what steers a terminal otherwise."""
    text = LogText()
    try:
        return await _print_parts(desk, job_id, follows, text)
    finally:
        sys.stdout.write(text.end())
        sys.stdout.flush()


async def _print_parts(desk: JobDesk, job_id: str, follows: bool, text: LogText) -> int:
    start = 0
    told = ""
    waits = True
    while True:
        part = await desk.log(job_id, start)
        sys.stdout.write(text.shown(part.text))
        sys.stdout.flush()
        if waits:  # of a job that runs its log is read, and Slurm is left alone
            view = await desk.job(job_id)
            waits = view.phase == "waiting"
        if waits and view.words != told:
            told = view.words
            print(printable(f"job {job_id} {_told(view)}"), file=sys.stderr)
        if part.is_over or (not follows and part.next == start):
            return 0
        if part.next == start:
            await asyncio.sleep(FOLLOW_EVERY_S)
        start = part.next


def _cancel(arguments: argparse.Namespace) -> int:
    asyncio.run(_desk().cancel(arguments.id))
    print(f"job {arguments.id} is cancelled")
    return 0


def _told(view: JobView) -> str:
    if view.phase == "waiting" and view.starts_at:
        return f"{view.words}; Slurm expects it to start at {_clock_time(view.starts_at)}"
    return view.words


def _clock_time(at: datetime | None) -> str:
    return at.astimezone().strftime("%Y-%m-%d %H:%M %Z") if at else ""
