"""Who can read a file, by its mode and its access list, and whether another one shows it to more people."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from portal.homes.readers import EVERYBODY, READ, KnownFile, Readers, closed_as
from tests.unit.access_lists import GROUP, GROUP_OBJ, MASK, NOBODYS, OTHER, USER, USER_OBJ, give, open_to_one

CAROL = 4_000_001  # no account of this machine
TEAM = 4_000_100


def of(file: Path) -> Readers:
    descriptor = os.open(file, os.O_PATH)
    try:
        return Readers.of(descriptor)
    finally:
        os.close(descriptor)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "plan.txt").write_text("plan")
    return tmp_path / "plan.txt"


@pytest.mark.parametrize(
    ("mode", "everybody", "group"), [(0o600, False, False), (0o640, False, True), (0o644, True, True)]
)
def test_a_mode_says_it_for_the_group_and_for_everybody(file: Path, mode: int, everybody: bool, group: bool) -> None:
    file.chmod(mode)
    assert of(file) == Readers(everybody, frozenset([file.stat().st_gid] if group else []))


def test_a_group_may_be_shut_out_alone(file: Path) -> None:
    file.chmod(0o604)
    known = of(file)
    assert known == Readers(True, shut_out=frozenset([(GROUP, file.stat().st_gid)]))
    assert known.include(of(file))
    assert not known.include(Readers(True, shut_out=frozenset([(GROUP, TEAM)])))
    assert not known.include(EVERYBODY)
    assert known.include(Readers(False)), "one that nobody reads"
    assert EVERYBODY.include(known)
    assert EVERYBODY.with_(known) == known


@pytest.mark.parametrize(("mask", "people"), [(7, {CAROL}), (0, set())])
def test_where_there_is_a_list_the_groups_part_of_the_mode_is_its_mask(file: Path, mask: int, people: set[int]) -> None:
    entries = ((USER_OBJ, 6, NOBODYS), (USER, 4, CAROL), (GROUP_OBJ, 0, NOBODYS), (GROUP, 4, TEAM))
    give(file, *entries, (MASK, mask, NOBODYS), (OTHER, 0, NOBODYS))

    assert file.stat().st_mode & 0o070 == mask << 3
    shut_out = frozenset([] if mask else [(USER, CAROL)])
    assert of(file) == Readers(False, frozenset([TEAM] if mask else []), frozenset(people), shut_out)


@pytest.mark.parametrize(
    ("before", "now", "is_no_more"),
    [
        (EVERYBODY, EVERYBODY, True),
        (Readers(False), EVERYBODY, False),
        (Readers(False, frozenset([TEAM])), Readers(False, frozenset([TEAM])), True),
        (Readers(False, frozenset([TEAM])), Readers(False, frozenset([TEAM + 1])), False),
        (Readers(False, frozenset([TEAM])), Readers(False, people=frozenset([CAROL])), False),  # is of no such group
        (Readers(False, people=frozenset([CAROL])), Readers(False, people=frozenset([CAROL])), True),
        (Readers(True, shut_out=frozenset([(GROUP, TEAM)])), Readers(False, frozenset([TEAM])), False),
    ],
)
def test_another_file_shows_nobody_more(before: Readers, now: Readers, is_no_more: bool) -> None:
    assert before.include(now) is is_no_more


def test_the_owner_of_the_other_one_counts_among_the_group_that_they_are_of(monkeypatch: pytest.MonkeyPatch) -> None:
    carol = pwd.struct_passwd(("carol", "x", CAROL, CAROL, "", "/home/carol", "/bin/bash"))
    monkeypatch.setattr(pwd, "getpwuid", {CAROL: carol}.__getitem__)
    monkeypatch.setattr(os, "getgrouplist", lambda name, group: [group, *([TEAM] if name == "carol" else [])])
    theirs = Readers(False, frozenset([TEAM]), frozenset([CAROL]))

    assert Readers(False, frozenset([TEAM])).include(theirs)
    assert not Readers(False, frozenset([TEAM + 1])).include(theirs)


@pytest.mark.parametrize("everybody", [False, True])
def test_who_is_shut_out_by_name_is_so_as_a_member_and_as_an_owner(everybody: bool) -> None:
    alone = frozenset([(USER, CAROL)])
    team = frozenset([TEAM])
    closed = Readers(everybody, team, shut_out=alone)

    assert closed.include(closed)
    assert closed.include(Readers(False))
    assert not closed.include(Readers(everybody, team))
    assert not closed.include(Readers(everybody, team, frozenset([CAROL]), alone)), "the owner of that one"


def test_of_several_those_count_who_could_read_each() -> None:
    team = Readers(False, frozenset([TEAM]), frozenset([CAROL]))
    assert EVERYBODY.with_(team) == team.with_(EVERYBODY) == team
    assert not team.with_(Readers(False, frozenset([TEAM + 1]))).include(Readers(False, frozenset([TEAM])))


def test_a_number_that_is_given_again_is_not_the_file_that_had_it(file: Path) -> None:
    known = KnownFile(of(file), file.stat(), (1, 2))
    values = list(file.stat())
    of_others = os.stat_result([*values[:4], CAROL, *values[5:]])

    assert known.is_same(KnownFile(EVERYBODY, file.stat(), (1, 2)))
    assert not known.is_same(KnownFile(EVERYBODY, file.stat(), (1, 3))), "made anew"
    assert not known.is_same(KnownFile(EVERYBODY, of_others, (1, 2)))
    assert not KnownFile(of(file)).is_same(known)


def test_when_a_file_was_made_stays_when_it_is_written_and_is_another_ones_no_more(file: Path) -> None:
    with file.open("a") as written, (file.parent / "new").open("w") as new:
        born = KnownFile.of(written.fileno()).born
        written.write("more")
        written.flush()
        os.utime(written.fileno())

        assert KnownFile.of(written.fileno()).born == born
        assert born is None or KnownFile.of(new.fileno()).born != born


@pytest.mark.parametrize(
    ("shown_to", "left"),
    [
        (EVERYBODY, 0o664),
        (Readers(False, frozenset([os.getegid()])), 0o660),
        (Readers(False, frozenset([TEAM])), 0o600),
        (Readers(False), 0o600),
    ],
)
def test_what_takes_a_place_is_shown_to_nobody_beside_these(file: Path, shown_to: Readers, left: int) -> None:
    with file.open() as opened:
        os.chown(opened.fileno(), -1, os.getegid())
        assert closed_as({READ: shown_to}, opened.fileno(), 0o664) == left


def test_what_a_new_file_has_of_its_folders_list_counts(file: Path) -> None:
    """A mode that opens it to the group opens it to all whom that list names."""
    open_to_one(file, CAROL, group=4)
    team = Readers(False, frozenset([file.stat().st_gid]))
    with file.open() as opened:
        assert closed_as({READ: team}, opened.fileno(), 0o640) == 0o600
        assert closed_as({READ: of(file)}, opened.fileno(), 0o640) == 0o640
