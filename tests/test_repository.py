"""Promises about the repository itself: the store is whole, names stay in data, the wheel is complete."""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from ffsim import contest as contests
from ffsim import dataset, recipe
from ffsim.project import Project

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "ffsim"
CODE = [path for path in sorted(PACKAGE.rglob("*.py")) if "train" not in path.relative_to(PACKAGE).parts]


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
    listing = dataset.listing(Project(ROOT))
    assert len(listing) > 60
    assert [path for path, md5 in listing.items() if not (ROOT / dataset.store_path(md5)).is_file()] == []


def test_every_recipe_of_the_dataset_has_another_hash() -> None:
    contest = contests.load("laptop")
    folder = ROOT / "data/recipes/laptop"
    if not folder.is_dir():
        pytest.skip("the dataset is not pulled")
    hashes = [recipe.read(path, contest).hash for path in folder.glob("*.yaml")]
    assert len(hashes) == len(set(hashes))


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
