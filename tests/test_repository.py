"""Promises about the repository itself: the store is whole, names stay in data, the wheel is complete."""

from __future__ import annotations

import ast
import importlib.util
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from ffsim import contest as contests
from ffsim import dataset, listing, validate
from ffsim.project import Project

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "ffsim"
OWN_NAMES = {"train", "logs"}  # a trainer knows its recipe, a log dialect its trainer's print format
CODE = [path for path in sorted(PACKAGE.rglob("*.py")) if not OWN_NAMES & set(path.relative_to(PACKAGE).parts)]


def _strings(path: Path) -> set[str]:
    """String constants of a module, docstrings aside."""
    tree = ast.parse(path.read_text())
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body
        if isinstance(node.body[0], ast.Expr)
    }
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
    }


@pytest.mark.parametrize("path", CODE, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_contest_or_knob_is_named_in_python(path: Path) -> None:
    names = set(contests.available())
    for name in contests.available():
        contest = contests.load(name)
        names |= set(contest.knobs.names) | {text for text, value in contest.texts.items() if value.role == "official"}
    assert not _strings(path) & (names - {"official"})


def test_no_module_is_longer_than_400_lines() -> None:
    long = [path for path in ROOT.glob("[!.]*/**/*.py") if len(path.read_text().splitlines()) > 400]
    assert long == []


def test_every_object_of_the_dataset_is_in_the_embedded_store() -> None:
    """A clone pulls from dvcstore/; an object that is named and not there is lost to everybody else."""
    project = Project(ROOT)
    assert listing.is_embedded(project)
    assert len(listing.read(project)) > 60
    assert listing.not_stored(project) == []


@pytest.fixture(scope="module")
def pulled(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The committed dataset, taken out of the embedded store, in a project of its own."""
    root = tmp_path_factory.mktemp("pulled")
    for path, md5 in dataset.listing(Project(ROOT)).items():
        target = root / "data" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / dataset.store_path(md5)).read_bytes())
    for name in ("params.yaml", "dvc.yaml"):
        shutil.copy(ROOT / name, root)
    shutil.copytree(ROOT / "schemas", root / "schemas")
    return Project(root)


def test_the_dataset_passes_its_own_guard(pulled: Project) -> None:
    for name in pulled.contest_names():
        result = validate.run(pulled, pulled.contest(name))
        assert result.problems == []
        least_runs, least_uploads = (40, 6) if name == pulled.contest().name else (3, 0)
        assert result.counts["runs"] >= least_runs
        assert result.counts["uploads_scored"] >= least_uploads


def test_the_table_of_compiles_in_the_docs_is_the_one_of_the_dataset() -> None:
    spec = importlib.util.spec_from_file_location("compile_table", ROOT / "scripts/compile_table.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    table = script.table(Project(ROOT))
    assert len(table.splitlines()) == 2 + len(script.LANES)
    assert f"<!-- compile table -->\n{table}\n<!-- end -->" in (ROOT / "docs/clock.md").read_text()


def test_every_recipe_of_the_dataset_has_another_hash(pulled: Project) -> None:
    for name in pulled.contest_names():
        hashes = [recipe.hash for recipe in pulled.recipes(pulled.contest(name))]
        assert len(hashes) == len(set(hashes)) >= 1


def test_the_wheel_carries_contests_contracts_and_types(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("ffsim_lm-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        "ffsim/contests/laptop.yaml",
        "ffsim/schemas/run.yaml",
        "ffsim/schemas/upload.yaml",
        "ffsim/py.typed",
    } <= names
    assert not any(name.startswith(("data/", "dvcstore/", "tests/")) for name in names)
