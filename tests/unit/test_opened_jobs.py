"""A job of a file runs what the person has opened, not what somebody has put in its place since."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from jupyter_server.base.call_context import CallContext

from portal.downloads.read_files import IS_SHOWN
from portal.errors import RequestError
from portal.jobs.desk import JobDesk
from portal.jobs.pages import JobPlace
from portal.slurm.runner import Result
from tests.unit.test_job_desk import Slurm
from tests.unit.test_own_files_read_back import NAMES, SOMEBODY_ELSE, Lab, lab

__all__ = ["lab"]  # a fixture

FORMAT = {"nbformat": 4, "nbformat_minor": 4}
PLAN = ["private"]  # what is in the lab's plan.txt


def place_of(lab: Lab) -> tuple[Slurm, JobPlace]:
    """Slurm, and what the pages of a session submit with."""
    slurm = Slurm(lab.home)
    slurm.answers["sbatch"] = Result(0, "12\n", "")
    desk = JobDesk({"HOME": str(lab.home)}, run=slurm, is_another=lab.files.read_places.is_another)
    return slurm, JobPlace(desk, lab.home)


async def submitted(lab: Lab, path: str, *, is_open: bool = False, shown: object = None) -> bool:
    """Whether a job of a file is; where it is open the page shows what is in it."""
    slurm, place = place_of(lab)
    shows = [(lab.home / path).read_text()] if is_open else []
    try:
        await place.desk.submit(place.order({"file": path, "shown": shows if shown is None else shown}))
    except RequestError as error:
        assert "open it again" in str(error)
        assert not [one for one in slurm.asked if "sbatch" in one]
        return False
    return True


def asks_as(number: str, *, is_open: bool = False) -> None:
    """What is done from now on a page asks for that has this number, and shows the file, or not."""
    request = SimpleNamespace(headers={"X-Portal-Number": number, "X-Portal-Open": "yes" if is_open else ""})
    CallContext.set(CallContext.JUPYTER_HANDLER, SimpleNamespace(request=request))


def put_another(file: Path, uid: int = SOMEBODY_ELSE) -> None:
    """Somebody puts a file in the place of one."""
    other = file.with_name("other")
    other.write_text(file.read_text())
    os.chown(other, uid, uid)
    other.replace(file)


@pytest.fixture
def program(lab: Lab) -> Path:
    (lab.team / "train.py").write_text("print()")
    return lab.team / "train.py"


@pytest.mark.parametrize("name", [*NAMES[1:], "train.py"])
async def test_a_file_that_was_exchanged_since_it_was_opened_is_not_submitted(
    lab: Lab, program: Path, name: str
) -> None:
    await lab.files.get(f"team/{name}")
    assert await submitted(lab, f"team/{name}")

    put_another(lab.team / name)

    assert not await submitted(lab, f"team/{name}")
    await lab.files.get(f"team/{name}", content=False)  # as before a save
    assert not await submitted(lab, f"team/{name}")


async def test_nor_is_one_in_a_folder_that_was_put_in_the_place_of_ones_own(lab: Lab) -> None:
    """Its own file, with what is theirs beside it."""
    (lab.team / "res").mkdir(0o755)
    (lab.team / "res" / "train.py").write_text("print()")
    await lab.files.get("team/res/train.py")

    (lab.team / "res").rename(lab.team / "gone")
    (lab.team / "gone" / "train.py").rename(lab.theirs / "train.py")
    lab.theirs.rename(lab.team / "res")

    assert not await submitted(lab, "team/res/train.py")


@pytest.mark.parametrize("uid", [SOMEBODY_ELSE, os.getuid()])
async def test_what_was_opened_through_a_link_is_submitted_while_it_leads_to_ones_own(lab: Lab, uid: int) -> None:
    (lab.private / "train.py").write_text("print()")
    lab.link("team/train.py", lab.private / "train.py", uid)
    await lab.files.get("team/train.py")
    assert await submitted(lab, "team/train.py")

    (lab.theirs / "train.py").write_text("print()")
    os.chown(lab.theirs / "train.py", SOMEBODY_ELSE, SOMEBODY_ELSE)
    lab.link("team/train.py", lab.theirs / "train.py", uid)

    assert not await submitted(lab, "team/train.py")


@pytest.mark.parametrize("uid", [SOMEBODY_ELSE, os.getuid()])
async def test_such_a_link_that_leads_to_another_file_of_ones_own_by_now_is_not(lab: Lab, uid: int) -> None:
    (lab.private / "train.py").write_text("print()")
    (lab.private / "copy.py").write_text("print('theirs')")
    lab.link("team/train.py", lab.private / "train.py", uid)
    await lab.files.get("team/train.py")
    lab.link("team/train.py", lab.private / "copy.py", uid)
    assert not await submitted(lab, "team/train.py")
    await lab.files.get("team/train.py", content=False)
    assert not await submitted(lab, "team/train.py")

    await lab.files.get("team/train.py")

    assert await submitted(lab, "team/train.py")


async def test_nor_is_a_link_of_ones_own_that_others_have_put_there(lab: Lab, program: Path) -> None:
    """It leads to a copy of something of theirs, which was never meant to run."""
    (lab.private / "copy.py").write_text("print('theirs')")
    lab.link("team/copy", lab.private / "copy.py", os.getuid())
    await lab.files.get("team/train.py")

    (lab.team / "copy").replace(program)

    assert not await submitted(lab, "team/train.py")


async def test_what_one_look_meets_is_what_the_other_one_asks_for(lab: Lab, program: Path) -> None:
    """Somebody exchanges the file all the time: a link to the person's own, and what she has opened."""
    await lab.files.get("team/train.py")
    (lab.private / "train.py").write_text("print('theirs')")
    is_another = lab.files.read_places.is_another

    assert is_another(program, lab.private / "train.py", os.getuid())
    assert not is_another(program, program, os.getuid())


async def test_what_was_looked_at_since_then_is_submitted(lab: Lab, program: Path) -> None:
    """A colleague's work that one has seen is one's own choice."""
    await lab.files.get("team/train.py")
    put_another(program)

    await lab.files.get("team/train.py")

    assert await submitted(lab, "team/train.py")


@pytest.mark.parametrize("is_folder", [False, True])
async def test_nor_is_another_file_of_ones_own_that_others_have_given_that_name(lab: Lab, is_folder: bool) -> None:
    """A copy of theirs, or a clone, that lies where they can rename it."""
    for folder in ("res", "clone"):
        (lab.team / folder).mkdir(0o755)
        (lab.team / folder / "train.py").write_text(f"print('{folder}')")
    await lab.files.get("team/res/train.py")
    assert await submitted(lab, "team/res/train.py", is_open=True)
    if is_folder:
        (lab.team / "res").rename(lab.team / "gone")
        (lab.team / "clone").rename(lab.team / "res")
    else:
        (lab.team / "res").chmod(0o777)
        (lab.team / "clone" / "train.py").replace(lab.team / "res" / "train.py")

    assert not await submitted(lab, "team/res/train.py", is_open=True)
    assert await submitted(lab, "team/res/train.py", is_open=False)  # an editor's new file, chosen in the list

    await lab.files.get("team/res/train.py")
    assert await submitted(lab, "team/res/train.py")


async def test_what_was_never_opened_and_ones_own_new_file_are_submitted(lab: Lab, program: Path) -> None:
    put_another(program)
    assert await submitted(lab, "team/train.py")  # chosen in the list, where its owner is told

    (lab.private / "train.py").write_text("print()")
    await lab.files.get("private/train.py")
    put_another(lab.private / "train.py", os.getuid())  # as an editor does
    assert await submitted(lab, "private/train.py")


async def test_what_is_exported_is_not_what_a_page_shows_from_then_on(lab: Lab, program: Path) -> None:
    await lab.files.get("team/plan.ipynb")
    put_another(lab.team / "plan.ipynb")
    before = IS_SHOWN.set(False)  # as for an export
    await lab.files.get("team/plan.ipynb")
    IS_SHOWN.reset(before)

    assert not await submitted(lab, "team/plan.ipynb", is_open=True)


async def test_what_another_window_has_read_is_not_what_a_page_shows(lab: Lab, program: Path) -> None:
    """A link of somebody's opens one, say."""
    asks_as("one")
    await lab.files.get("team/train.py")
    put_another(program)
    asks_as("two")
    await lab.files.get("team/train.py")
    assert await submitted(lab, "team/train.py", is_open=True)
    asks_as("one")
    assert not await submitted(lab, "team/train.py", is_open=True)
    await lab.files.rename_file("team/train.py", "team/other.py")
    assert not await submitted(lab, "team/other.py", is_open=True)
    asks_as("three")
    assert not await submitted(lab, "team/other.py", is_open=True)
    assert await submitted(lab, "team/other.py")


async def test_what_a_page_reads_once_more_it_may_not_show(lab: Lab) -> None:
    """As text beside the notebook (*Open With*), or what JupyterLab cannot put in the place of what it shows."""
    asks_as("one")
    await lab.files.get("team/plan.ipynb")
    asks_as("one", is_open=True)
    await lab.files.get("team/plan.ipynb", type="file")
    assert await submitted(lab, "team/plan.ipynb", is_open=True)

    put_another(lab.team / "plan.ipynb")
    await lab.files.get("team/plan.ipynb", type="file")

    assert not await submitted(lab, "team/plan.ipynb", is_open=True)
    asks_as("one")  # closed, and opened again
    await lab.files.get("team/plan.ipynb")
    assert await submitted(lab, "team/plan.ipynb", is_open=True)


async def test_nor_is_what_somebody_puts_in_the_place_of_a_new_one_before_a_page_opens_it(lab: Lab) -> None:
    """In Notebook 7 another page opens it than has made it."""
    asks_as("list")
    path = (await lab.files.new_untitled("team", ext=".ipynb"))["path"]
    put_another(lab.home / path)
    asks_as("editor")
    await lab.files.get(path)
    assert not await submitted(lab, path, is_open=True)
    asks_as("list")
    assert not await submitted(lab, path)
    asks_as("editor")
    await lab.files.get(path)  # opened again
    assert await submitted(lab, path, is_open=True)
    asks_as("list")
    assert await submitted(lab, path)


async def test_of_a_colleagues_file_a_page_submits_what_it_shows(lab: Lab, program: Path) -> None:
    os.chown(program, SOMEBODY_ELSE, SOMEBODY_ELSE)
    await lab.files.get("team/train.py")
    for documents in (1, 2):
        assert await submitted(lab, "team/train.py", shown=["print()"] * documents)

    program.write_text("print('theirs')")

    other: list[object] = ["print()", "", {"cells": []}]
    for one in other:
        assert not await submitted(lab, "team/train.py", shown=[one])
        assert not await submitted(lab, "team/train.py", shown=["print('theirs')", one])
    assert await submitted(lab, "team/train.py")  # chosen in the list
    await lab.files.get("team/train.py")
    assert await submitted(lab, "team/train.py", is_open=True)
    program.write_bytes(b"\xff")
    assert not await submitted(lab, "team/train.py", shown=["\ufffd"])


async def test_so_it_is_of_what_others_can_write_in_a_folder_of_ones_own(lab: Lab) -> None:
    """Theirs that was moved there, or with another name elsewhere; one's own, which nobody else comes to, is let be."""
    theirs = lab.private / "theirs.py"
    theirs.write_text("print('other')")
    os.chown(theirs, SOMEBODY_ELSE, SOMEBODY_ELSE)
    linked = lab.private / "linked.py"
    linked.write_text("print('other')")
    linked.chmod(0o664)
    (lab.home / "elsewhere").hardlink_to(linked)
    reached = lab.folder("mine", 0o755) / "reached.py"
    reached.write_text("print('other')")
    reached.chmod(0o664)
    script = lab.private / "theirs.sh"
    script.write_text("print('other')")
    os.chown(script, SOMEBODY_ELSE, SOMEBODY_ELSE)
    link = lab.link("private/link.sh", script, os.getuid())
    for path in (theirs, linked, reached, script, link):
        assert not await submitted(lab, str(path.relative_to(lab.home)), shown=["print()"])
        assert await submitted(lab, str(path.relative_to(lab.home)), shown=["print('other')"])

    (lab.private / "own.py").write_text("print('by vim')")
    (lab.private / "own.py").chmod(0o664)
    assert await submitted(lab, "private/own.py", shown=["print()"])


async def test_what_was_compared_is_what_the_job_runs(lab: Lab, program: Path) -> None:
    """Somebody writes into the file all the time."""
    await lab.files.get("team/train.py")
    slurm, place = place_of(lab)
    await place.desk.submit(place.order({"file": "team/train.py", "shown": ["print()"]}))
    (asked,) = [one for one in slurm.asked if "sbatch" in one]
    (copy,) = [next(Path(word).glob("*/train.py")) for word in asked if "/submitted/" in word]
    assert copy.read_text() == "print()"
    assert copy.is_relative_to(lab.home)

    copy.write_text("print('theirs')")
    is_another = lab.files.read_places.is_another
    assert is_another(program, program, os.getuid(), ["print()"], copy)
    assert not is_another(program, program, os.getuid(), ["print()"], program)


async def test_what_a_link_leads_to_by_now_is_what_is_compared(lab: Lab) -> None:
    """The job is of what it led to when it was looked at."""
    for folder, text in ((lab.team, "print()"), (lab.theirs, "print('theirs')")):
        (folder / "train.py").write_text(text)
        os.chown(folder / "train.py", SOMEBODY_ELSE, SOMEBODY_ELSE)
    lab.link("private/train.py", lab.team / "train.py", os.getuid())
    await lab.files.get("private/train.py")
    is_another = lab.files.read_places.is_another
    for real, is_other in ((lab.team, False), (lab.theirs, True)):
        opened = lab.private / "train.py"
        assert is_another(opened, real / "train.py", SOMEBODY_ELSE, ["print()"]) is is_other


async def test_an_editor_ends_lines_in_its_own_way(lab: Lab, program: Path) -> None:
    for end in (b"\r\n", b"\r", b"\n"):
        program.write_bytes(end.join([b"print()", b"print()", b""]))
        await lab.files.get("team/train.py")
        assert await submitted(lab, "team/train.py", shown=["print()\nprint()\n"])
        assert not await submitted(lab, "team/train.py", shown=["print()print()"])


@pytest.mark.parametrize(
    ("cookie", "is_plain"),
    [("utf-7", False), ("rot13", False), ("none", False), ("latin1", True), ("utf8", True), ("US-ASCII", True)],
)
async def test_a_program_in_letters_that_no_page_shows_is_not_submitted(
    lab: Lab, program: Path, cookie: str, is_plain: bool
) -> None:
    for first in ("", "#!/usr/bin/env python3\n", "#\r"):
        program.write_bytes(f"{first}# coding: {cookie}\n# +AAo-print()\n".encode())
        await lab.files.get("team/train.py")
        assert await submitted(lab, "team/train.py", is_open=True) is is_plain


def cell(source: str, *tags: str) -> dict[str, object]:
    """One of code."""
    metadata = {"tags": [*tags]}
    return {"cell_type": "code", "source": source, "metadata": metadata, "outputs": [], "execution_count": None}


def kernel(name: str, language: str = "python") -> dict[str, object]:
    """The metadata of a notebook."""
    return {"kernelspec": {"name": name, "display_name": name, "language": language}}


async def test_what_runs_of_a_notebook_is_what_the_page_shows(lab: Lab) -> None:
    """Outputs, and cells that are empty, are not looked at."""
    one, two = cell("a = 1", "parameters"), cell("print(a)")
    shown = {"metadata": kernel("plain"), "cells": [one, two, cell("")]}
    output = {"output_type": "stream", "name": "stdout", "text": "1\n"}
    text = json.dumps({**FORMAT, **shown, "cells": [one, {**two, "outputs": [output]}]})
    (lab.team / "plan.ipynb").write_text(text)
    os.chown(lab.team / "plan.ipynb", SOMEBODY_ELSE, SOMEBODY_ELSE)
    await lab.files.get("team/plan.ipynb")
    assert await submitted(lab, "team/plan.ipynb", shown=[shown])
    assert await submitted(lab, "team/plan.ipynb", shown=[shown, text])

    for changed in (
        {**shown, "cells": [one, cell("print(a, 'theirs')")]},
        {**shown, "cells": [one, two, cell("print('theirs')")]},
        {**shown, "cells": [two, one]},
        {**shown, "cells": [cell("a = 1"), two]},
        {**shown, "cells": [one, {**two, "cell_type": "raw"}]},
        {**shown, "cells": [one, cell("", "injected-parameters"), two]},
        {**shown, "metadata": kernel("other")},
        {**shown, "metadata": kernel("plain", "bash")},
        {**shown, "metadata": kernel("plain") | {"language_info": {"name": "bash"}}},
        {**shown, "metadata": {}},
    ):
        theirs = json.dumps({**FORMAT, **changed})
        (lab.team / "plan.ipynb").write_text(theirs)
        assert not await submitted(lab, "team/plan.ipynb", shown=[shown]), changed
        assert not await submitted(lab, "team/plan.ipynb", shown=[text]), changed
        assert not await submitted(lab, "team/plan.ipynb", shown=[shown, theirs]), changed
    for no_notebook in ("[]", "{}", '{"cells": 1}', "print()"):
        (lab.team / "plan.ipynb").write_text(no_notebook)
        assert not await submitted(lab, "team/plan.ipynb", shown=[shown]), no_notebook


@pytest.mark.parametrize("shown", [None, "text", {}, [1], [["text"]], [None]])
def test_what_a_page_shows_is_a_list_of_texts_and_notebooks(lab: Lab, shown: object) -> None:
    with pytest.raises(RequestError, match="shown"):
        place_of(lab)[1].order({"file": "team/train.py", "shown": shown})


async def test_what_was_made_and_then_exchanged_by_its_person_is_what_she_opens(lab: Lab) -> None:
    """Uploaded, say, and then fetched anew in a terminal."""
    path = (await lab.files.new_untitled("team", ext=".py"))["path"]
    put_another(lab.home / path, os.getuid())
    asks_as("editor")
    await lab.files.get(path)
    assert await submitted(lab, path, is_open=True)


async def test_what_is_saved_is_what_all_documents_of_a_page_have(lab: Lab) -> None:
    asks_as("one")
    await lab.files.get("team/plan.txt")
    put_another(lab.team / "plan.txt", os.getuid())
    asks_as("one", is_open=True)
    await lab.files.get("team/plan.txt")
    is_another = lab.files.read_places.is_another
    assert is_another(lab.team / "plan.txt", lab.team / "plan.txt", os.getuid(), PLAN)

    assert await lab.save("team/plan.txt") == 200

    assert not is_another(lab.team / "plan.txt", lab.team / "plan.txt", os.getuid(), PLAN)
    put_another(lab.team / "plan.txt")
    await lab.files.get("team/plan.txt")
    assert is_another(lab.team / "plan.txt", lab.team / "plan.txt", SOMEBODY_ELSE, PLAN)


async def test_a_page_that_is_older_is_so_until_it_is_loaded_or_the_file_opened_again(lab: Lab) -> None:
    asks_as("one", is_open=True)
    await lab.files.get("team/plan.ipynb")
    assert not await submitted(lab, "team/plan.ipynb", is_open=True)
    put_another(lab.team / "plan.txt")
    await lab.files.get("team/plan.txt")
    (lab.team / "plan.txt").chmod(0o666)
    assert await lab.save("team/plan.txt") == 403

    asks_as("one")
    await lab.files.get("team/plan.ipynb")

    assert await submitted(lab, "team/plan.ipynb", is_open=True)


async def test_the_list_of_notebook_7_is_another_page_than_that_of_the_file(lab: Lab, program: Path) -> None:
    asks_as("editor")
    await lab.files.get("team/train.py")
    asks_as("list")
    assert await submitted(lab, "team/train.py")

    put_another(program)

    assert not await submitted(lab, "team/train.py")
    asks_as("editor", is_open=True)  # Revert: it may show what it has shown before
    await lab.files.get("team/train.py")
    asks_as("list")
    assert not await submitted(lab, "team/train.py")
    asks_as("editor again")
    await lab.files.get("team/train.py")
    asks_as("list")
    assert await submitted(lab, "team/train.py")


async def test_a_name_that_was_given_to_another_file_is_a_new_one(lab: Lab, program: Path) -> None:
    await lab.files.get("team/train.py")
    await lab.files.rename_file("team/train.py", "team/old.py")
    program.write_text("print()")
    os.chown(program, SOMEBODY_ELSE, SOMEBODY_ELSE)

    assert await submitted(lab, "team/train.py")
    assert await submitted(lab, "team/old.py")
    put_another(lab.team / "old.py")
    assert not await submitted(lab, "team/old.py")


@pytest.mark.parametrize("act", ["deleted", "renamed"])
async def test_what_another_window_takes_away_a_page_may_show_still(lab: Lab, program: Path, act: str) -> None:
    asks_as("one")
    await lab.files.get("team/train.py")
    asks_as("two")
    await (
        lab.files.delete_file("team/train.py")
        if act == "deleted"
        else lab.files.rename_file("team/train.py", "team/b.py")
    )
    program.write_text("print()")
    os.chown(program, SOMEBODY_ELSE, SOMEBODY_ELSE)
    assert await submitted(lab, "team/train.py")  # in the list a new name

    asks_as("one", is_open=True)
    assert not await submitted(lab, "team/train.py", is_open=True)
    program.unlink()
    assert await lab.save("team/train.py") == 200
    assert program.stat().st_mode & 0o077 == 0o044, "it is of this session"


async def test_a_page_that_is_older_than_the_session_submits_what_nobody_can_have_exchanged(
    lab: Lab, program: Path
) -> None:
    """It shows what it read of an earlier one: whose that was nobody knows."""
    assert not await submitted(lab, "team/train.py", is_open=True)
    await lab.files.get("team/train.py", content=False)  # as before a save, which the person then lets be
    assert not await submitted(lab, "team/train.py", is_open=True)
    assert await submitted(lab, "team/train.py", is_open=False)  # chosen in the list
    (lab.private / "train.py").write_text("print()")
    assert await submitted(lab, "private/train.py", is_open=True)

    await lab.files.get("team/train.py")

    assert await submitted(lab, "team/train.py", is_open=True)


async def test_what_was_saved_is_ones_own(lab: Lab, program: Path) -> None:
    assert await lab.save("team/train.py") == 200
    assert await submitted(lab, "team/train.py")
    put_another(program)

    assert not await submitted(lab, "team/train.py")
