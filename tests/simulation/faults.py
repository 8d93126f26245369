"""What goes wrong: each fault by its name, lasting as long as chance says."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from portal.slurm.jobs import squeue_command
from portal.testing import behaviours as does
from portal.testing import outages as outage
from portal.testing import queries
from portal.testing.bad_answers import bad_answers
from portal.testing.cluster_parts import FakeJob
from portal.testing.fake_slurm import SavedState

if TYPE_CHECKING:
    from tests.simulation.story import Simulation

Fault = Callable[["Simulation"], Awaitable[None]]


def _lasting(*outages: outage.Outage) -> Fault:
    async def fault(simulation: Simulation) -> None:
        found = simulation.world.chance.choice(outages)
        await simulation.world.lasts(found, simulation.lasts(10, 60, 300, 900))

    return fault


async def bad_answer(simulation: Simulation) -> None:
    """squeue prints something else: each of the answers that have been seen, a few at a time."""
    world = simulation.world
    for _ in range(world.chance.randint(1, 4)):
        running = [job for job, status in world.living() if status.is_running]
        if not running:
            return
        listing = queries.squeue(world.slurm, squeue_command()).stdout
        answers = bad_answers(listing, world.chance.choice(running).id)
        await world.lasts(world.chance.choice(sorted(answers.items()))[1], world.chance.uniform(5, 120))


async def hub_killed(simulation: Simulation) -> None:
    """At a random moment: often beside a command of the launcher, before or after it is done."""
    world = simulation.world
    for _ in range(world.chance.choice((1, 1, 1, 2, 5))):
        await _moment(simulation)
        await simulation.kill_hub()
        await asyncio.sleep(simulation.lasts(1, 5, 30, 600))
        simulation.start_hub()


async def _moment(simulation: Simulation) -> None:
    world = simulation.world
    left = world.chance.randint(1, 20)
    kind = world.chance.choice(("sudo", "squeue", "any"))
    reached = asyncio.Event()

    def count(command: tuple[str, ...]) -> None:
        nonlocal left
        left -= kind in ("any", command[0])
        if left <= 0:
            reached.set()

    world.on_command = count
    try:
        async with asyncio.timeout(world.chance.uniform(1, 120)):
            await reached.wait()
    except TimeoutError:
        pass
    finally:
        world.on_command = lambda command: None
    for _ in range(world.chance.randint(0, 5)):
        await asyncio.sleep(0)


async def database_rolled_back(simulation: Simulation) -> None:
    """The hub is stopped, and starts with the database of an older backup."""
    world = simulation.world
    backup = copy.deepcopy(simulation.rows)
    await asyncio.sleep(simulation.lasts(30, 300, 1800))
    await _moment(simulation)
    await simulation.kill_hub()
    await asyncio.sleep(world.chance.uniform(1, 120))
    await simulation.kill_hub()  # another fault may have started it
    simulation.rolled_back(backup)
    simulation.start_hub()


async def announcements(simulation: Simulation) -> None:
    """What servers announce is lost, late, and heard after their end."""
    world = simulation.world
    world.loss = world.chance.choice((0.0, 0.3, 0.8))
    world.late_s = world.chance.choice((0, 60, 240))
    world.ghosts = world.chance.choice((0.02, 0.5))
    await asyncio.sleep(simulation.lasts(120, 600))
    world.loss = 0.0
    world.late_s = 0.0
    world.ghosts = 0.02


def _some(simulation: Simulation, share: float) -> Sequence[FakeJob]:
    living = [job for job, _ in simulation.world.living()]
    return simulation.world.chance.sample(living, k=int(len(living) * share + 0.5))


async def jobs_end(simulation: Simulation) -> None:
    """Jobs end, each in another way."""
    world = simulation.world
    ends: tuple[Callable[[float], does.Happening], ...] = (
        lambda s: does.Completes(after_s=s),
        lambda s: does.FailsWith(3, after_s=s),
        lambda s: does.OutOfMemory(after_s=s),
        lambda s: does.TimeLimit(after_s=s),
        lambda s: does.CancelledByAdmin(after_s=s),
        lambda s: does.Preempted(after_s=s),
        lambda s: does.NodeFails(after_s=s),
    )
    for job in _some(simulation, world.chance.choice((0.02, 0.1, 0.5))):
        world.slurm.happens(job.id, world.chance.choice(ends)(world.chance.uniform(0, 120)))
    await asyncio.sleep(120)


async def jobs_move(simulation: Simulation) -> None:
    """Jobs are requeued, once or twice: by an administrator, for a job of higher priority, with their node."""
    world = simulation.world
    for job in _some(simulation, world.chance.choice((0.02, 0.1, 0.3))):
        for _ in range(world.chance.choice((1, 1, 2))):
            after_s = world.chance.uniform(0, 300)
            wait_s = world.chance.choice((5.0, 121.0))
            world.slurm.happens(
                job.id,
                world.chance.choice(
                    (
                        does.Requeued(after_s=after_s, wait_s=wait_s),
                        does.Preempted(after_s=after_s, requeue=True),
                        does.NodeFails(after_s=after_s, requeue=True),
                    )
                ),
            )
    await asyncio.sleep(300)


async def node_crashes(simulation: Simulation) -> None:
    """Everything on it is requeued in one moment."""
    world = simulation.world
    for job in _some(simulation, 0.2):
        if world.slurm.status(job).is_running:
            world.slurm.happens(job.id, does.NodeFails(after_s=0, requeue=True))
    await asyncio.sleep(130)


async def state_restored(simulation: Simulation) -> None:
    """slurmctld comes back with an older state of its own: ids are given once more."""
    world = simulation.world
    saved = world.slurm.saved_state()
    await asyncio.sleep(simulation.lasts(60, 600))
    await _comes_back(simulation, saved)


async def state_lost(simulation: Simulation) -> None:
    """slurmctld comes back without its state: every job is gone, and ids begin anew."""
    await _comes_back(simulation, SavedState())


async def _comes_back(simulation: Simulation, saved: SavedState) -> None:
    """The jobs that it does not know any more are "runaway" in accounting: they seem to wait or to run for ever."""
    world = simulation.world
    await world.lasts(outage.ControllerDown(), world.chance.uniform(5, 120))
    world.runaway |= {job.name for job, _ in world.living()}
    world.slurm.restore(saved)


FAULTS: dict[str, Fault] = {
    "slurmctld hangs": _lasting(outage.SlurmSilent(), outage.SlurmSilent(message_timeout_s=10)),
    "slurmctld is down": _lasting(outage.ControllerDown(), outage.ControllerRestarts(for_s=20)),
    "munged is dead": _lasting(outage.MungeDown()),
    "accounting is dead": _lasting(outage.AccountingDown()),
    "squeue is empty": _lasting(outage.SlurmEmpty()),
    "squeue answers nonsense": bad_answer,
    "sbatch's answer is lost": _lasting(outage.SbatchAnswerLost()),
    "sbatch refuses": _lasting(outage.SbatchRefuses()),
    "scancel is not answered": _lasting(outage.ScancelUnanswered(), outage.ScancelAnswerLost()),
    "the launcher fails": _lasting(outage.LauncherFails()),
    "the hub is killed": hub_killed,
    "the database is rolled back": database_rolled_back,
    "announcements are lost or late": announcements,
    "jobs end": jobs_end,
    "jobs are requeued": jobs_move,
    "a node crashes": node_crashes,
    "slurmctld's state is restored": state_restored,
    "slurmctld's state is lost": state_lost,
}
