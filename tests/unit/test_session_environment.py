"""What a session's server is given of the hub's: by a real spawner, whose user is in a database in memory."""

from __future__ import annotations

import asyncio
import json
import pwd
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from certipy import Certipy
from cryptography import x509
from jupyterhub import orm
from jupyterhub.objects import Hub
from jupyterhub.user import User
from traitlets.config import Config

from portal.errors import SiteError
from portal.hub.certificates import own_context, signed
from portal.hub.context import SETTING, HubContext
from portal.launcher import _VARIABLE
from portal.session_settings import OURS, TLS, check_variables
from portal.slurm.cluster import Cluster
from portal.testing.fake_slurm import FakeSlurm
from spawners.slurm import SlurmSessionSpawner
from tests.unit.conftest import EXAMPLE

SILENT_S = 1.0  # the name service; no callback of the loop may wait for it
STOOD_STILL_S = 0.5


@pytest.fixture
def spawner() -> Iterator[SlurmSessionSpawner]:
    """Alice's spawner, as JupyterHub makes it."""
    yield from spawner_with(Config())


def spawner_with(c: Config, authorities: Mapping[str, str] = MappingProxyType({})) -> Iterator[SlurmSessionSpawner]:
    """Alice's spawner with an administrator's own settings; with ``authorities``, there is TLS inside the cluster."""
    c.SlurmSessionSpawner.site_file = str(EXAMPLE)
    db = orm.new_session_factory("sqlite:///:memory:")()
    db.add(orm.User(name="alice"))
    db.commit()
    slurm = FakeSlurm()
    settings = {
        "config": c,
        "spawner_class": SlurmSessionSpawner,
        "hub": Hub(),
        "internal_ssl": bool(authorities),
        "internal_trust_bundles": authorities,
        "internal_certs_location": str(Path(authorities["notebooks-ca"]).parents[1]) if authorities else "",
        SETTING: HubContext("abc123", Cluster("/opt/portal-launch", run=slurm, clock=slurm.clock, pause=slurm.pause)),
    }
    yield User(db.query(orm.User).one(), settings, db).spawner
    db.close()


def given_by(c: Config) -> dict[str, str]:
    """The environment of a session on an administrator's own settings."""
    (spawner,) = spawner_with(c)
    return asyncio.run(spawner._environment())


@pytest.fixture
def silent_names(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A name service that does not answer: who asks it waits. Set when somebody has asked."""
    asked, over = threading.Event(), threading.Event()

    def silent(_whom: object) -> Any:
        asked.set()
        over.wait(SILENT_S)
        raise KeyError("the name service does not answer")

    monkeypatch.setattr(pwd, "getpwnam", silent)
    monkeypatch.setattr(pwd, "getpwuid", silent)
    yield asked
    over.set()


async def longest_standstill_s(work: asyncio.Future[Any]) -> float:
    """For how long nobody else had a turn while some work was done, whatever became of it."""
    longest_s = 0.0
    while not work.done():
        began = time.monotonic()
        await asyncio.wait([work], timeout=0.005)
        longest_s = max(longest_s, time.monotonic() - began)
    return longest_s


async def test_a_start_asks_no_name_service_for_the_persons_home_and_shell(
    spawner: SlurmSessionSpawner, silent_names: threading.Event
) -> None:
    making = asyncio.ensure_future(spawner._environment())

    assert await longest_standstill_s(making) < STOOD_STILL_S

    assert not silent_names.is_set()
    assert making.result()["JUPYTERHUB_USER"] == "alice"


def test_what_an_administrator_sets_for_all_sessions_reaches_them() -> None:
    c = Config()
    c.Spawner.environment = {"JUPYTER_PREFER_ENV_PATH": "1", "JUPYTERHUB_OWN": lambda spawner: spawner.user.name}

    found = given_by(c)

    assert (found["JUPYTER_PREFER_ENV_PATH"], found["JUPYTERHUB_OWN"]) == ("1", "alice")
    assert all(_VARIABLE.match(name) for name in found), "the launcher would refuse the start"
    assert "JPY_API_TOKEN" not in found, "the token is there once, under its own name"


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "PATH", "JUPYTERHUB_x", "LD_PRELOAD", *OURS])
def test_a_variable_that_would_not_reach_a_session_is_refused_by_name(name: str) -> None:
    with pytest.raises(SiteError) as refused:
        check_variables({"JUPYTERHUB_OWN": "1", name: "1"})

    (fault,) = refused.value.faults
    assert fault.startswith(f"{name!r} ")
    assert "c.Spawner.environment" in refused.value.message


def test_a_value_that_is_no_text_is_refused_too() -> None:
    with pytest.raises(SiteError, match=r"'JUPYTERHUB_OWN' is 3: a value is a text"):
        check_variables({"JUPYTERHUB_OWN": 3})


@pytest.mark.parametrize("name", ["JUPYTERHUB_A", "JUPYTER_A1", "JPY_A", "DSPORTAL_QUICK", "HTTPS_PROXY", "JUPYTER_"])
def test_what_is_refused_is_what_the_launcher_would_refuse(name: str) -> None:
    try:
        check_variables({name: "1"})
    except SiteError:
        assert not _VARIABLE.match(name)
    else:
        assert _VARIABLE.match(name)


@pytest.mark.parametrize("section", ["Spawner", "SlurmSpawner", "SlurmSessionSpawner"])
def test_a_spawner_refuses_settings_that_no_session_would_get(section: str, tmp_path: Path) -> None:
    c = Config()
    c[section].environment = {"HTTPS_PROXY": "http://proxy:3128"}

    with pytest.raises(SiteError, match="HTTPS_PROXY"):
        SlurmSessionSpawner.check_settings(c)


async def test_a_variable_that_comes_later_is_refused_when_a_session_starts(spawner: SlurmSessionSpawner) -> None:
    spawner.environment = {"HTTPS_PROXY": "http://proxy:3128"}  # a hook, or what JupyterHub sets for a group

    with pytest.raises(SiteError, match="HTTPS_PROXY"):
        await spawner._environment()


# -- TLS inside the cluster -----------------------------------------------------------------------------


@pytest.fixture
def authorities(tmp_path: Path) -> dict[str, str]:
    """What JupyterHub trusts, in a store of its own."""
    store = Certipy(store_dir=str(tmp_path / "certificates"))
    return {"notebooks-ca": str(store.create_ca("notebooks-ca")["files"]["cert"])}


@pytest.fixture
def threads_of_keys(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads in which keys are made and contexts of TLS read."""
    threads: list[int] = []

    def noted(made: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            threads.append(threading.get_ident())
            return made(*arguments, **named)

        return call

    monkeypatch.setattr("portal.hub.certificates.signed", noted(signed))
    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", noted(ssl.SSLContext.load_cert_chain))
    return threads


async def test_a_sessions_certificate_is_made_and_read_outside_the_event_loop(
    authorities: dict[str, str], threads_of_keys: list[int]
) -> None:
    (spawner,) = spawner_with(Config(), authorities)

    spawner.cert_paths = await spawner.move_certs(await spawner.create_certs())
    texts = json.loads((await spawner._environment())[TLS])

    certificate = x509.load_pem_x509_certificate(texts["certfile"].encode())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "gpu01" in names.get_values_for_type(x509.DNSName)
    assert threads_of_keys
    assert threading.get_ident() not in threads_of_keys
    assert callable(spawner.ssl_alt_names), "the next start asks for the nodes of its day"


async def test_what_the_hub_is_known_by_is_read_outside_the_event_loop(
    authorities: dict[str, str], threads_of_keys: list[int]
) -> None:
    folder = Path(authorities["notebooks-ca"]).parents[1]
    files = Certipy(store_dir=str(folder)).create_signed_pair("hub-internal", "notebooks-ca")["files"]
    settings = {"key": files["key"], "cert": files["cert"], "ca": authorities["notebooks-ca"]}
    threads_of_keys.clear()

    context = await own_context({f"internal_ssl_{part}": file for part, file in settings.items()})

    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert threads_of_keys
    assert threading.get_ident() not in threads_of_keys
    assert await own_context({"internal_ssl_key": ""}) is None
