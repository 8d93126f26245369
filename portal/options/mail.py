"""When Slurm writes an e-mail, and to whom: sbatch(1), ``--mail-type`` and ``--mail-user``. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

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
TO_ADDRESS = N_("Slurm writes to your address in the directory.")
LONGEST_ADDRESS = 254  # RFC 5321, 4.5.3.1.3, without the brackets
# Less than RFC 5321 allows: nothing in it means something to a shell, a mail program or a header. As the launcher's.
_ADDRESS = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}@[A-Za-z0-9][A-Za-z0-9-]{0,62}(\.[A-Za-z0-9-]{1,63}){1,8}", re.ASCII
)


def one_address(values: Sequence[str]) -> str:
    """The one plain address among an entry's values; ``""`` where there is none, or several, or an odd one."""
    if len(values) != 1 or len(values[0]) > LONGEST_ADDRESS:
        return ""
    return values[0] if _ADDRESS.fullmatch(values[0]) else ""


def mail_words(value: str) -> str:
    """``when it starts, when it ends`` for ``BEGIN,END``."""
    return ", ".join(_(_WORDS.get(one, one)) for one in value.split(",")) if value else _("no e-mail")
