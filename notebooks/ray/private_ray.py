"""A Ray cluster of Slurm jobs that only its person can reach: keys and a token of its own, its pages on a Unix socket.

Ray itself lets everybody in who reaches its ports, and what gets in runs code as you. Here all connections between its
parts are TLS with keys of this cluster on both sides, all services ask for its token as well, and keys and token lie
in a folder of yours. The head runs beside this kernel and ends with it; the workers are Slurm jobs.
"""

import atexit
import logging
import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import lesson_folders
import lesson_jobs
import private_dashboard
import private_keys
from jupyter_core.paths import jupyter_runtime_dir

HERE = Path(__file__).resolve().parent
MODULES = lesson_jobs.read(__file__, private_dashboard.__file__, private_keys.__file__)  # as this kernel has them
RUNTIME = "PORTAL_RUNTIME_DIR"  # the private folder of this session on its node
OF_THIS_JOB = ("SLURM_", "SBATCH_", "SRUN_")
HEAD_WITHIN_S = 120
HEADLESS_S = 60
END_WITHIN_S = 5
LOOK_S = 5
SLURM_WITHIN_S = 30
LONGEST_PLACE = 20  # letters of TMPDIR: Ray's sockets have about 68 more behind the node's folder, and 107 in all
ENDS_WITH_ITS_PARENT = ("setpriv", "--pdeathsig=TERM")
HEAD_STORE_MIB = 200  # what of the driver's own data lies in the head's shared memory


def environment(keys, own):
    """What each process of Ray is told: where keys and token are, and to keep its figures and events to itself.

    Arguments:
        keys: the folder with what all nodes share.
        own: the private folder of this node, with its key.
    """
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": f"{keys}/token",
        "RAY_USE_TLS": "1",
        "RAY_TLS_CA_CERT": f"{keys}/authority.crt",
        "RAY_TLS_SERVER_CERT": f"{own}/node.crt",
        "RAY_TLS_SERVER_KEY": f"{own}/node.key",
        "RAY_TMPDIR": str(own),  # else what has no place goes where others can be first
        "TPU_LOG_DIR": f"{own}/tpu",  # the same: a folder that Ray's logs show, with or without such devices
        "RAY_enable_metrics_collection": "0",  # pages with figures, which ask for no token
        "DASHBOARD_METRIC_PORT": "-1",  # the same: Ray says in a log that it cannot, and goes on
        "RAY_event_log_reporter_enabled": "0",  # sent to the dashboard with the token, and not encrypted
        "RAY_USAGE_STATS_ENABLED": "0",
    }


def without_doors(options, head):
    """Ray's hook at the start of a node: no server for Ray's clients, no monitor of an autoscaler."""
    options.ray_client_server_port = None
    options.no_monitor = True


def _end_once(*_):
    """End, and clean up: whoever asks again meanwhile would keep that from being finished."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + signal.SIGTERM)


def own_folder():
    """A private folder of this node, short enough for Ray's sockets."""
    place = tempfile.gettempdir()
    own = lesson_folders.temporary("ray-", place if len(place) <= LONGEST_PLACE else "/tmp")  # noqa: S108
    (own / "tpu").mkdir(mode=0o700)
    return own


def run(own, keys, address, words, is_wanted=lambda: True):
    """Be a node of the cluster with a key for ``address``, as long as it is wanted; then leave nothing in ``own``."""
    signal.signal(signal.SIGTERM, _end_once)
    try:
        private_keys.for_node(keys, own, address)
        return _node(own, keys, address, words, is_wanted)
    finally:
        remove(own)


def _node(own, keys, address, words, is_wanted):
    more = {"RAY_START_HOOK": "private_ray.without_doors", "TMPDIR": str(own)}
    # Not the program "ray": an environment on top of this one has none. And not "-m" alone: lesson_jobs tells why.
    module = [sys.executable, lesson_jobs.__file__, "-m", "ray.scripts.scripts"]
    argv = [*ENDS_WITH_ITS_PARENT, *module, "start", *words, "--block"]
    argv += [f"--node-ip-address={address}", f"--temp-dir={own}/ray", "--dashboard-agent-listen-port=0"]
    node = subprocess.Popen(argv, env=os.environ | environment(keys, own) | more, stdin=subprocess.DEVNULL)
    try:
        while node.poll() is None and is_wanted():
            time.sleep(1)
    finally:
        node.terminate()
        with suppress(subprocess.TimeoutExpired):
            node.wait(END_WITHIN_S)
        node.kill()  # without a head it waits for an answer
        node.wait()
    return node.returncode


def be_head(keys, own, address):
    """The program of the head: it ends with the kernel, and takes the keys with it."""
    # Not at 127.0.0.1: workers would look for it at their own node, and show the token to whoever listens there.
    words = ["--head", "--port=0", f"--dashboard-host={address}", "--dashboard-port=0", "--num-cpus=0"]
    try:
        return run(Path(own), Path(keys), address, [*words, f"--object-store-memory={HEAD_STORE_MIB << 20}"])
    finally:
        remove(Path(keys))


def be_worker(keys, head, cores, store_mib):
    """The program of a worker: it ends when the head at ``head`` has been gone for a minute."""
    host, _, port = head.rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))  # nothing is sent: it tells which address leads there
        address = probe.getsockname()[0]
    seen = time.monotonic()

    def is_wanted():
        nonlocal seen
        with suppress(OSError), socket.create_connection((host, int(port)), timeout=LOOK_S):
            seen = time.monotonic()
        return time.monotonic() - seen < HEADLESS_S

    words = [f"--address={head}", f"--num-cpus={cores}", f"--object-store-memory={int(store_mib) << 20}"]
    return run(own_folder(), Path(keys), address, words, is_wanted)


def remove(folder):
    """Take a folder away, into which the last of Ray may write for another moment."""
    deadline = time.monotonic() + 10
    while folder.exists() and time.monotonic() < deadline:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.05)


class Cluster:
    """The head of a Ray cluster, to which this kernel is connected; :meth:`add` submits workers.

    Arguments:
        folder: where logs and keys lie; every node must see it, and nobody else may change one on the way.
        cores, memory_mib: of each worker.
        address: the IP address of this node in the network between the nodes; '' is the one of its name.
        modules: the environment modules that each worker loads.
    """

    def __init__(self, folder, cores, memory_mib, address="", modules=()):
        assert "ray" not in sys.modules, "Ray reads its keys once: restart the kernel for a new cluster."
        folder = Path(folder).expanduser()
        for word in (folder.resolve(), HERE, sys.executable):
            assert shlex.quote(str(word)) == str(word), f"{word}: use a folder without blanks and special characters."
        self.folder = lesson_folders.private(folder)
        self.cores, self.memory_mib, self.modules = cores, memory_mib, modules
        self.name = f"ray-{secrets.token_hex(4)}"
        self.keys = self.folder / self.name
        self.own = own_folder()
        self.jobs = []
        self.forwarder = None
        address = address or _own_address()
        private_keys.for_cluster(self.keys)
        self.code = lesson_jobs.lay(MODULES, self.keys / "code")
        self.log = self.folder / f"{self.name}-head.log"
        # Ray's dashboard starts others by "python -c", which look for modules first where they begin.
        work = str(Path.cwd() if lesson_jobs.is_alone(str(Path.cwd())) else self.code)
        program = [*lesson_jobs.start(self.code), work, str(HERE), "-m", "private_ray"]
        argv = [*ENDS_WITH_ITS_PARENT, *program, "be_head", str(self.keys), str(self.own), address]
        streams = {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT, "cwd": self.code}
        with self.log.open("wb") as log:  # to interrupt this kernel is not to end the cluster: a session of its own
            self.head = subprocess.Popen(argv, stdout=log, start_new_session=True, **streams)
        try:
            self._connect()
        except BaseException:
            self.close()
            raise
        atexit.register(self.close)  # before Ray's own end, which takes longer than some kernels are given

    def _connect(self):
        """Wait for the head, then be its driver."""
        where, deadline = self.own / "ray" / "ray_current_cluster", time.monotonic() + HEAD_WITHIN_S
        while not (where.exists() and (address := where.read_text().strip())):  # Ray writes it in two steps
            if self.head.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Ray's head did not start: {self.log} has what it said.")
            time.sleep(0.1)
        self.address = address
        os.environ.update(environment(self.keys, self.own))
        os.environ["GRPC_VERBOSITY"] = "NONE"  # that a stranger was refused is no news here
        logging.getLogger("ray.widgets").setLevel(logging.WARNING)  # it misses ipywidgets, which nothing here needs
        import ray  # not before: it reads its environment when it is imported

        self.ray = ray
        with _working_in(self.code):  # Ray has all workers look for modules first where its driver works now
            context = ray.init(address=self.address, log_to_driver=False, logging_level=logging.WARNING)
        sockets = lesson_folders.own(Path(os.environ.get(RUNTIME) or jupyter_runtime_dir()) / "sockets")
        sockets.chmod(0o700)
        self.forwarder = private_dashboard.Forwarder(
            sockets / f"{self.name}.sock", context.dashboard_url, self.keys / "token"
        )

    @property
    def dashboard_link(self):
        """The address of the dashboard, behind the login of this session."""
        return f"{os.environ.get('JUPYTERHUB_SERVICE_PREFIX', '/')}sockets/{self.name}/"

    def job_script(self):
        """What a job of workers runs, on each of its nodes."""
        own = [str(self.keys), self.address, str(self.cores), str(self.memory_mib * 3 // 10)]
        lines = ["#!/bin/bash -l", 'work="$PWD"', f"cd {self.code} || exit"]
        lines += [f"module load {shlex.join(self.modules)}"] if self.modules else []
        srun = f"exec srun --export=ALL --cpus-per-task={self.cores} --kill-on-bad-exit=0"
        program = [str(HERE), "-m", "private_ray", "be_worker", *own]
        begin = shlex.join(lesson_jobs.start(self.code))
        return "\n".join([*lines, "umask 077", f'{srun} {begin} "$work" {shlex.join(program)}', ""])

    def add(self, nodes, options=()):
        """Submit a job with a worker on each of so many nodes; its number.

        Arguments:
            options: of sbatch, such as "--partition=long" or "--gres=gpu:1".
        """
        command = ["sbatch", "--parsable", "--export=NONE", f"--job-name={self.name}", f"--nodes={nodes}"]
        command += ["--ntasks-per-node=1", f"--cpus-per-task={self.cores}", f"--mem={self.memory_mib}M"]
        command += [f"--output={self.folder}/{self.name}-%j.log", *options]
        # This session is a job itself: what Slurm says of it must not reach the new one.
        clean = {key: value for key, value in os.environ.items() if not key.startswith(OF_THIS_JOB)}
        clean |= {key: os.environ[key] for key in ("SLURM_CONF",) if key in os.environ}
        done = subprocess.run(command, input=self.job_script(), env=clean, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"sbatch refused the job: {done.stderr.strip()}"
        self.jobs.append(done.stdout.strip().partition(";")[0])
        return self.jobs[-1]

    def workers(self):
        """How many workers have joined."""
        return sum(node["Alive"] and node["Resources"].get("CPU", 0) > 0 for node in self.ray.nodes())

    def close(self):
        """End all its jobs, then the head; keys and token go too."""
        if self.jobs:
            with suppress(subprocess.TimeoutExpired):  # without a head they end by themselves
                subprocess.run(["scancel", *self.jobs], check=False, timeout=SLURM_WITHIN_S)
        if self.forwarder:
            self.ray.shutdown()
            self.forwarder.close()
        self.head.terminate()
        self.head.wait()
        self.jobs, self.forwarder = [], None


@contextmanager
def _working_in(folder):
    before = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.chdir(folder)
        yield
    finally:
        os.fchdir(before)
        os.close(before)


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
    assert found, "No address of this node is known: give it as 'address'."
    return next((one for one in found if not one.startswith("127.")), found[0])  # a cluster of one host has no other


if __name__ == "__main__":
    program, *told = sys.argv[1:]
    sys.exit({"be_head": be_head, "be_worker": be_worker}[program](*told))
