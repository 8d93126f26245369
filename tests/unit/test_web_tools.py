"""Web tools of the settings and of a session: what is refused, what is started, and what is said when it fails."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from portal.commands import tool_commands
from portal.doctor import kernel_checks
from portal.errors import KernelError, RequestError, SiteError
from portal.gpus import as_person, job
from portal.session_settings import SETTINGS, OfferedTool, SessionSettings
from portal.site import Site, parse
from portal.tensorboard.error_page import from_elsewhere
from portal.trials.told import line_of
from portal.trials.trial import Trial
from portal.webtools import explained, kept, tested
from portal.webtools.routes import SOCKET_PATH_MAX, socket_folder
from portal.webtools.tools import ToolPlace, Tools, WebTool

GOOD = {"name": "page", "title": "Page", "command": ["serve", "--uds", "{socket}"]}
SERVES = """
import http.server, os, socketserver, sys
class Page(http.server.BaseHTTPRequestHandler):
    def address_string(self): return "socket"
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(self.path.encode())
print("serving", os.environ.get("OF_THE_TOOL"), "JUPYTERHUB_API_TOKEN" in os.environ, flush=True)
socketserver.UnixStreamServer(sys.argv[1], Page).serve_forever()
"""


def tool(tmp_path: Path, *command: str) -> WebTool:
    """A tool of a session without modules."""
    offered = OfferedTool("page", "Page", command, environment={"OF_THE_TOOL": "set"})
    place = ToolPlace(tmp_path / "run", "/user/alice/", tmp_path)
    return Tools(SessionSettings(tools=(offered,)), place).tool("page")


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  nobody sets an event
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"command": ["serve", "--port", "5000"]}, "a port of a node is open to everybody on it"),
        ({"command": ["serve", "{socket}", "{port}"]}, "{port} is not possible"),
        ({"command": ["serve", "{socket}", "{user}"]}, "{user} is not known; known: {socket}, {base}, {home}"),
        ({"command": []}, "it names no program"),
        ({"command": ["{socket}"]}, "it names no program"),
        ({"command": "serve {socket}"}, "a list in [ ]"),
        ({"command": ["serve", "{socket}", "a\nb"]}, "a control character"),
        ({"modules": ["--help"]}, "is no name"),
        ({"modules": ["shared/*"]}, "is no name"),
        ({"modules": ["a b"]}, "is no name"),
        ({"name": "../x"}, "a name of letters"),
        ({"title": " "}, "it is empty"),
        ({"ready": "//elsewhere\r\nX: 1"}, "a path below"),
        ({"icon": "logo.svg"}, "an absolute path"),
        ({"environment": {"JUPYTERHUB_API_TOKEN": "x"}}, "names of variables"),
        ({"comand": ["x"]}, "did you mean 'command'?"),
    ],
)
def test_an_entry_that_cannot_work_is_refused_with_what_is_allowed(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(SiteError) as refused:
        parse({"tool": [GOOD | wrong]})
    assert words in str(refused.value)


def test_a_name_stands_once() -> None:
    with pytest.raises(SiteError, match="the name 'page' stands 2 times"):
        parse({"tool": [GOOD, GOOD]})


def test_a_tool_for_a_group_is_told_to_its_sessions_alone() -> None:
    site = parse({"tool": [GOOD, GOOD | {"name": "other", "groups": ["staff"]}], "kernels": {"module_path": ["/cm"]}})

    assert "staff" in site.groups_mentioned
    assert [one.name for one in SessionSettings.of(site, "", {"users"}).tools] == ["page"]
    told = SessionSettings.of(site, "", {"staff"})
    assert [one.name for one in told.tools] == ["page", "other"]
    assert SessionSettings.from_environment({SETTINGS: told.to_text()}) == told


def test_what_fills_a_placeholder_stays_one_word_and_is_not_filled_again() -> None:
    values = {"socket": "/a b; rm -rf $HOME/{home}.sock", "home": "/h"}

    assert OfferedTool("x", "X", ("x", "--uds={socket}", "{}")).words(values) == [
        "x",
        "--uds=/a b; rm -rf $HOME/{home}.sock",
        "{}",
    ]


async def test_it_starts_answers_logs_and_ends_without_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "secret")
    page = tool(tmp_path, sys.executable, "-c", SERVES, "{socket}")
    assert page.state == "stopped"

    await page.start()
    await until(lambda: page.state != "starting")

    assert page.as_json()["state"] == "ready", page.last_words()
    assert "serving set False" in page.log().text
    assert page.socket.parent.stat().st_mode & 0o777 == 0o700
    assert page.socket.stat().st_mode & 0o077 == 0
    await page.stop()
    assert (page.state, page.socket.exists()) == ("stopped", False)


async def test_what_it_keeps_for_a_while_lies_in_a_private_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """VS Code keeps files in ``vscode-typescriptUID`` of TMPDIR: in /tmp others make that folder, and links in it."""
    monkeypatch.setenv("TMPDIR", "/tmp")
    page = tool(tmp_path, sys.executable, "-c", "import tempfile; print('in', tempfile.mkdtemp())", "{socket}")

    await page.start()
    await until(lambda: page.state != "starting")

    temporary = page.socket.with_name("tmp")
    assert page.last_words().startswith(f"in {temporary}/")
    assert temporary.stat().st_mode & 0o777 == 0o700


def test_where_a_site_has_it_kept_counts(tmp_path: Path) -> None:
    offered = OfferedTool("page", "Page", ("x", "{socket}"), environment={"TMPDIR": "/local"})
    page = Tools(SessionSettings(tools=(offered,)), ToolPlace(tmp_path, "/", tmp_path)).tool("page")
    found = page.environment({"TMPDIR": "/tmp"})
    assert (found["TMPDIR"], found["TMPDIR_OF_SESSION"]) == ("/local", "/local")


@pytest.mark.parametrize(("environ", "told"), [({"TMPDIR": "/scratch/4711"}, "/scratch/4711"), ({}, "/tmp")])
def test_a_terminal_of_a_tool_is_told_the_sessions_own(tmp_path: Path, environ: dict[str, str], told: str) -> None:
    page = tool(tmp_path, "x", "{socket}")
    assert page.environment(environ)["TMPDIR_OF_SESSION"] == told


async def test_one_that_ends_says_why_and_starts_again_only_when_asked(tmp_path: Path) -> None:
    page = tool(tmp_path, sys.executable, "-c", "raise SystemExit('no licence')", "{socket}")

    await page.start()
    await until(lambda: page.state != "starting")

    assert page.as_json()["state"] == "failed"
    assert page.why == "It ended before it was ready (exit status 1)."
    assert page.last_words() == "no licence"
    await page.start()
    assert page.as_json()["state"] == "starting"
    await page.stop()
    assert page.as_json() == {"name": "page", "title": "Page", "state": "stopped", "why": "", "started_at": None}


async def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    page = tool(tmp_path, "no-such-tool", "{socket}")

    await page.start()
    await until(lambda: page.state != "starting")

    assert "portal: page cannot start: The program 'no-such-tool' is not found" in page.last_words()


async def test_the_last_words_of_a_long_log_are_those_at_its_end(tmp_path: Path) -> None:
    page = tool(tmp_path, sys.executable, "-c", "print('x' * 200_000); print('last')", "{socket}")

    await page.start()
    await until(lambda: page.state != "starting")

    assert len(page.log().text) == 64 * 1024
    assert page.last_words().endswith("last")


def test_an_unknown_tool_is_told_with_those_that_there_are(tmp_path: Path) -> None:
    place = ToolPlace(tmp_path, "/", tmp_path)

    with pytest.raises(RequestError, match="one of page"):
        Tools(SessionSettings(tools=(OfferedTool("page", "Page", ("x",)),)), place).tool("../page")


def test_a_socket_whose_path_would_be_too_long_is_elsewhere(tmp_path: Path) -> None:
    assert socket_folder(Path("/tmp/dsp-1"), ["page"]) == Path("/tmp/dsp-1/tools")
    assert socket_folder(Path("/tmp/dsp-1"), ["page", "x" * SOCKET_PATH_MAX]) != Path("/tmp/dsp-1/tools")
    assert socket_folder(Path("/local/scratch/jobs/job.4711/alice/dsp-1234abcd"), ["page"]).name.startswith("dsp-")
    short = socket_folder(tmp_path / ("x" * SOCKET_PATH_MAX), ["page"])
    assert short.stat().st_mode & 0o777 == 0o700
    short.rmdir()


# -- portal tools ---------------------------------------------------------------------------------------


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A site whose first tool is there, and whose second is for a group and is not."""
    program = tmp_path / "serve"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    there = GOOD | {"command": [str(program), "--uds", "{socket}"], "environment": {"LEVEL": "2"}, "ready": "/health"}
    absent = {"name": "gone", "title": "Gone", "command": ["no-such-tool", "{socket}"], "groups": ["staff"]}
    kernels = {"folder": str(tmp_path / "jupyter")}
    return parse({"tool": [there, absent], "partition": [{"name": "cpu"}], "profile": [], "kernels": kernels})


def test_the_list_says_which_can_start_and_why_another_cannot(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert explained.main_list(site) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first == "page: Page [no modules] its program is there, not tested as it is now"
    assert second.startswith("gone: Gone [no modules] for staff cannot start: The program 'no-such-tool' is not found")
    assert explained.main_list(parse({})) == 0
    assert "has no [[tool]]" in capsys.readouterr().out


def test_explain_says_what_a_tool_is_made_of(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert explained.main_explain(site, "page") == 0
    said = capsys.readouterr().out
    for words in ("who sees it  everybody", "/serve --uds '{socket}'", "environment  LEVEL=2", "/health answers"):
        assert words in said
    assert "now          it can be started" in said
    assert explained.main_explain(site, "gone") == 1
    said = capsys.readouterr().out
    assert "who sees it  members of staff" in said
    assert "now          cannot start: The program 'no-such-tool'" in said
    with pytest.raises(KernelError, match="There is no web tool other; there are page, gone"):
        explained.main_explain(site, "other")


def tools_that(tmp_path: Path, **commands: tuple[str, ...]) -> SessionSettings:
    """What a session is told of tools with these commands."""
    return SessionSettings(tools=tuple(OfferedTool(name, name, words) for name, words in commands.items()))


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whoever tests is not root, who starts no tools."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.usefixtures("person")
def test_a_test_starts_each_waits_for_its_answer_and_ends_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = tools_that(
        tmp_path,
        good=(sys.executable, "-c", SERVES, "{socket}"),
        bad=(sys.executable, "-c", "print('no licence\x1b[2J'); raise SystemExit(3)", "{socket}"),
    )

    assert tested.main(settings, []) == 1

    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("good: it answers after ")
    assert rest == [
        "bad: It ended before it was ready (exit status 3). Its last lines:",
        "bad:   no licence?[2J",
    ]
    assert not list(Path("/tmp").glob("dsp-*/good.sock"))
    assert tested.main(settings, ["good"]) == 0


@pytest.mark.usefixtures("person")
def test_a_test_for_programs_is_an_object_for_each_and_its_lines_are_messages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = tools_that(tmp_path, bad=(sys.executable, "-c", "print('no licence'); raise SystemExit(3)", "{socket}"))

    assert tested.main(settings, [], as_json=True) == 1

    said = capsys.readouterr()
    assert said.err.splitlines()[1] == "bad:   no licence"
    answer = json.loads(said.out)
    assert answer["tool"] == "bad"
    assert answer["trial"]["fault"] == "It ended before it was ready (exit status 3)."


@pytest.mark.usefixtures("person")
def test_a_test_of_an_unknown_tool_names_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(KernelError, match="There is no web tool x; there are page"):
        tested.main(tools_that(tmp_path, page=("x", "{socket}")), ["x"])


def test_root_starts_no_tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(KernelError, match="root starts no web tools"):
        tested.main(tools_that(tmp_path, page=("x", "{socket}")), [])


def test_the_job_of_a_test_is_told_what_a_session_is_told(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[job.Work] = []

    def run(_site: Site, _partition: str, _gpus: int, work: job.Work, _told: object) -> int:
        seen.append(work)
        return 0

    monkeypatch.setattr(tool_commands, "load", lambda _: site)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(job, "run", run)
    asked = SimpleNamespace(site="s", partition="cpu", gpus=0, user="", names=["gone"], json=False)

    assert tool_commands._test(asked) == 0  # type: ignore[arg-type]

    assert seen[0].words == ("tools", "test", "--", "gone")
    told = SessionSettings.from_environment(seen[0].variables)
    assert [tool.name for tool in told.tools] == ["page", "gone"], "tools of groups as well"
    argv = job.submission(site, "cpu", 0, seen[0], Path("/o"))
    assert argv[-5:] == [argv[-5], *seen[0].words]
    assert not [word for word in argv if "LEVEL" in word]


def trial_of(name: str, **values: object) -> str:
    """What the job of a test says of a tool."""
    return line_of("tool", name, replace(Trial(1, 8.94), **values))  # type: ignore[arg-type]


def test_root_has_the_job_submitted_as_a_person_and_keeps_what_it_found(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[str]] = []
    fault = {"start_s": None, "fault": "It ended before it was ready (exit status 1)."}

    def said(argv: list[str], user: str) -> str:
        asked.append([*argv[1:], user])
        words = ["gone:   no\x1b[2J licence", trial_of("gone", **fault), trial_of("page"), trial_of("other")]
        return "\n".join(words)

    monkeypatch.setattr(tool_commands, "load", lambda _: site)
    monkeypatch.setattr(as_person, "said", said)
    given = SimpleNamespace(site="/s", partition="cpu", gpus=1, user="alice", names=[], json=False)
    Path(site.kernels.folder).mkdir()

    assert tool_commands._test(given) == 1  # type: ignore[arg-type]

    words = ["tools", "test", "--json", "--site", "/s", "--partition", "cpu", "--gpus=1", "--", "page", "gone"]
    assert asked == [[*words, "alice"]]
    foreign, *found = capsys.readouterr().out.splitlines()
    assert foreign == "gone:   no?[2J licence"
    assert [line.partition(",")[0] for line in found] == [
        "page: starts in 8.9 s",
        "gone: It ended before it was ready (exit status 1)",
    ]
    assert sorted(kept.read(site)) == ["gone", "page"]
    assert kept.read(site)["page"].at > 1, "when it was is not the job's to say"
    explained.main_list(site)
    day = kept.read(site)["page"].day
    assert f"its program is there, starts in 8.9 s, tested {day} in cpu" in capsys.readouterr().out


def test_a_tool_that_changed_since_was_not_tested_and_one_of_which_nothing_was_said_keeps_its_last_test(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(site.kernels.folder).mkdir()
    assert kept.keep(site, "\n".join([trial_of("page"), trial_of("gone")]), "cpu", ["page", "gone"]) == 0
    assert kept.keep(site, trial_of("gone"), "cpu", ["page", "gone"]) == 1
    assert "page: the job said nothing of it" in capsys.readouterr().out
    assert sorted(kept.read(site)) == ["gone", "page"]

    page, gone = site.tool
    changed = site.model_copy(update={"tool": (page.model_copy(update={"ready": "/", "title": "New"}), gone)})
    assert list(kept.read(changed)) == ["gone"]
    renamed = site.model_copy(update={"tool": (page.model_copy(update={"title": "New"}), gone)})
    assert sorted(kept.read(renamed)) == ["gone", "page"]


def test_a_record_that_cannot_be_kept_is_said(site: Site) -> None:
    with pytest.raises(KernelError, match=r"The tests are not kept: .* cannot be written"):
        kept.keep(site, trial_of("page"), "cpu", ["page"])


def test_the_doctor_warns_of_a_tool_whose_last_test_found_a_fault(site: Site) -> None:
    Path(site.kernels.folder).mkdir()
    kept.keep(site, trial_of("page", start_s=None, fault="It did not answer within 120 s."), "cpu", ["page"])

    page, _ = kernel_checks.tools(site)

    assert (page.result, "It did not answer within 120 s, tested" in page.found) == ("warning", True)
    assert page.repair.endswith("portal tools test --partition NAME --user PERSON page")


def test_the_doctor_says_which_tool_cannot_start(site: Site) -> None:
    good, bad = kernel_checks.tools(site)
    assert (good.what, good.result) == ("tool page", "ok")
    assert (bad.what, bad.result, "'no-such-tool' is not found" in bad.found) == ("tool gone", "failed", True)


def test_the_page_for_a_click_from_elsewhere_names_the_tool() -> None:
    request = SimpleNamespace(method="GET", uri="/user/alice/tools/page/")

    assert "to a TensorBoard of your session" in from_elsewhere(request, "/")
    text = from_elsewhere(request, "/", "Page", "Open it if you meant to.")
    assert "led you here, to Page of your session." in text
    assert "TensorBoard" not in text


def test_who_asks_for_json_gets_it_also_where_the_record_is_kept(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(site.kernels.folder).mkdir()

    assert kept.keep(site, trial_of("page"), "cpu", ["page", "gone"], as_json=True) == 1

    said = capsys.readouterr()
    assert json.loads(said.out)["tool"] == "page"
    assert said.err == "gone: the job said nothing of it\n"
