"""The release for real: made of what the set-up has fetched, installed without a network, gone back, taken away."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
THIS = f"3.{sys.version_info.minor}"
MAKE = [sys.executable, str(ROOT / "deploy/run_module.py"), "deploy.release.make_dist", "--pythons", THIS, "--folder"]

OURS = '[portal]\ndatabase_url = "mariadb://portal@db.example.org/portal"\n'


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make dist` packs, unpacked. Its wheels are second names of those in the store: no copy, no download."""
    environment = {name: value for name, value in os.environ.items() if name != "DSPORTAL_DEMO"}  # the usual store
    folder = tmp_path_factory.mktemp("release") / "dsportal"
    subprocess.run([*MAKE, str(folder)], env=environment, check=True, capture_output=True)
    return folder


def install(release: Path, root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """The release's own command, below a folder."""
    argv = [str(release / "install"), "--root", str(root), "--python", f"python{THIS}", *options]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def tree(root: Path) -> dict[str, float]:
    """Everything there with its time."""
    return {str(path.relative_to(root)): path.lstat().st_mtime for path in root.rglob("*")}


def test_a_dry_run_says_every_step_and_changes_nothing(release: Path, tmp_path: Path) -> None:
    done = install(release, tmp_path, "--dry-run", "--people", "hpcusers")

    assert done.returncode == 0, done.stderr
    for words in ("would make", "current at", "site.toml", "for the group hpcusers", "dsportal-proxy.service"):
        assert words in done.stdout
    assert "names yours" not in done.stdout, "who named the group is not told to name it"
    assert not tree(tmp_path)


def test_it_installs_goes_back_and_leaves_what_is_the_sites(release: Path, tmp_path: Path) -> None:
    first = install(release, tmp_path, "--people", "staff", "--prefix", "/srv/portal")
    assert first.returncode == 0, first.stderr
    place = tmp_path / "srv/portal"
    ours = (release / "VERSION").read_text().strip()
    said = subprocess.run(
        [place / "bin/portal", "--version"], cwd="/", capture_output=True, text=True
    )  # not this checkout
    assert said.stdout == f"portal {ours}\n", said.stderr
    proxy = ["share/dsportal/proxy/node_modules/configurable-http-proxy/bin/configurable-http-proxy"]
    assert [name for name in proxy if not (place / "current" / name).is_file()] == []
    sudoers = tmp_path / "etc/sudoers.d/dsportal"
    assert sudoers.stat().st_mode & 0o777 == 0o440
    assert 'portal ALL=(%staff, !root, !#0) NOPASSWD: /srv/portal/bin/portal-launch ""' in sudoers.read_text()
    assert "ExecStart=/srv/portal/bin/portal up" in (tmp_path / "etc/systemd/system/dsportal.service").read_text()

    settings = tmp_path / "etc/dsportal/site.toml"
    settings.write_text(OURS)
    with_driver = install(release, tmp_path, "--prefix", "/srv/portal")
    assert "add the driver of mariadb" in with_driver.stdout, with_driver.stderr
    subprocess.run([place / ours / "bin/python", "-I", "-B", "-c", "import pymysql"], check=True)
    before = tree(tmp_path)
    again = install(release, tmp_path, "--prefix", "/srv/portal")
    assert again.returncode == 0, again.stderr
    assert tree(tmp_path) == before, "a second run changes nothing"

    own = sudoers.read_text().replace("!root, !#0)", "!root, !#0, !visitor)").replace("#portal ALL", "portal ALL")
    own += "#1500 ALL=(root) /bin/true\n"
    sudoers.chmod(0o640)
    sudoers.write_text(own)
    named = install(release, tmp_path, "--prefix", "/srv/portal", "--people", "hpcusers")
    assert "its own lines stay" in named.stdout, named.stderr
    assert sudoers.read_text() == own.replace("%staff", "%hpcusers")
    assert sudoers.stat().st_mode & 0o777 == 0o440

    (place / "9.0" / "bin").mkdir(parents=True)
    shutil.copy(place / ours / ".dsportal-release", place / "9.0")
    assert install(release, tmp_path, "--prefix", "/srv/portal", "--use", "9.0").returncode == 0
    assert (place / "current").readlink() == Path("9.0")
    unknown = install(release, tmp_path, "--prefix", "/srv/portal", "--use", "8.0")
    assert f"there are: {ours} 9.0" in unknown.stderr

    gone = install(release, tmp_path, "--prefix", "/srv/portal", "--uninstall")
    assert "These stay" in gone.stdout
    assert "state folder" in gone.stdout
    assert [path.name for path in place.iterdir()] == ["jupyter"]
    assert settings.read_text() == OURS
    assert not sudoers.exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--prefix", "/opt/a b"], "allowed are letters"),
        (["--prefix", "opt"], "is no absolute path"),
        (["--people", 'x) NOPASSWD: ALL #"'], "allowed are letters"),
        (["--use", "../../etc"], "a version such as"),
        (["--database", "oracle"], "allowed are postgresql and mariadb"),
        (["--python", "python2.0"], "there is no such program"),
        (["--what"], "--what is not known"),
    ],
)
def test_what_it_cannot_do_is_refused_in_words_before_anything_is_written(
    release: Path, tmp_path: Path, options: list[str], words: str
) -> None:
    done = install(release, tmp_path, *options)

    assert done.returncode == 1
    assert words in done.stderr
    assert not tree(tmp_path)


def test_a_release_that_was_changed_is_refused(release: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed"
    shutil.copytree(release, changed, copy_function=os.link)
    (changed / "portal.lock").unlink()
    (changed / "portal.lock").write_text("")

    done = install(changed, tmp_path / "root")

    assert done.returncode == 1
    assert "not as it was released" in done.stderr
    assert not (tmp_path / "root").exists()
