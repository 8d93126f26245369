"""What is said to be a password or a token is taken whole out of the lines that are kept of an ended session."""

from __future__ import annotations

import time

import pytest

from portal.history.record import LOG_READ, without_secrets

SECRET = "hunter2"
LINES = (
    f'password="correct horse {SECRET}"',
    f"password='correct {SECRET}' again",
    rf'password="a \" {SECRET}"',
    rf"password='it'\''s {SECRET}'",
    f'password = "never closed {SECRET}',
    rf"{{\"password\": \"correct {SECRET}\", \"user\": \"alice\"}}",
    f"password=b'correct {SECRET}'",
    f"DB_PASSWORD=ab;cd,{SECRET}&{SECRET}'{SECRET}",
    f"{{'token': '{SECRET}'}}",
    f":token => '{SECRET}'",
    f'Cookie: theme=dark; jupyterhub-user-alice="2|1:0|{SECRET}"; more={SECRET}',
    f'Authorization: Digest username="a", response="{SECRET}"',
    f"{{'Authorization': 'token {SECRET}', 'Cookie': 'a=b; c={SECRET}'}}",
    f"Set-Cookie: a={SECRET}; Path=/",
    f"curl --token {SECRET}",
    f"login --password  '{SECRET} {SECRET}'",
    f"tool -api-key {SECRET}",
    f"tool --my-auth-token={SECRET}",
    f"['tool', '--token', '{SECRET}']",
    f"X-API-Key: {SECRET}",
    f"api key: {SECRET}",
    f"passphrase: {SECRET}",
    f"git clone https://alice:{SECRET}@git.example.org/x",
    f"GET /lab?token={SECRET} 200",
    f"\x1b[31mpassword\x1b[0m: {SECRET}",
    f"password\x1b[0m=\x1b[1m{SECRET}",
)
HARMLESS = (
    "epoch 3: 512 tokens of the text, loss 0.3",
    "--no-token --port 8888",
    "see https://docs.example.org:8443/a@b",
    "Cookie:\nTraceback (most recent call last)",
    "AuthorizationError: no such account",
    "tokenizer: bert-base",
    "2026-11-28 14:03:04 GET /hub/login 200",
)
HOSTILE = (
    "token",
    "token ",
    "--token ",
    "-token-",
    "--",
    'token="',
    'token=""\'\\',
    "token='\\",
    "token\\\\\\\\",
    "password: \\",
    "://a:",
    "://",
    "cookie",
    "api key",
    "api ",
    "a",
    "-",
    " ",
    "\\",
    '"',
)


@pytest.mark.parametrize("line", LINES)
def test_a_secret_is_taken_out_whole(line: str) -> None:
    shown = without_secrets(f"before\n{line}\nafter", "")
    assert SECRET not in shown
    assert "[removed]" in shown
    assert shown.startswith("before\n")
    assert shown.endswith("\nafter")


@pytest.mark.parametrize("line", HARMLESS)
def test_what_only_looks_like_one_stays(line: str) -> None:
    assert without_secrets(line, "") == line


def test_what_stands_beside_a_secret_stays() -> None:
    assert without_secrets('{"token": "a b", "user": "alice"}', "") == '{"token": [removed], "user": "alice"}'
    assert without_secrets("tool --token abc --port 1", "") == "tool --token [removed] --port 1"
    assert without_secrets("https://alice:pw@example.org/x", "") == "https://alice:[removed]@example.org/x"


def test_the_sessions_own_token_is_taken_out_wherever_it_stands() -> None:
    assert without_secrets("said its-own here", "its-own") == "said [removed] here"


@pytest.mark.parametrize("part", HOSTILE)
def test_a_log_made_to_be_slow_is_looked_through_at_once(part: str) -> None:
    began = time.process_time()
    without_secrets(part * (LOG_READ // len(part)), "")
    assert time.process_time() - began < 1
