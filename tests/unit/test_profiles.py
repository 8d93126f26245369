"""The site's profiles: cards above the form, and what they fix holds behind every door."""

from __future__ import annotations

import asyncio
import threading
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from portal.errors import RequestError, SiteError
from portal.request import SessionRequest, checked, fields_of
from portal.site import Identity, Site, parse
from spawners.choosing import pictures, profile_cards
from tests.unit.served_hub import ServedHub, served_hub
from tests.unit.test_form import Page

ALICE = Identity("alice")
STAFF = Identity("carol", frozenset({"staff"}))
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40
SETTINGS = """
[session]
hours_max = 24

[[partition]]
name = "gpu"
account = ["ai", "ml"]

[[partition]]
name = "cpu"
gpus_max = 0
cores_max = 16
memory_gb_max = 64

[[profile]]
name = "small"
title = "Small <b>"
description = "To try things out"
picture = "PICTURE"
fixed = { partition = "gpu", gpus = 1, account = "ml", hours = 4 }

[[profile]]
name = "memory"
title = "Much memory"
fixed = { gpus = 0, memory_gb = 64 }

[[profile]]
name = "staff"
title = "For staff"
groups = ["staff"]

[[profile]]
name = "too-much"
title = "More than there is"
fixed = { gpus = 9 }
"""


@pytest.fixture
def site() -> Site:
    return parse(tomllib.loads(SETTINGS.replace("PICTURE", "/etc/dsportal/small.png")))


def test_what_is_fixed_needs_not_be_said_and_what_is_free_is_the_persons(site: Site) -> None:
    assert checked({"profile": "small"}, site, ALICE) == SessionRequest("gpu", 1, 4, account="ml", profile="small")
    assert checked({"profile": "memory", "cores": 8, "hours": 2}, site, ALICE) == SessionRequest(
        "cpu", 0, 2, cores=8, memory_gb=64, profile="memory"
    )
    said = {"profile": "small", "gpus": "1", "hours": 4, "account": "-", "partition": ""}
    assert checked(said, site, ALICE) == checked({"profile": "small"}, site, ALICE)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"profile": "small", "gpus": 2},
            "gpus: 2 is not possible here. Allowed: 1, as the profile Small <b> fixes it.",
        ),
        ({"profile": "small", "gpus": 0}, "gpus: 0 is not possible"),
        ({"profile": "small", "hours": "24"}, "hours: '24' is not possible here. Allowed: 4, as the profile"),
        ({"profile": "small", "account": "ai"}, "Allowed: ml, as the profile"),
        ({"profile": "small", "partition": "cpu"}, "Allowed: gpu, as the profile"),
        ({"profile": "memory", "partition": "gpu"}, "partition: 'gpu' is not possible here. Allowed: one of cpu."),
        ({"profile": "memory", "cores": 17}, "Allowed: a whole number from 1 to 16."),
        ({"profile": "staff"}, "profile: 'staff' is not possible here. Allowed: one of small, memory."),
        ({"profile": "too-much"}, "Allowed: one of small, memory."),
        ({"profile": ["small"]}, "Allowed: a name, as text."),
    ],
)
def test_what_a_profile_fixes_is_not_changed_by_anybody(site: Site, given: dict[str, object], words: str) -> None:
    with pytest.raises(RequestError) as refused:
        checked(given, site, ALICE)

    assert words in refused.value.message


def test_profiles_are_for_their_groups_and_where_there_are_none_there_is_no_such_option(
    site: Site, tables: dict[str, Any]
) -> None:
    assert checked({"profile": "staff"}, site, STAFF).profile == "staff"
    assert "profile" not in fields_of(parse(tables), ALICE)
    assert profile_cards.cards(parse(tables), ALICE, "") == ""


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        ({"fixed": {"partition": "gone"}}, "profile[1].fixed.partition: 'gone' is not there; known: sxm2, hipri"),
        ({"fixed": {"gpu": "h100"}}, "profile[1].fixed.gpu: 'h100' is not there; known: v100"),
        ({"fixed": {"cores": 4}}, "profile[1].fixed.cores: it comes with the GPUs; allowed: only with gpus = 0"),
        ({"fixed": {"hourz": 1}}, "profile[1].fixed.hourz: unknown key; did you mean 'hours'?"),
        ({"picture": "small.png"}, "profile[1].picture: 'small.png' is not possible; allowed: an absolute path"),
        ({"title": ""}, "profile[1].title: '' is not possible"),
    ],
)
def test_a_profile_that_cannot_be_is_a_fault_of_the_settings(
    tables: dict[str, Any], profile: dict[str, Any], words: str
) -> None:
    tables["profile"] = [{"name": "small", "title": "Small"} | profile]
    with pytest.raises(SiteError) as refused:
        parse(tables)

    assert words in str(refused.value)


# -- the picture ------------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A picture; whoever runs the tests stands for root."""
    monkeypatch.setattr(pictures, "ROOT", tmp_path.stat().st_uid)
    folder = tmp_path / "pictures"
    folder.mkdir(mode=0o755)
    file = folder / "small.png"
    file.write_bytes(PNG)
    file.chmod(0o644)
    return file


def test_a_picture_is_known_by_its_content(small: Path) -> None:
    assert pictures.read(str(small)) == ("image/png", PNG)
    small.write_bytes(b"\xff\xd8\xff\xe0")
    assert pictures.read(str(small)).media_type == "image/jpeg"
    small.write_bytes(b"RIFF\0\0\0\0WEBPVP8 ")
    assert pictures.read(str(small)).media_type == "image/webp"


@pytest.mark.parametrize(
    "content", [b"", b"<svg onload='x()'/>", b"<html>", b"root:x:0:0", PNG + b"x" * pictures.LARGEST]
)
def test_what_is_no_small_picture_is_not_shown(small: Path, content: bytes) -> None:
    small.write_bytes(content)
    with pytest.raises(ValueError, match="it is"):
        pictures.read(str(small))


def test_a_picture_that_others_can_change_is_not_shown(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = small.with_name("link.png")
    link.symlink_to(small)
    with pytest.raises(OSError):
        pictures.read(str(link))
    with pytest.raises((OSError, ValueError)):
        pictures.read(str(small.parent))
    small.chmod(0o664)
    with pytest.raises(ValueError, match="it is not root's alone"):
        pictures.read(str(small))
    small.chmod(0o644)
    small.parent.chmod(0o777)
    with pytest.raises(ValueError, match="its folder is not root's alone"):
        pictures.read(str(small))
    monkeypatch.setattr(pictures, "ROOT", -1)
    small.parent.chmod(0o755)
    with pytest.raises(ValueError, match="it is not root's alone"):
        pictures.read(str(small))


async def test_a_file_system_that_hangs_keeps_one_thread_and_nobody_for_long(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()
    begun: list[str] = []

    def hangs(path: str) -> pictures.ProfilePicture:
        begun.append(path)
        over.wait(30)
        return pictures.ProfilePicture("image/png", PNG)

    monkeypatch.setattr(pictures, "read", hangs)
    monkeypatch.setattr(pictures, "WITHIN_S", 0.05)
    shelf = pictures.ProfilePictures()
    asked = [shelf.of(name) for name in ("a", "b", "a", "c")]
    told = await asyncio.gather(*asked, return_exceptions=True)
    over.set()
    monkeypatch.setattr(pictures, "WITHIN_S", 5.0)

    assert [type(one) for one in told] == [TimeoutError] * 4
    assert begun == ["a"]
    assert (await shelf.of("a")).content == PNG
    assert (await shelf.of("c")).content == PNG


# -- a hub ------------------------------------------------------------------------------------------------


@pytest.fixture
async def served(tmp_path: Path, small: Path) -> AsyncIterator[ServedHub]:
    settings = tmp_path / "site.toml"
    settings.write_text(SETTINGS.replace("PICTURE", str(small)))

    def prepare(hub: Any) -> None:
        hub.config.SlurmSessionSpawner.site_file = str(settings)

    async with served_hub(tmp_path, prepare) as hub:
        yield hub


async def test_the_cards_are_links_and_the_chosen_one_fixes_its_fields(served: ServedHub) -> None:
    browser = await served.browser("alice")
    first = Page((await browser.get("/hub/spawn")).text)
    links = [str(attrs["href"]) for tag, attrs in first.tags if tag == "a" and "opt-profile" in str(attrs.get("href"))]

    chosen = await browser.get(f"/hub/spawn{links[0]}")
    page = Page(chosen.text)

    assert links == ["?opt-profile=small", "?opt-profile=memory", "?opt-profile=-"]
    assert "Small <b> To try things out Fixed: Partition: gpu · 1 GPU · 4 h · Account: ml" in first.words
    assert "Small <b>" not in chosen.text
    assert chosen.status_code == 200
    assert [one["value"] for one in page.fields("profile")] == ["small"]
    assert [one["value"] for one in page.fields("gpus")] == ["1"]
    assert [one["value"] for one in page.fields("partition")] == ["gpu"]
    assert page.fields("hours")[0]["value"] == "4"
    assert "readonly" in page.fields("hours")[0]
    assert "The profile Small <b> fixes the hours." in page.words
    assert "Much memory Fixed: no GPU · 64 GB memory" in page.words
    assert [
        attrs["href"]
        for tag, attrs in page.tags
        if attrs.get("aria-current") == "true" and tag == "a" and "opt" in str(attrs["href"])
    ] == ["?opt-profile=small"]
    own = Page((await browser.get("/hub/spawn?opt-profile=-")).text)
    assert own.fields("profile") == []
    assert len(own.fields("gpus")) == 5


async def test_form_and_rest_refuse_what_a_profile_fixes_otherwise(served: ServedHub) -> None:
    browser = await served.browser("alice")
    fields = {"profile": "small", "gpus": "4", "hours": "4", "partition": "gpu", "_xsrf": browser.cookies["_xsrf"]}
    page = await browser.post("/hub/spawn", data=fields)
    longer = await browser.post("/hub/spawn", data=fields | {"gpus": "1", "hours": "24"})
    rest = await (await served.browser()).post(
        "/hub/api/users/alice/server",
        json={"profile": "small", "hours": 24},
        headers={"Authorization": f"token {served.token('alice')}"},
    )

    assert (page.status_code, longer.status_code, rest.status_code) == (400, 400, 400)
    assert Page(longer.text).fields("hours")[0]["value"] == "4", "what cannot be changed there can be sent"
    assert "as the profile Small &lt;b&gt; fixes it" in page.text
    assert "4, as the profile Small <b> fixes it" in rest.json()["message"]
    assert served.slurm.jobs == {}


async def test_a_picture_is_for_who_may_choose_its_profile(served: ServedHub, small: Path) -> None:
    browser = await served.browser("alice")
    as_picture = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    found = await browser.get("/hub/dsportal/picture/small", headers=as_picture)

    assert (found.status_code, found.headers["Content-Type"], found.content) == (200, "image/png", PNG)
    assert found.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in found.headers["Content-Security-Policy"]
    for name in ("memory", "staff", "gone", "..%2f..%2fetc%2fpasswd"):
        assert (await browser.get(f"/hub/dsportal/picture/{name}")).status_code == 404
    assert "/hub/login" in str((await (await served.browser()).get("/hub/dsportal/picture/small")).url)
