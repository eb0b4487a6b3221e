"""Twelve malformed files at the door, end to end: each refused in clear lines, the tree unchanged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import factories
import pytest
from factories import DELETE

from ffsim import cli
from ffsim.contest import Contest
from ffsim.project import Project

LN2 = 0.6931471805599453
# name -> (changes of a valid record, what a line must say)
MALFORMED: dict[str, tuple[dict[str, Any], str]] = {
    "wrong-unit": ({"clock__train_charged_s": 299.7}, "clock.train_charged_s = 299.7: is more than one step over"),
    "missing-seed": ({"seed": DELETE}, "seed: is missing [missing]"),
    "unknown-knob": ({"knobs__widht": 96}, "knobs.widht = 96: is no field of this contract"),
    "knob-out-of-range": ({"knobs__lr": 5.0}, "knobs.lr = 5.0: must lie in 0.0001 .. 0.1"),
    "bpb-not-nats": ({"scores__public__bpb": 2.7 * LN2}, "is not nats / ln 2 / bytes"),
    "path-in-run-id": ({"run_id": "../../evil"}, "run_id = '../../evil': does not have the right form"),
    "over-budget": ({"clock__train_charged_s": 0.31}, "is more than one step over budget_s"),
    "steps-0": ({"steps": 0}, "steps = 0: a finished run has at least one step"),
    "steps-10-7": ({"steps": 10.7}, "steps = 10.7: must be a whole number"),
    "wrong-contest": ({"contest": "marathon"}, "contest = 'marathon': is no contest of this project"),
}


def _file(folder: Path, contest: Contest, name: str) -> Path:
    path = folder / f"{name}.json"
    run = factories.run(contest, "new", bpb=2.65)
    if name == "nan":
        text = json.dumps(run).replace('"bpb": 2.65', '"bpb": NaN')
        assert "NaN" in text
        path.write_text(text)
    elif name == "truncated":
        path.write_text(json.dumps(run)[:-40])
    elif name == "duplicate":
        factories.write(path, factories.run(contest, "first", bpb=2.6) | {"run_id": "copy-of-first"})
    else:
        factories.write(path, factories.changed(run, MALFORMED[name][0]))
    return path


WORDS = {name: words for name, (_, words) in MALFORMED.items()} | {
    "nan": "NaN is not JSON; write null",
    "truncated": "not JSON",
    "duplicate": "run_id = 'copy-of-first': has the same content as first",
}


@pytest.fixture(scope="module")
def seeded(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project that holds the run `first`."""
    import shutil

    root = tmp_path_factory.mktemp("malformed") / "project"
    shutil.copytree(template, root, symlinks=True)
    project = Project(root)
    from ffsim import contribute

    file = factories.write(root.parent / "first.json", factories.run(project.contest(), "first", bpb=2.6))
    assert not contribute.add_runs(project, [str(file)]).violations
    project.git("commit", "-q", "-m", "first")
    return project


def _tree(project: Project) -> list[tuple[str, bytes]]:
    skip = {".git", ".ffsim", "cache", "tmp"}
    files = (path for path in sorted(project.root.rglob("*")) if path.is_file() and not skip & set(path.parts))
    return [(str(path), path.read_bytes()) for path in files]


@pytest.mark.parametrize("name", WORDS)
def test_a_malformed_file_is_refused_and_the_tree_is_unchanged(
    seeded: Project,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(seeded.root)
    path = _file(tmp_path, seeded.contest(), name)
    before = _tree(seeded)
    with pytest.raises(SystemExit) as stopped:
        cli.main(["add-run", str(path)])
    out = capsys.readouterr().out
    assert stopped.value.code == 1
    assert WORDS[name] in out
    assert "nothing was added" in out
    assert _tree(seeded) == before
    assert seeded.git("status", "--porcelain") == ""
