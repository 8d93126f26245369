"""The state of the local mode, which has its keys and its database, lies where nobody else can change it."""

from __future__ import annotations

from pathlib import Path

import pytest

from portal import cli
from portal.errors import PortalError
from portal.hub import database


def began(state: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether ``portal up --local`` goes on to its database, the next that it looks at."""
    looked_at: list[Path] = []

    def check(file: Path) -> None:
        looked_at.append(file)
        raise PortalError("the test ends here")

    monkeypatch.setattr(database, "check", check)
    assert cli.main(["up", "--local", "--state", str(state)]) == 1
    return bool(looked_at)


def test_a_folder_of_ones_own_also_below_a_sticky_one_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)

    assert began(tmp_path / "shared" / "state", monkeypatch)
    assert (tmp_path / "shared" / "state").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(("above", "mode"), [(0o755, 0o770), (0o777, 0o700)], ids=["it", "the folder above"])
def test_one_that_others_can_change_or_exchange_is_refused_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], above: int, mode: int
) -> None:
    state = tmp_path / "folder" / "state"
    state.mkdir(parents=True)
    state.chmod(mode)
    state.parent.chmod(above)

    assert not began(state, monkeypatch)
    assert str(state) in capsys.readouterr().err
