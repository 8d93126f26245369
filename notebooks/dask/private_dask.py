"""A Dask cluster of Slurm jobs that only its person can reach: keys between its parts, its pages on a Unix socket.

Dask itself lets everybody in who reaches its ports, and what gets in runs code as you. Here scheduler and workers speak
TLS, with keys that are made for this cluster alone and lie in a private folder; the dashboard has no port, and workers
have no pages. Each part works in a new private folder of its own.
"""

import asyncio
import os
import secrets
import shlex
import shutil
import socket
import sys
import weakref
from contextlib import contextmanager, suppress
from pathlib import Path

import lesson_folders
import lesson_jobs
from dask_jobqueue.slurm import SLURMCluster, SLURMJob
from distributed import Scheduler, Security, Worker
from distributed.http.routing import RoutingApplication
from jupyter_core.paths import jupyter_runtime_dir
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_unix_socket

HERE = Path(__file__).resolve().parent
MODULES = lesson_jobs.read(__file__)  # now: what workers run is what this kernel does
RUNTIME = "PORTAL_RUNTIME_DIR"  # the private folder of this session on its node
OF_THIS_JOB = ("SLURM_", "SBATCH_", "SRUN_")
WAITS = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT")
LOOK_S = 2  # Slurm is asked so often where a job is that waits, and often in its first second


class SocketScheduler(Scheduler):
    """A scheduler whose pages are on the Unix socket ``dashboard_address``, and whose folder is its own.

    Dask's own folder has a name that everybody knows, and this kernel loads modules from it.
    """

    def __init__(self, **options):
        own = str(lesson_folders.temporary("dask-"))
        self.remove_own = weakref.finalize(self, shutil.rmtree, own, ignore_errors=True)
        super().__init__(**options, local_directory=own)

    async def close(self, *args, **options):
        """End, and take the folder away."""
        await super().close(*args, **options)
        while self.local_directory in sys.path:  # its name is free for everybody now
            sys.path.remove(self.local_directory)
        self.remove_own()

    def start_http_server(self, routes, dashboard_address, default_port=0, ssl_options=None):
        """Listen there: the folder of the socket is its owner's alone, a port would be everybody's on the node."""
        self.http_application = RoutingApplication(routes)
        self.http_server = HTTPServer(self.http_application)
        self.http_server.add_socket(bind_unix_socket(dashboard_address, mode=0o600))
        self.http_server.port = 0
        self.services["dashboard"] = self.http_server


class QuietWorker(Worker):
    """A worker without pages of its own: the dashboard has what they would show.

    On its node the folder of the keys may be another one, which somebody else has made.
    """

    def __init__(self, *args, security, local_directory, **options):
        lesson_folders.private(Path(security["tls_ca_file"]).parent, make=False)
        lesson_folders.keep(lesson_folders.own(local_directory, make=False, advice=lesson_folders.OWN_TMPDIR))
        super().__init__(*args, security=security, local_directory=local_directory, **options)

    def start_http_server(self, routes, dashboard_address, default_port=0, ssl_options=None):
        """Listen nowhere."""


class Job(SLURMJob):
    """A worker's job: nothing of this session but its arguments reaches it.

    Arguments:
        nodes: the nodes of the cluster's jobs, which this one is kept away from; None: jobs may share a node.
    """

    submit_command = "sbatch --parsable --export=NONE"

    def __init__(self, *args, nodes=None, **options):
        super().__init__(*args, **options)
        self.nodes = nodes

    @contextmanager
    def job_file(self):
        """The script, in a new private folder: Dask's own makes a file of its name again where others can be first."""
        folder = lesson_folders.temporary("dask-")
        try:
            script = folder / "worker.sh"
            script.write_text(self.job_script())
            yield str(script)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @staticmethod
    async def _call(cmd, **options):
        """This session is a job itself: what Slurm says of it must not reach the new ones."""
        clean = {key: value for key, value in os.environ.items() if not key.startswith(OF_THIS_JOB)}
        clean |= {key: os.environ[key] for key in ("SLURM_CONF",) if key in os.environ}
        return await SLURMJob._call(cmd, env=clean, **options)

    async def _submit_job(self, script):
        if self.nodes is None:
            return await super()._submit_job(script)
        async with self.nodes["lock"]:  # one after the other: each is told where those before it are
            others = ",".join(filter(None, self.nodes["of"].values()))
            exclude = [f"--exclude={others}"] if others else []
            answer = await self._call([*shlex.split(self.submit_command), *exclude, script])
            job = self._job_id_from_submit_output(answer)
            self.nodes["of"][job] = await self._node_of(job)
            return answer

    async def _node_of(self, job):
        """The node of a job, as soon as it has one; '' when it has ended before, or the cluster is closed."""
        wait_s = 0.2
        while not self.nodes["closes"]:  # the cluster's end waits for this start
            line = await self._call(["squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T|%N"])
            state, _, node = line.strip().partition("|")
            if node or state not in WAITS:
                return node
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, LOOK_S)
        return ""

    async def close(self):
        """Cancel it."""
        if self.nodes is not None:
            self.nodes["of"].pop(self.job_id, None)
        await super().close()


class Cluster(SLURMCluster):
    """``SLURMCluster`` behind keys of its own; ``dashboard_link`` is an address of this session, for its person alone.

    Arguments:
        folder: where its jobs' logs and keys lie; every node must see it, and nobody else may change one on the way.
        cores, memory: of each worker's job, such as 4 and "8GiB".
        own_nodes: no two of its jobs on one node.
        interface: the network between the nodes, such as "ib0"; '' is the one of this node's name.
        modules: the environment modules that each job loads.
        options: what ``SLURMCluster`` takes as well: queue, account, walltime, job_extra_directives …
    """

    job_cls = Job

    def __init__(self, folder, cores, memory, own_nodes=False, interface="", modules=(), **options):
        folder = Path(folder).expanduser()
        for word in (folder.resolve(), HERE, sys.executable):
            assert shlex.quote(str(word)) == str(word), f"{word}: use a folder without blanks and special characters."
        folder = lesson_folders.private(folder)
        self.page = f"dask-{secrets.token_hex(4)}"
        code = lesson_jobs.lay(MODULES, folder / self.page)
        self.remove_code = weakref.finalize(self, shutil.rmtree, code, ignore_errors=True)
        sockets = lesson_folders.own(Path(os.environ.get(RUNTIME) or jupyter_runtime_dir()) / "sockets")
        sockets.chmod(0o700)
        self.socket = sockets / f"{self.page}.sock"
        place = {"interface": interface} if interface else {"host": _own_address()}
        self.nodes = {"lock": asyncio.Lock(), "of": {}, "closes": False} if own_nodes else None
        super().__init__(
            cores=cores,
            memory=memory,
            processes=1,
            nanny=False,
            security=Security.temporary(),
            shared_temp_directory=str(folder),
            log_directory=str(folder),
            local_directory='"$own"',
            shebang="#!/bin/bash -l",
            python=" ".join([*lesson_jobs.start(code, options.pop("python", sys.executable)), '"$work"', str(HERE)]),
            job_script_prologue=[
                'work="$PWD"',
                f"cd {code} || exit  # whoever can change the folder of the notebook chooses no library here",
                *([f"module load {shlex.join(modules)}"] if modules else []),
                "umask 077  # what a worker spills is nobody else's",
                "own=$(mktemp -d) || exit",
                "trap 'rm -rf \"$own\"' EXIT",
            ],
            worker_extra_args=["--worker-class", "private_dask.QuietWorker", "--no-dashboard"],
            scheduler_cls=SocketScheduler,
            scheduler_options={"dashboard_address": str(self.socket), "dashboard": True, **place},
            nodes=self.nodes,
            **{"job_name": self.page, **options},
        )

    @property
    def dashboard_link(self):
        """The address of the dashboard, behind the login of this session."""
        return f"{os.environ.get('JUPYTERHUB_SERVICE_PREFIX', '/')}sockets/{self.page}/status"

    def close(self, timeout=None):
        """End all its jobs."""
        if self.nodes:
            self.nodes["closes"] = True
        done = super().close(timeout)
        self.remove_code()
        self.socket.unlink(missing_ok=True)
        return done


def _own_address():
    """An address of this node in the cluster: what Slurm's name for it leads to, or the one that it sends from.

    A host's own name often leads to 127.0.1.1 (Debian's /etc/hosts), which means another host everywhere else.
    """
    found = []
    for name in filter(None, (os.environ.get("SLURMD_NODENAME"), socket.gethostname())):
        with suppress(OSError):
            found.append(socket.gethostbyname(name))
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # an address of nobody (RFC 5737), and nothing is sent
        found.append(probe.getsockname()[0])
    assert found, "No address of this node is known: name the interface."
    return next((one for one in found if not one.startswith("127.")), found[0])
