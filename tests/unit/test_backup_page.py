"""The lines of the page on backups, which root runs in a folder of the hub's account."""

from __future__ import annotations

import subprocess
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "backup.md"


def lines(state: Path, backups: Path) -> str:
    """The lines that copy files, for other folders."""
    section = PAGE.read_text().partition("## Back up\n")[2].partition("\n## ")[0]
    copies = [line.removeprefix("# ") for line in section.splitlines() if line.startswith("# ") and "cp " in line]
    return "\n".join(copies).replace("/var/lib/dsportal", str(state)).replace("/var/backups/dsportal", str(backups))


def test_a_backup_follows_no_link_that_the_hubs_account_has_left(tmp_path: Path) -> None:
    state, backups, roots = tmp_path / "state", tmp_path / "backups", tmp_path / "roots"
    for folder in (state, backups, roots):
        folder.mkdir()
    (roots / "secret").write_text("root's")
    (state / "cookie_secret").write_text("the hub's")
    for name in ("session_key", "hub_id", "internal-ssl"):
        (state / name).symlink_to(roots if name == "internal-ssl" else roots / "secret")

    subprocess.run(["sh", "-ec", lines(state, backups)], check=True)

    assert (backups / "cookie_secret").read_text() == "the hub's"
    assert [path.name for path in backups.rglob("*") if path.is_file() and not path.is_symlink()] == ["cookie_secret"]
