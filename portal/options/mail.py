"""When Slurm writes an e-mail, in words: sbatch(1), ``--mail-type``. Pure."""

from __future__ import annotations

from portal.language.texts import N_, _

_WORDS = {
    "ALL": N_("whenever something happens"),
    "BEGIN": N_("when it starts"),
    "END": N_("when it ends"),
    "FAIL": N_("when it fails"),
    "REQUEUE": N_("when it is started again"),
    "TIME_LIMIT": N_("when its time is over"),
    "TIME_LIMIT_50": N_("when half of its time is over"),
    "TIME_LIMIT_80": N_("when 80 % of its time are over"),
    "TIME_LIMIT_90": N_("when 90 % of its time are over"),
}


def mail_words(value: str) -> str:
    """``when it starts, when it ends`` for ``BEGIN,END``."""
    return ", ".join(_(_WORDS.get(one, one)) for one in value.split(",")) if value else _("no e-mail")
