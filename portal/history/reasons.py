"""Why a session ended: kept and logged in English, shown in the reader's language. Pure."""

from __future__ import annotations

import re

from portal.language.texts import N_, _

OF_STATES = {  # of Slurm, sacct(1)
    "COMPLETED": N_("The session ended by itself."),
    "CANCELLED": N_("The session was cancelled."),
    "TIMEOUT": N_("The session used up its hours."),
    "OUT_OF_MEMORY": N_("The session used more memory than it had; ask for one GPU more, or load less at a time."),
    "NODE_FAIL": N_("The node of this session failed. Nothing you did; start again."),
    "PREEMPTED": N_("A job with a higher priority took the place of this session."),
    "BOOT_FAIL": N_("The node of this session did not start. Nothing you did; start again."),
    "DEADLINE": N_("The session could not start before its deadline."),
    "FORGOTTEN": N_("Slurm has lost its record of this session's job. Nothing you did; start again."),
}
OTHER_STATE = N_("The session ended with Slurm's state {state}.")
CANCELLED_BY = N_("The session was cancelled by {who}.")
FAILED_BY_SIGNAL = N_("The session's job failed by signal {signal}.")
FAILED_WITH_CODE = N_("The session's job failed with exit code {code}.")
WAITED = N_("The session waited {hours} h in the queue, the longest that this site lets one wait. Try again later.")
NEVER_ANSWERED = N_(
    "JupyterLab did not answer within {minutes} minutes of its start on {node}. "
    "Try again; if it stays so, tell your administrator."
)
STOPPED = N_("The portal stopped the session.")
STOPPED_BY_PERSON = N_("You stopped the session.")
STOPPED_BY = N_("The session was stopped by {who}.")
WITH_LOG = N_("Its last lines are below.")
WITHOUT_LOG = N_("It wrote no log: is your home full?")
FILLED_IN = (OTHER_STATE, CANCELLED_BY, FAILED_BY_SIGNAL, FAILED_WITH_CODE, WAITED, NEVER_ANSWERED, STOPPED_BY)


def shown(reason: str) -> str:
    """A reason as it was kept, in the language that is spoken now; one that is not known here stays as it is."""
    first, end, others = reason.partition("\n")
    for advice in (WITH_LOG, WITHOUT_LOG):
        if first.endswith(f" {advice}"):
            return f"{_sentence(first.removesuffix(f' {advice}'))} {_(advice)}{end}{others}"
    return f"{_sentence(first)}{end}{others}"


def _sentence(text: str) -> str:
    for template in FILLED_IN:
        if found := re.fullmatch(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.+)", re.escape(template)), text):
            return _(template).format(**found.groupdict())
    return _(text)
