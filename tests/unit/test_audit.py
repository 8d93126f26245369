"""`make audit`: what its tools print is read, what cannot be asked is said, and every licence is one that may be."""

from __future__ import annotations

import importlib.metadata
import json
import re
from pathlib import Path

import pytest

from deploy.environments import audit

FOUND = {  # as pip-audit 2.10 prints it
    "dependencies": [
        {"name": "jupyterhub", "version": "4.0.0", "vulns": [{"id": "PYSEC-2024-1", "fix_versions": ["4.1.0"]}]},
        {"name": "tornado", "version": "6.5.8", "vulns": []},
        {"name": "wrapspawner", "skip_reason": "Dependency not found on PyPI and could not be audited"},
    ],
    "fixes": [],
}


def test_what_is_known_is_named_and_what_could_not_be_asked_is_counted() -> None:
    known, words = audit.told_by_pip_audit(FOUND, "")

    assert known == ["jupyterhub 4.0.0: PYSEC-2024-1"]
    assert words == "1 known in 2 of 3 packages; the others could not be asked about"


def test_without_advisories_nothing_is_said_to_be_well() -> None:
    skipped = {"dependencies": FOUND["dependencies"][2:]}

    assert audit.told_by_pip_audit(skipped, "")[1].startswith("not told: ")
    assert audit.told_by_pip_audit(None, "first\nno network\n") == ([], "not told: no network")
    assert audit.told_by_npm({"message": "405 Method Not Allowed"})[1].startswith("not told: ")


def test_what_npm_knows_is_named() -> None:
    assert audit.told_by_npm({"vulnerabilities": {"ws": {"severity": "high"}}}) == (["ws: high"], "1 known")


@pytest.mark.parametrize(
    ("licence", "allowed"),
    [
        ("MIT License", True),
        ("GNU Lesser General Public License v3 (LGPLv3)", True),
        ("GNU General Public License v3 (GPLv3)", False),
        ("UNKNOWN", False),
    ],
)
def test_a_licence_that_is_not_known_to_fit_is_looked_at(licence: str, allowed: bool) -> None:
    assert audit.is_allowed(licence) == allowed


def test_a_licence_without_a_name_counts_by_its_text() -> None:
    text = "Copyright (c) 2017 Somebody\n\nPermission is hereby granted, free of\n charge, to any person"
    named = [{"Name": "huey", "License": "UNKNOWN", "LicenseText": text}]
    others = [{"Name": "closed", "License": "UNKNOWN", "LicenseText": "ALL RIGHTS, LIMITED"}]

    assert audit.told_by_pip_licenses(named) == ([], "1 packages, 0 to look at")
    assert audit.told_by_pip_licenses(others) == (["closed: 'UNKNOWN'"], "1 packages, 1 to look at")


def test_npms_licences_are_those_of_the_lock_or_of_the_package_itself(tmp_path: Path) -> None:
    used = {"": {}, "node_modules/a": {"license": "MIT"}, "node_modules/b": {"license": "SEE LICENSE"}}
    silent = {"node_modules/c": {}, "node_modules/d": {}, "node_modules/e": {"dev": True, "license": "GPL-3.0"}}
    (tmp_path / "package-lock.json").write_text(json.dumps({"packages": used | silent}))
    (tmp_path / "node_modules" / "c").mkdir(parents=True)
    (tmp_path / "node_modules" / "c" / "package.json").write_text('{"license": "GPL-2.0"}')

    assert audit.node_licences(tmp_path) == (
        ["node_modules/b: 'SEE LICENSE'", "node_modules/c: 'GPL-2.0'"],
        "4 packages, 2 to look at; 1 do not say it in the lock, and are not installed here",
    )


def test_the_tools_environments_are_looked_at_and_one_that_is_not_built_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "CM", tmp_path)
    parts = audit.python_parts()
    assert list(parts) == ["Python", "mlflow 3.17", "dask 2026.8", "ray 2.60", "code-server 4.139", "image-trainer 1.0"]
    assert all(lock.is_file() for part in parts.values() for lock in part.locks)
    assert audit.python_licences(parts["mlflow 3.17"]) == ([], audit.NOT_BUILT)
    npm = {name: folder for name, folder in audit.node_parts().items() if name not in audit.NODE_PARTS}
    assert [(folder / "package-lock.json").is_file() for folder in npm.values()] == [True, False, False]
    assert audit.node_vulnerabilities(npm["code-server 4.139, vscode"]) == ([], audit.NOT_BUILT)
    assert audit.node_licences(npm["code-server 4.139, npm"])[0] == []


def test_every_package_of_the_portal_has_a_licence_that_may_be() -> None:
    names = re.findall(r"(?m)^([A-Za-z0-9._-]+)==", "".join(map(Path.read_text, audit.PORTAL_LOCKS)))
    told = {}
    for name in names:
        found = importlib.metadata.metadata(name)
        fields = [found.get_all(field) or [] for field in ("License-Expression", "License", "Classifier")]
        told[name] = " ".join(text for texts in fields for text in texts)

    assert not {name: text for name, text in told.items() if not audit.is_allowed(text)}
