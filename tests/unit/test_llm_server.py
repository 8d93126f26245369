"""The lesson's server of a language model: what it takes, what it refuses, batches, and who can reach it."""

from __future__ import annotations

import importlib
import json
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.inside import eventually

LESSON = Path(__file__).parents[2] / "notebooks" / "llm"
# A model that writes the prompt once more, a word a token, and lies in its folder as a file of words.
ECHO = """
class Model:
    def __init__(self, folder, precision):
        assert (folder / "words").read_text() == precision

    def too_long(self, prompt, tokens):
        return "too long for me" if tokens > 100 else ""

    def complete(self, prompts, tokens):
        if "fail" in prompts:
            raise RuntimeError("out of memory")
        written = [prompt.split()[:count] for prompt, count in zip(prompts, tokens)]
        return [(" ".join(one), len(p.split()), len(one), len(one) < n) for p, one, n in zip(prompts, written, tokens)]
"""


@pytest.fixture
def serve_model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module as a notebook imports it, with its neighbours."""
    monkeypatch.syspath_prepend(str(LESSON))
    yield importlib.import_module("serve_model")
    for name in ("serve_model", "completions", "lesson_folders"):
        sys.modules.pop(name, None)


@pytest.fixture
def completions(serve_model: ModuleType) -> ModuleType:
    return sys.modules[serve_model.Request.__module__]


@pytest.fixture
def private(tmp_path: Path) -> Path:
    folder = tmp_path / "private"
    folder.mkdir(mode=0o700)
    return folder


class Gate:
    """A model that answers when it may, and keeps the batches that it got."""

    def __init__(self, completions: ModuleType) -> None:
        self.answer, self.batches = completions.Answer, list[list[str]]()
        self.may, self.began = threading.Event(), threading.Event()

    def generate(self, requests: Sequence[Any]) -> list[Any]:
        self.batches.append([one.prompt for one in requests])
        self.began.set()
        assert self.may.wait(30)
        return [self.answer(one.prompt.upper(), 1, one.max_tokens, False) for one in requests]


@contextmanager
def listening(module: ModuleType, folder: Path, generate: Callable[[Any], Any]) -> Iterator[Any]:
    """A server in this process, with a model of the test's own; its socket is in the folder."""
    batcher = module.Batcher(generate)
    server = module.Server(folder / "socket", "echo", batcher, lambda request: None)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        batcher.end()
        server.server_close()


@contextmanager
def program(folder: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The server as a notebook starts it, with ECHO in the place of a framework."""
    (tmp_path / "greedy.py").write_text(ECHO)
    (tmp_path / "words").write_text("float32")
    paths = [str(tmp_path), str(LESSON)]
    code = f"import sys; sys.path[:0] = {paths}; import serve_model; sys.exit(serve_model.main())"
    argv = [sys.executable, "-B", "-c", code, "--model", str(tmp_path), "--socket", str(folder / "socket")]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdin
        try:
            yield process
        finally:
            process.stdin.close()
            process.wait(30)


def ready(process: subprocess.Popen[str]) -> bool:
    assert process.stdout
    readable, _, _ = select.select([process.stdout], [], [], 30)
    return bool(readable) and process.stdout.readline() == "ready\n"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "no JSON object"),
        (b"\xff", "no JSON object"),
        (b"[1]", "no JSON object"),
        (b'{"prompt": "a", "stream": true}', "Not known: stream; there are model, prompt, max_tokens, temperature"),
        (b'{"max_tokens": 3}', "prompt must be a text"),
        (b'{"prompt": ["a"]}', "prompt must be a text"),
        (b'{"prompt": ""}', "prompt must be a text"),
        (b'{"prompt": "a", "max_tokens": 0}', "max_tokens is 0; it must be a whole number from 1"),
        (b'{"prompt": "a", "max_tokens": true}', "max_tokens is True"),
        (b'{"prompt": "a", "temperature": 1}', "temperature must be 0"),
    ],
)
def test_a_request_that_cannot_be_answered_is_refused_with_what_is_allowed(
    completions: ModuleType, body: bytes, words: str
) -> None:
    with pytest.raises(completions.Refused, match=words) as refused:
        completions.parse(body)
    assert refused.value.status == 400


def test_a_request_without_a_number_of_tokens_gets_the_usual_one(completions: ModuleType) -> None:
    given = {"prompt": "a", "model": "any", "temperature": 0.0}
    assert completions.parse(json.dumps(given).encode()) == completions.Request("a", 16)


def test_requests_that_wait_at_the_same_time_are_one_batch_and_each_gets_its_own_answer(
    serve_model: ModuleType, completions: ModuleType, private: Path
) -> None:
    gate, socket = Gate(completions), private / "socket"
    with listening(serve_model, private, gate.generate) as server, ThreadPoolExecutor(5) as pool:
        first = pool.submit(serve_model.ask, socket, "first", 1)
        assert gate.began.wait(30)
        others = {name: pool.submit(serve_model.ask, socket, name, 2) for name in "abcd"}
        eventually(lambda: server.batcher.waiting.qsize() == 4, "four requests wait")
        gate.may.set()
        assert first.result(30)["choices"][0]["text"] == "FIRST"
        assert {n: one.result(30)["choices"][0]["text"] for n, one in others.items()} == {n: n.upper() for n in "abcd"}
    assert gate.batches[0] == ["first"]
    assert [sorted(batch) for batch in gate.batches[1:]] == [list("abcd")]


def test_a_batch_holds_no_more_than_it_may(completions: ModuleType) -> None:
    gate = Gate(completions)
    batcher = completions.Batcher(gate.generate, most=2)
    with ThreadPoolExecutor(6) as pool:
        first = pool.submit(batcher.ask, completions.Request("first", 1))
        assert gate.began.wait(30)
        others = [pool.submit(batcher.ask, completions.Request("x", 1)) for _ in range(4)]
        eventually(lambda: batcher.waiting.qsize() >= 3, "the others wait")
        gate.may.set()
        assert [one.result(30).text for one in (first, *others)] == ["FIRST", "X", "X", "X", "X"]
    batcher.end()
    assert max(map(len, gate.batches)) == 2


def test_a_queue_that_is_full_refuses_at_once(completions: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completions, "WAITING_MAX", 1)
    gate = Gate(completions)
    batcher = completions.Batcher(gate.generate, most=1)
    with ThreadPoolExecutor(2) as pool:
        pool.submit(batcher.ask, completions.Request("computed", 1))
        assert gate.began.wait(30)
        pool.submit(batcher.ask, completions.Request("waiting", 1))
        eventually(lambda: batcher.waiting.full(), "the queue is full")
        with pytest.raises(completions.Refused, match="1 requests are waiting already") as refused:
            batcher.ask(completions.Request("late", 1))
        gate.may.set()
    assert refused.value.status == 503
    batcher.end()


def test_at_its_end_what_is_computed_is_answered_and_what_waits_is_refused(completions: ModuleType) -> None:
    gate = Gate(completions)
    batcher = completions.Batcher(gate.generate, most=1)
    with ThreadPoolExecutor(3) as pool:
        computed = pool.submit(batcher.ask, completions.Request("computed", 1))
        assert gate.began.wait(30)
        waiting = pool.submit(batcher.ask, completions.Request("waiting", 1))
        eventually(lambda: batcher.waiting.qsize() == 1, "one waits")
        ending = pool.submit(batcher.end)
        eventually(lambda: batcher.ended, "it is ending")
        gate.may.set()
        assert computed.result(30).text == "COMPUTED"
        with pytest.raises(completions.Refused, match="The server is ending"):
            waiting.result(30)
        ending.result(30)
    with pytest.raises(completions.Refused, match="The server is ending"):
        batcher.ask(completions.Request("late", 1))


def test_a_batch_that_fails_is_told_to_its_clients_and_the_next_is_computed(
    serve_model: ModuleType, completions: ModuleType, private: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def generate(requests: Sequence[Any]) -> list[Any]:
        if requests[0].prompt == "fail":
            raise MemoryError("no room")
        return [completions.Answer("fine", 1, 1, True)]

    with listening(serve_model, private, generate):
        with pytest.raises(serve_model.Refused, match="The model failed; the server's log says why") as refused:
            serve_model.ask(private / "socket", "fail", 1)
        assert serve_model.ask(private / "socket", "go on", 1)["choices"][0]["finish_reason"] == "stop"
    assert refused.value.status == 500
    assert capsys.readouterr().err == "a batch failed: MemoryError: no room\n"


def test_an_answer_reads_as_those_of_openai(completions: ModuleType) -> None:
    content = completions.answered(completions.Answer("text", 3, 4, False), "a-model", 7)
    assert (content["id"], content["object"], content["model"]) == ("cmpl-7", "text_completion", "a-model")
    assert content["choices"] == [{"index": 0, "text": "text", "finish_reason": "length", "logprobs": None}]
    assert content["usage"] == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}


@pytest.mark.parametrize(("above", "rights", "words"), [(0o700, 0o750, "open to others"), (0o777, 0o700, "can change")])
def test_a_folder_that_others_may_enter_or_exchange_holds_no_socket(
    serve_model: ModuleType, private: Path, above: int, rights: int, words: str
) -> None:
    private.chmod(rights)
    private.parent.chmod(above)
    with pytest.raises(ValueError, match=words):
        serve_model.Server(private / "socket", "echo", None, None)
    assert list(private.iterdir()) == []


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/", {}, 404),
        ("POST", "/v1/chat/completions", {"Content-Length": "0"}, 404),
        ("POST", "/v1/completions", {"Transfer-Encoding": "chunked"}, 411),
        ("POST", "/v1/completions", {"Content-Length": "99999999"}, 413),
        ("POST", "/v1/completions", {"Content-Length": "-1"}, 411),
    ],
)
def test_what_is_no_completion_is_refused_with_a_status(
    serve_model: ModuleType, private: Path, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    with listening(serve_model, private, lambda requests: []):
        connection = serve_model.Connection(private / "socket")
        connection.putrequest(method, path)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        response = connection.getresponse()
        assert (response.status, json.loads(response.read())["error"]["code"]) == (status, status)
        connection.close()


def test_the_program_serves_until_its_standard_input_ends(
    serve_model: ModuleType, private: Path, tmp_path: Path
) -> None:
    with program(private, tmp_path) as process:
        assert ready(process)
        found = serve_model.ask(private / "socket", "one two three", 2)
        assert found["choices"][0]["text"] == "one two"
        assert (found["model"], found["usage"]["prompt_tokens"]) == (tmp_path.name, 3)
        with pytest.raises(serve_model.Refused, match="too long for me"):
            serve_model.ask(private / "socket", "one", 101)
    assert process.returncode == 0
    assert list(private.iterdir()) == []


def test_the_program_says_why_it_does_not_start(private: Path, tmp_path: Path) -> None:
    private.chmod(0o755)
    with program(private, tmp_path) as process:
        assert not ready(process)
        assert process.stderr
        assert process.stderr.read().startswith(f"serve_model: {private} is open to others: ")
    assert process.returncode == 1
