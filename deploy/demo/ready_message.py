"""What a person reads when the demo is up: where it is, how to log in, how to stop it."""

from __future__ import annotations

from deploy.demo import people
from deploy.demo.console import say
from deploy.demo.start_plan import Plan
from deploy.demo.state_folder import State

VARIANTS = {
    "cgroups": "root, with cgroups: a job sees only its own GPUs and is killed above its memory",
    "root": "root, but this machine has no cgroup v1: GPUs are /dev/null, open to all jobs; memory is only polled",
    "rootless": "rootless: GPUs are /dev/null, open to all jobs; memory is only polled (root has cgroups)",
}


def framed(lines: list[str]) -> str:
    """Lines with a frame around them."""
    width = max(map(len, lines))
    inner = [f"│ {line:<{width}} │" for line in lines]
    return "\n".join([f"┌─{'─' * width}─┐", *inner, f"└─{'─' * width}─┘"])


def variant_line(plan: Plan) -> str:
    """Which variant runs, and what that changes."""
    return VARIANTS["cgroups" if plan.isolates else plan.variant]


def lines(state: State, plan: Plan, address: str, seconds: float) -> list[str]:
    """The text in the frame."""
    people_text = ", ".join(f"{name} / {people.password(name)}" for name in ("alice", "bob"))
    head = f"The demo is ready: {address}" if address else "The demo cluster is ready (without the portal)"
    one_address = "one address for all: people who do not trust each other need make demo DOMAIN=NAME"
    sessions = f"each at its own address: NAME.{plan.domain}" if plan.domain else one_address
    return [
        f"{head}   ({seconds:.1f} s)",
        "",
        f"Log in as    {people_text}, … (password: the name and -demo)",
        "             carol administers; mallory has a right password but is not allowed here",
        *([f"Sessions     {sessions}"] if address else []),
        "Hardware     emulated: Slurm counts GPUs, cores and memory; what runs, runs on this machine's CPU",
        f"Variant      {variant_line(plan)}",
        "Network      the cluster's own, without a way out; only the port above is open outside",
        f"Logs         {state.cluster / 'logs'}",
        "Look inside  make demo-shell   (as alice: sinfo, squeue, sbatch)",
        "Doctor       make demo-doctor",
        "Stop         make demo-down, or Ctrl-C where make demo runs; make clean takes all of it away",
    ]


def say_ready(state: State, plan: Plan, address: str, seconds: float) -> None:
    """Print it in a frame."""
    say(framed(lines(state, plan, address, seconds)))


def say_running(state: State) -> None:
    """A demo has the folder already."""
    run = state.running()
    if run is None:
        say(f"A demo is starting in {state.folder} already (process {state.supervisor()}).")
    elif run.port:
        where = f"http://localhost:{run.port}"
        say(f"The demo runs already: {where} (process {run.supervisor_pid}). To stop it: make demo-down")
    else:
        say(f"The demo cluster runs already, without the portal (process {run.supervisor_pid}).")
