"""From a checked request to what is submitted: options for ``sbatch`` and the session's environment.

A person's choices become options in argv and nothing else; the batch script is a constant file
(``templates/job/session.sh``). The environment holds the session's token: it travels on the launcher's standard
input and ends in a file that only the person can read.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from weakref import WeakValueDictionary

from portal.errors import AccountGone, ActingRefused, SlurmUnavailable, SubmitRefused
from portal.language.texts import N_, _
from portal.request import CHOICES, SessionRequest
from portal.settings.session_tables import PartitionTable
from portal.site import Site
from portal.slurm.runner import Result, RunError, Runner, is_account

LAUNCH_TIMEOUT_S = 60
NOT_HANDED_ON = N_(
    "The session could not be handed to Slurm: your home, or the cluster's list of accounts, does not answer. "
    "Try again in some minutes; if it stays so, tell your administrator (portal doctor)."
)
_TELL = N_("Tell your administrator: `portal doctor --person {username}` on that host says how to repair it.")
NO_ACCOUNT = N_(
    "You have no account on the portal's host: it knows nobody called {username}, so it can start no session for you."
)
NOT_ALLOWED_TO_ACT = N_(
    "The portal is not allowed to start sessions for you: on its host sudo does not let it act as {username}."
)
PLAIN_WORDS = {"LC_ALL": "C"}  # sudo speaks the language of the hub's account else
PATIENCE_S = 5.0
UNFINISHED_PER_PERSON = 20
JOB_NAME_PREFIX = "dsportal-"
EXTENDER = "portal-extend"  # beside portal-launch; it runs as an operator of Slurm (portal/extending)
KEY_LENGTH = 16
_KEY = re.compile(r"[0-9a-f]{16}\Z")
# What sudo says when it starts nothing: sudo(8) 1.8 to 1.9, and sudo-rs by its sources.
_REFUSED_BY_SUDO = re.compile(
    r"^(Sorry, user |\S+ is not in the sudoers file|\S+ is not allowed to run sudo"
    r"|sudo(-rs)?: (a password is required|a terminal is required|no tty present|sorry, you must have a tty"
    r"|unknown user|account validation failure|PAM account management error|\S+: command not found"
    r"|I'm sorry |user .* not found|interactive authentication is required))",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Submission:
    """One job to submit: the session's ``key``, options for ``sbatch``, and the session's environment."""

    key: str
    options: tuple[str, ...]
    environment: Mapping[str, str]


def new_key(hub_id: str) -> str:
    """A key that no session had before; it begins with the hub's id, so that a hub knows its own jobs."""
    return hub_id + secrets.token_hex((KEY_LENGTH - len(hub_id)) // 2)


def is_key(text: str) -> bool:
    """Whether a text may be a session's key."""
    return bool(_KEY.match(text))


def job_name(key: str) -> str:
    """The job name that carries a session's key, so that a job can be found by it."""
    if not is_key(key):
        raise ValueError(f"a session key is 16 hexadecimal digits, not {key!r}")
    return JOB_NAME_PREFIX + key


def submission(
    request: SessionRequest, site: Site, key: str, environment: Mapping[str, str], mail: str = ""
) -> Submission:
    """What to submit for a request that was checked.

    Arguments:
        mail: where Slurm writes to, if it writes; ``""`` = to the account, or as the site's own options say.

    Source: sbatch(1) of Slurm 22.05. ``--export=ALL`` exports the launcher's own short environment: ``NONE``
    would evaluate the person's login shell before the session starts.
    """
    partition = site.partition(request.partition)
    of_site = tuple(_as_the_site_says(request, partition))
    options = (
        f"--job-name={job_name(key)}",
        *_size(request, site),
        "--requeue",  # after the failure of a node the same session resumes on another
        "--open-mode=append",
        "--export=ALL",
        *([f"--mail-user={mail}"] if mail and _asks_where_to_write(of_site) else []),
        *of_site,
    )
    return Submission(key, options, dict(environment))


def needs_address(request: SessionRequest, site: Site) -> bool:
    """Whether Slurm writes for such a job, and the site's own options do not say whereto."""
    return _asks_where_to_write(tuple(_as_the_site_says(request, site.partition(request.partition))))


def _asks_where_to_write(of_site: tuple[str, ...]) -> bool:
    writes = any(option.startswith("--mail-type=") for option in of_site)
    return writes and not any(option.startswith("--mail-user") for option in of_site)


def job_options(request: SessionRequest, site: Site) -> tuple[str, ...]:
    """What Slurm is told of the place and size of a session, for another job that is to be like one."""
    return (*_size(request, site), *_as_the_site_says(request, site.partition(request.partition)))


def _size(request: SessionRequest, site: Site) -> Iterator[str]:
    partition = site.partition(request.partition)
    cores, memory_mib = request.share(site)
    yield from (f"--partition={request.partition}", "--nodes=1", "--ntasks=1", f"--cpus-per-task={cores}")
    yield f"--mem={0 if partition.exclusive == 'node' else memory_mib}M"  # 0: all of the node's
    if request.gpus:
        yield f"--gres={site.gres(partition, request.gpu)}:{request.gpus}"
    yield f"--time={request.hours * 60}"


def _as_the_site_says(request: SessionRequest, partition: PartitionTable) -> Iterator[str]:
    """What a site sets beyond the form of every site: nothing, where its settings file says nothing of it."""
    for name in CHOICES:
        if value := request.chosen(name, partition):
            yield f"--{name.replace('_', '-')}={value}"
    if partition.comment:
        yield f"--comment={partition.comment}"
    if partition.exclusive:
        yield "--exclusive" if partition.exclusive == "node" else "--exclusive=user"
    yield from partition.options


class LauncherAsPerson:
    """portal-launch, run through sudo as the person who asks: the only way in which anything is done for somebody.

    Args:
        path: the absolute path of portal-launch.
        run: how a process is started; a seam for tests.
    """

    def __init__(self, path: str, run: Runner) -> None:
        self._path = path
        self._run = run

    async def call(self, username: str, request: Mapping[str, object]) -> dict[str, object]:
        """The launcher's answer to a request (portal/launcher.py).

        Raises:
            AccountGone: there is no such account on this host.
            ActingRefused: sudo does not allow it; nothing was begun.
            SlurmUnavailable: there is no answer.
        """
        argv = ("sudo", "--non-interactive", "--set-home", "--user", username, "--", self._path)
        try:
            done = await self._run(
                argv, stdin=json.dumps(request), env={**os.environ, **PLAIN_WORDS}, timeout_s=LAUNCH_TIMEOUT_S
            )
        except RunError as error:
            raise SlurmUnavailable(NOT_HANDED_ON, detail=str(error)) from error
        try:
            answer = json.loads(done.stdout)
        except (ValueError, RecursionError):
            answer = None
        if isinstance(answer, dict):
            return answer
        raise await _without_answer(username, done)


async def _without_answer(username: str, done: Result) -> SlurmUnavailable:
    """Why there is none: what cannot get better by itself is told as such."""
    detail = f"portal-launch, exit status {done.returncode}: {done.stderr.strip()[:500] or 'no answer'}"
    if not await is_account(username):
        return AccountGone(f"{_(NO_ACCOUNT)} {_(_TELL)}".format(username=username), detail=detail)
    if done.returncode and _REFUSED_BY_SUDO.search(done.stderr):
        return ActingRefused(f"{_(NOT_ALLOWED_TO_ACT)} {_(_TELL)}".format(username=username), detail=detail)
    return SlurmUnavailable(
        N_("The portal could not act for you on this cluster; tell your administrator (portal doctor)."), detail=detail
    )


def submitted_job(answer: Mapping[str, object]) -> str:
    """The number of the job that the launcher has submitted, by its answer.

    Raises:
        SubmitRefused: with sbatch's own message.
        SlurmUnavailable: no answer; the job may have been accepted.
    """
    message = str(answer.get("message") or "no reason was given")
    if answer.get("ok"):
        if re.fullmatch(r"[0-9]{1,12}", str(answer.get("job_id"))):
            return str(answer["job_id"])
        raise SlurmUnavailable(N_("Slurm's answer cannot be read."), detail=f"sbatch: {answer.get('job_id')!r:.200}")
    if answer.get("unknown"):
        raise SlurmUnavailable(N_("Slurm does not answer; try again in a minute."), detail=message)
    if answer.get("refused"):
        raise SubmitRefused(_("Slurm did not accept the session:") + f"\n{message}")
    raise SubmitRefused(_("The session could not be prepared in your home:") + f"\n{message}")


class Turns:
    """Work as people that nobody waits for: one at a time for each person, few at a time in all.

    What takes longer than :data:`PATIENCE_S` goes on, but without its place: the homes that hang, or that somebody
    made slow, keep nobody else waiting, however many they are.
    """

    def __init__(self, at_once: int) -> None:
        self._places = asyncio.Semaphore(at_once)
        self._people: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def of(self, person: str) -> AsyncIterator[None]:
        """This person's turn, as soon as it comes."""
        own = self._people.setdefault(person, asyncio.Lock())
        async with own:
            await self._places.acquire()
            place = ExitStack()
            place.callback(self._places.release)
            patience = asyncio.get_running_loop().call_later(PATIENCE_S, place.close)
            try:
                yield
            finally:
                patience.cancel()
                place.close()  # once, whoever is first


def remember(unfinished: dict[str, str], key: str, person: str) -> None:
    """Note a session as the last of ``unfinished``; of a person with very many of them the oldest is forgotten."""
    unfinished.pop(key, None)
    theirs = [known for known, owner in unfinished.items() if owner == person]
    for oldest in theirs[: max(0, len(theirs) + 1 - UNFINISHED_PER_PERSON)]:
        del unfinished[oldest]
    unfinished[key] = person
