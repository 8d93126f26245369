"""Submit, list, follow and cancel the jobs of the person who asks, with her own rights: sbatch, squeue and scancel.

One ``squeue`` answers everybody who asks within some seconds, and nothing here keeps an event loop waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from portal import data
from portal.errors import RequestError, SlurmUnavailable
from portal.homes.held_place import is_own_all_the_way
from portal.homes.log_part import LogPart, read_part
from portal.homes.own_folder import of_others_in
from portal.jobs import environment, kept, notes, queue
from portal.jobs.notes import Note
from portal.jobs.order import JobOrder
from portal.jobs.queue import Listed, OwnJobEnd
from portal.jobs.reasons import refused
from portal.jobs.submit import Seen, files_of, look, parse_submit, placed, submit_command
from portal.jobs.words import JobView, ended, remembered, view_of
from portal.kernels.delta import Environment
from portal.kernels.python_start import without_folder
from portal.launcher import is_unavailable
from portal.slurm import times
from portal.slurm.jobs import Phase
from portal.slurm.runner import Result, RunError, Runner, run
from portal.slurm.snapshot import NEVER, Snapshot, SnapshotCache

SHARED_S = 10.0
FOLLOWED_S = 15.0  # who follows a log that is silent asks whether its job goes on
LOGS_KNOWN = 200
SUBMIT_TIMEOUT_S = 60
QUERY_TIMEOUT_S = 20
ACCOUNTING_EVERY_S = 60.0
ASKED_AT_ONCE = 50
REMEMBERED_S = 14 * 86_400
EXCHANGED = (
    "the file that you have opened: another one is there by now, or more or less is in it than this page shows, "
    "or this page is older than your session. "
    "Close it, in all its views, and open it again, or load the page again, and look at it first; or save it as yours"
)

IsAnother = Callable[[Path, Path, int, Sequence[object], Path | None], bool]


@dataclass(frozen=True)
class OwnQueue(Snapshot):
    """A person's jobs at one moment: those of the queue by id, and by array those that only accounting knows."""

    listed: Mapping[str, Listed] = field(default_factory=dict)
    ended: Mapping[str, Mapping[str, OwnJobEnd]] = field(default_factory=dict)
    notes: Mapping[str, Note] = field(default_factory=dict)


class JobDesk:
    """The jobs of one person.

    Args:
        environ: her environment; what belongs to the session is taken out of it for every command.
        run: how a process is started; a seam for tests.
        clock: seconds, never going back.
        now: seconds since 1970.
        is_another: whether what is at a path, and where that is without links, of such an owner, is
            another file than the person has opened there as her own; what the page that asks shows of it; and the copy
            that would run.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        run: Runner = run,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        is_another: IsAnother = lambda _path, _real, _owner, _shown, _kept: False,
    ) -> None:
        self._given = dict(environ)
        self._environ = environment.own(environ)
        self._folder = notes.folder_of(environ)
        self._cluster = environ.get("SLURM_CLUSTER_NAME", "")  # that of the session, where this is one
        self._run = run
        self._clock = clock
        self._now = now
        self._is_another = is_another
        self._queue = SnapshotCache(self._look, OwnQueue(), clock, "Slurm, asked for this person's jobs,")
        self._ended: dict[str, dict[str, OwnJobEnd]] = {}
        self._accounting_at = NEVER
        self._logs: dict[str, str] = {}  # the path of each log that somebody has read

    async def submit(self, order: JobOrder) -> Note:
        """Submit a job; what is remembered of it.

        Raises:
            RequestError: the file is not there, or not the one that she has opened.
            PortalError: others can change it, and no copy of it can be kept.
            KernelError: a module cannot be loaded.
            SubmitRefused: Slurm does not take it, in words.
            SlurmUnavailable: Slurm does not answer.
        """
        seen = await asyncio.to_thread(self._looked_at, order)
        environ = await asyncio.to_thread(self._environ_for, order)
        order = await asyncio.to_thread(placed, order, Path(self._given.get("HOME") or Path.home()))
        seen = await asyncio.to_thread(self._kept, order, seen)
        argv = submit_command(order, sys.executable, data.folder("templates") / "job" / "job.sh", seen)
        done = await self._done(argv, environ, SUBMIT_TIMEOUT_S)
        if done.returncode:
            said = done.stderr.strip() or done.stdout.strip()
            if is_unavailable(done.returncode, said):  # it may have the job all the same, and the copy stays
                raise SlurmUnavailable("Slurm cannot take the job just now; try again in a minute.", detail=said)
            if seen.kept:
                await asyncio.to_thread(seen.kept.remove)
            raise refused(said)
        note = await self._noted(order, parse_submit(done.stdout))
        found = await self._queue.get(max_age_s=-1)
        await asyncio.to_thread(self._tidy, seen, note, found)
        return note

    def _looked_at(self, order: JobOrder) -> Seen:
        seen = None
        with contextlib.suppress(OSError):
            seen = look(order) if order.file.is_file() else None
        if seen is None:
            raise RequestError("file", str(order.file), "a notebook, program or script that is there")
        return seen

    def _kept(self, order: JobOrder, seen: Seen) -> Seen:
        """With a copy of what others can change: the copy is compared with what a page shows, and runs."""
        copy = None if seen.is_hers else kept.keep(self._folder, seen.real)
        owner = copy.owner if copy else os.geteuid()
        if self._is_another(order.file, seen.real, owner, order.shown, copy.path if copy else None):
            if copy:
                copy.remove()
            raise RequestError("file", str(order.file), EXCHANGED)
        return replace(seen, kept=copy)

    def _tidy(self, seen: Seen, note: Note, found: OwnQueue) -> None:
        """A copy stays as long as its job may start."""
        if seen.kept:
            seen.kept.belongs_to(note.id, self._cluster)
        if not found.error:
            kept.forget(self._folder, {job_id.partition("_")[0] for job_id in found.listed}, self._cluster)

    def _environ_for(self, order: JobOrder) -> Environment:
        """For the job, and for ``sbatch``, which begins in its folder: nothing there is found by chance."""
        environ = environment.of_job(self._given, order.modules)
        is_alone = is_own_all_the_way(order.folder) and not of_others_in(order.folder)
        return environ if is_alone else without_folder(environ)

    async def jobs(self) -> list[JobView]:
        """Her jobs without her sessions, the newest first; those that Slurm has forgotten for two weeks.

        Raises:
            SlurmUnavailable: Slurm does not answer.
        """
        found = await self._queue.get(SHARED_S)
        if found.error:
            raise found.error
        bases = {job_id.partition("_")[0] for job_id in found.listed}
        views = [view_of(one, found.notes.get(job_id.partition("_")[0])) for job_id, one in found.listed.items()]
        for base, note in found.notes.items():
            if base not in bases and self._now() - note.submitted_at < REMEMBERED_S:
                ends: Mapping[str, OwnJobEnd | None] = found.ended.get(base) or {base: None}
                views += [remembered(job_id, note, end) for job_id, end in ends.items()]
        return sorted(views, key=_newest_first)

    async def job(self, job_id: str) -> JobView:
        """One of her jobs, or a task of an array.

        Raises:
            RequestError: there is no such job of hers.
            SlurmUnavailable: Slurm does not answer.
        """
        view = await self._view(job_id)
        if view.phase is not Phase.ENDED or view.id not in self._queue.last.listed:
            return view
        shown = await self._done(queue.show_command(job_id), self._environ, QUERY_TIMEOUT_S)
        end = queue.parse_status(shown.stdout)
        return replace(view, words=ended(end)) if end else view

    async def _view(self, job_id: str) -> JobView:
        views = {view.id: view for view in await self.jobs()}
        if queue.checked_id(job_id) not in views:
            near = ", ".join(list(views)[:10]) or "none, you have no jobs"
            raise RequestError("job", job_id, f"your own jobs: {near}")
        return views[job_id]

    async def log(self, job_id: str, start: int = 0) -> LogPart:
        """What a job has written from the byte ``start`` on, at most :data:`portal.homes.log_part.LOG_PART_BYTES`.

        Raises:
            RequestError: there is no such job of hers, or its log is not to be found.
            SlurmUnavailable: Slurm does not answer.
        """
        path = self._logs.get(job_id)
        if path:
            return await self._followed(job_id, path, start)
        view = await self._view(job_id)
        path = view.log or await self._log_of(job_id)
        if not path:
            raise RequestError("job", job_id, "jobs that the portal submitted, or that ended some minutes ago at most")
        self._logs[job_id] = path
        while len(self._logs) > LOGS_KNOWN:
            self._logs.pop(next(iter(self._logs)))
        is_over = view.phase is Phase.ENDED  # asked before the file is read: what comes in between is not lost
        return await asyncio.to_thread(read_part, path, start, is_over)

    async def _followed(self, job_id: str, path: str, start: int) -> LogPart:
        """The next part of a log that is known; Slurm is asked only while the file is silent, and then seldom."""
        part = await asyncio.to_thread(read_part, path, start, False)
        if part.text or not await self._is_over(job_id):
            return part
        return await asyncio.to_thread(read_part, path, start, True)

    async def _is_over(self, job_id: str) -> bool:
        """Whether a job has ended; not while Slurm is silent."""
        found = await self._queue.get(FOLLOWED_S)
        job = found.listed.get(job_id)
        return not found.error and (job is None or job.job.phase is Phase.ENDED)

    async def cancel(self, job_id: str) -> None:
        """Cancel a job of hers; of an array all of it, or one task.

        Raises:
            RequestError: there is no such job of hers.
            SlurmUnavailable: Slurm does not answer, or does not cancel it.
        """
        views = {view.id: view for view in await self.jobs()}
        bases = {known.partition("_")[0] for known in views}
        if queue.checked_id(job_id) not in bases | views.keys():
            raise RequestError("job", job_id, f"your own jobs: {', '.join(sorted(bases)) or 'none, you have no jobs'}")
        done = await self._done(queue.cancel_command(job_id), self._environ, QUERY_TIMEOUT_S)
        if done.returncode:
            raise SlurmUnavailable(f"Slurm did not cancel job {job_id}: {done.stderr.strip()[:500]}")
        await self._queue.get(max_age_s=-1)

    async def _noted(self, order: JobOrder, job_id: str) -> Note:
        """Remember a job; a home that cannot be written does not undo the submission."""
        files = files_of(order)
        log = str(order.folder / files.log) if files.log else await self._log_of(job_id)
        output = str(order.folder / files.output) if files.output else ""
        name = order.name or order.file.name
        note = Note(job_id, name, str(order.file), int(self._now()), log, output)
        with contextlib.suppress(OSError):
            await asyncio.to_thread(notes.write, self._folder, note)
        return note

    async def _log_of(self, job_id: str) -> str:
        shown = await self._done(queue.show_command(job_id), self._environ, QUERY_TIMEOUT_S)
        return queue.parse_log(shown.stdout, os.getuid())

    async def _look(self) -> OwnQueue:
        command = queue.own_jobs_command(os.getuid())
        done = await self._done(command, {**self._environ, **times.EPOCHS}, QUERY_TIMEOUT_S)
        if done.returncode:
            raise SlurmUnavailable("Slurm does not answer; your jobs go on.", detail=done.stderr.strip()[:500])
        listed = queue.parse_own_jobs(done.stdout)
        known = await asyncio.to_thread(notes.read, self._folder)
        bases = {job_id.partition("_")[0] for job_id in listed}
        await self._account_for([base for base in known if base not in bases and base not in self._ended])
        return OwnQueue(listed=listed, ended=dict(self._ended), notes=known)

    async def _account_for(self, forgotten: Sequence[str]) -> None:
        """Ask accounting once a minute at most; not every cluster has one."""
        if not forgotten or self._clock() - self._accounting_at < ACCOUNTING_EVERY_S:
            return
        self._accounting_at = self._clock()
        with contextlib.suppress(SlurmUnavailable):
            done = await self._done(queue.ended_command(forgotten[:ASKED_AT_ONCE]), self._environ, QUERY_TIMEOUT_S)
            for job_id, end in queue.parse_ended(done.stdout).items():
                self._ended.setdefault(job_id.partition("_")[0], {})[job_id] = end

    async def _done(self, argv: Sequence[str], environ: Mapping[str, str], timeout_s: float) -> Result:
        try:
            return await self._run(argv, env=environ, timeout_s=timeout_s)
        except RunError as error:
            raise SlurmUnavailable("Slurm does not answer; your jobs go on.", detail=str(error)) from error


def _newest_first(view: JobView) -> tuple[int, int]:
    base, _, task = view.id.partition("_")
    return -int(base.partition("+")[0]), int(task) if task.isdecimal() else 0
