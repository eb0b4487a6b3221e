"""Shared fixtures: a contest small enough to train in a second, and scratch projects around it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import factories
import hypothesis
import pytest
import yaml

from ffsim import contest as contests
from ffsim.contest import Contest
from ffsim.project import Project

ROOT = Path(__file__).parent.parent

os.environ |= {
    "GIT_AUTHOR_NAME": "tester",
    "GIT_AUTHOR_EMAIL": "tester@example.org",
    "GIT_COMMITTER_NAME": "tester",
    "GIT_COMMITTER_EMAIL": "tester@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "DVC_NO_ANALYTICS": "1",
}
# CI machines are shared and slow at times: a deadline would measure them, not the code.
hypothesis.settings.register_profile("ci", deadline=None, max_examples=60)
hypothesis.settings.register_profile("dev", deadline=None, max_examples=50)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


@pytest.fixture(scope="session")
def laptop() -> Contest:
    return contests.load("laptop")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project of the contest `mini`, without git and DVC."""
    return Project(factories.write_project(tmp_path / "project"))


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A committed project of the contest `mini` under git and DVC, to be copied."""
    return factories.write_dvc_project(tmp_path_factory.mktemp("template") / "project")


@pytest.fixture
def dvc_project(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A copy of the template; the working directory is its root."""
    root = tmp_path / "project"
    shutil.copytree(template, root, symlinks=True)
    monkeypatch.chdir(root)
    return Project(root)


@pytest.fixture(scope="session")
def mini(tmp_path_factory: pytest.TempPathFactory) -> Contest:
    """The contest `mini` by itself."""
    root = factories.write_project(tmp_path_factory.mktemp("mini"))
    return contests.load("mini", root / "contests")


@pytest.fixture(scope="session")
def laptop_file() -> dict[str, object]:
    document: dict[str, object] = yaml.safe_load((contests.PACKAGED / "laptop.yaml").read_text())
    return document
