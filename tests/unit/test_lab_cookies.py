"""JupyterLab takes away what other hosts have left in the place of its token or of the browser's session."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.served_hub import CHECKOUT

SOURCE = CHECKOUT / "templates/lab/src/cookies.ts"
NODE = Path(sys.executable).parent / "node"
# What a script sees of a browser's cookies, as `name|domain|path`, in the place of the browser's own.
BROWSER = """
import fs from "node:fs";
import { stripTypeScriptTypes } from "node:module";
const [source, before, later] = process.argv.slice(1);
const jar = new Map();
let look;
globalThis.document = {
  get cookie() { return [...jar].map(([key, value]) => `${key.split("|")[0]}=${value}`).join("; "); },
  set cookie(text) {
    const [[name, value], ...rest] = text.split("; ").map(part => part.split(/=(.*)/s));
    const { domain, path, "max-age": age } = Object.fromEntries(rest);
    age === "0" ? jar.delete(`${name}|${domain}|${path}`) : jar.set(`${name}|${domain}|${path}`, value);
  }
};
globalThis.location = { hostname: "carol.portal.example.org", pathname: "/user/carol/lab" };
globalThis.window = { setInterval: called => { look = called; }, addEventListener() {} };
const leave = cookies => JSON.parse(cookies).forEach(cookie => { document.cookie = cookie; });
const text = stripTypeScriptTypes(fs.readFileSync(source, "utf8"));
const { keepOwnToken } = await import(`data:text/javascript,${encodeURIComponent(text)}`);
leave(before);
keepOwnToken();
leave(later);
look();
console.log(document.cookie);
"""
OWN = "_xsrf=own; domain=carol.portal.example.org; path=/user/carol/"


def number(letter: str, domain: str = "example.org", path: str = "/") -> str:
    return f"jupyterhub-session-id={letter * 32}; domain={domain}; path={path}"


def seen_after(before: list[str], later: list[str]) -> str:
    """What scripts see of the cookies after two looks."""
    command = [str(NODE), "--input-type=module", "-e", BROWSER, str(SOURCE), json.dumps(before), json.dumps(later)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


@pytest.mark.parametrize("before", [[], [number("1")], [number("1"), number("3", "portal.example.org", "/user")]])
@pytest.mark.parametrize("later", [[], [number("2")]])
def test_a_number_that_a_page_leaves_before_jupyterlab_opens_or_later_is_taken_away(
    before: list[str], later: list[str]
) -> None:
    assert seen_after([OWN, *before], later) == "_xsrf=own"


@pytest.mark.parametrize("name", ["\u00a0_xsrf", "\ufeff_xsrf", "a-_xsrf", "theme"])
@pytest.mark.parametrize("is_later", [False, True])
def test_so_is_what_jupyterlab_would_take_for_its_token(name: str, is_later: bool) -> None:
    """It trims names, and its file browser looks for the first one anywhere."""
    value = "1,_xsrf=theirs" if name == "theme" else "theirs"
    left = f"{name}={value}; domain=example.org; path=/"

    assert seen_after([*([] if is_later else [left]), OWN], [left] if is_later else []) == "_xsrf=own"


def test_other_cookies_stay() -> None:
    other = "theme=dark; domain=example.org; path=/"
    assert seen_after([OWN, other], [number("1")]) == "_xsrf=own; theme=dark"
