"""What a client may ask of a language model, what it gets, and how requests become batches. No network here."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

WAITING_MAX = 64  # requests; more are refused at once instead of waiting for minutes
TOKENS_USUAL = 16  # where a request names no number, as in OpenAI's interface
FIELDS = ("model", "prompt", "max_tokens", "temperature")


class Refused(Exception):
    """A request that is not answered: the status of HTTP, and what the client is told."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


@dataclass(frozen=True)
class Request:
    """What a client wants: a text to go on from, and how many tokens at most."""

    prompt: str
    max_tokens: int


@dataclass(frozen=True)
class Answer:
    """The text that follows a prompt; ``ended`` where the model itself ended it."""

    text: str
    prompt_tokens: int
    completion_tokens: int
    ended: bool


Generate = Callable[[Sequence[Request]], Sequence[Answer]]
Waiting = tuple[Request, "Future[Answer]"]


def parse(body: bytes) -> Request:
    """The request in a body of JSON; raises :class:`Refused` with what is allowed."""
    try:
        given = json.loads(body)
    except ValueError:  # bytes that are no text are one, too
        given = None
    if not isinstance(given, dict):
        raise Refused(400, 'The body is no JSON object: send {"prompt": "…", "max_tokens": 16}.')
    if unknown := sorted(set(given) - set(FIELDS)):
        raise Refused(400, f"Not known: {', '.join(unknown)}; there are {', '.join(FIELDS)}.")
    prompt, tokens = given.get("prompt"), given.get("max_tokens", TOKENS_USUAL)
    if not isinstance(prompt, str) or not prompt:
        raise Refused(400, "prompt must be a text that is not empty.")
    if type(tokens) is not int or tokens < 1:
        raise Refused(400, f"max_tokens is {tokens!r}; it must be a whole number from 1.")
    if given.get("temperature", 0) != 0:
        raise Refused(400, "temperature must be 0: this server always takes the likeliest token.")
    return Request(prompt, tokens)


def answered(answer: Answer, model: str, number: int) -> dict[str, Any]:
    """An answer as OpenAI's interface writes it."""
    reason = "stop" if answer.ended else "length"
    used = {"prompt_tokens": answer.prompt_tokens, "completion_tokens": answer.completion_tokens}
    return {
        "id": f"cmpl-{number}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": model,
        "choices": [{"index": 0, "text": answer.text, "finish_reason": reason, "logprobs": None}],
        "usage": {**used, "total_tokens": sum(used.values())},
    }


class Batcher:
    """Hands requests to the model, in one thread: those that wait at the same time go together.

    Arguments:
        generate: answers a batch; it is never called twice at a time.
        most: requests in a batch.
        wait_s: how long the first request of a batch waits for others.
    """

    def __init__(self, generate: Generate, most: int = 8, wait_s: float = 0.02) -> None:
        self.generate, self.most, self.wait_s = generate, most, wait_s
        self.waiting: queue.Queue[Waiting | None] = queue.Queue(WAITING_MAX)
        self.ended, self.lock = False, threading.Lock()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def ask(self, request: Request) -> Answer:
        """The answer to one request; any thread may ask. Raises :class:`Refused` where there is none."""
        future: Future[Answer] = Future()
        with self.lock:
            if self.ended:
                raise Refused(503, "The server is ending.")
            try:
                self.waiting.put_nowait((request, future))
            except queue.Full:
                raise Refused(503, f"{WAITING_MAX} requests are waiting already: try again later.") from None
        return future.result()

    def end(self) -> None:
        """Finish the batch that is computed; what waits is refused."""
        with self.lock:
            self.ended = True
        self.waiting.put(None)
        self.thread.join()

    def _run(self) -> None:
        while (first := self.waiting.get()) is not None:
            self._answer([first, *self._others()])

    def _others(self) -> list[Waiting]:
        """What else is waiting, or comes within ``wait_s``, as far as it fits."""
        found: list[Waiting] = []
        until = time.monotonic() + self.wait_s
        while len(found) < self.most - 1:
            try:
                one = self.waiting.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                break
            if one is None:
                self.waiting.put(None)  # the end comes after this batch
                break
            found.append(one)
        return found

    def _answer(self, batch: list[Waiting]) -> None:
        try:
            if self.ended:
                raise Refused(503, "The server is ending.")
            answers = self.generate([request for request, _ in batch])
            for (_, future), answer in zip(batch, answers, strict=True):
                future.set_result(answer)
        except Exception as error:  # whatever a framework raises: this thread must go on for the others
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
