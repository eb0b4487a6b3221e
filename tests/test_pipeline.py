"""The pipeline in a project of its own: what runs again, what does not, and what a diff shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import factories
import pytest

from ffsim import diff, records
from ffsim.project import Project

pytestmark = pytest.mark.slow


def _repro(project: Project) -> list[str]:
    """Run `dvc repro` and return the stages that ran."""
    # The stages' commands must be this environment's ffsim, whatever PATH says.
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["dvc", "repro"], cwd=project.root, capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [line.split("'")[1] for line in done.stdout.splitlines() if line.startswith("Running stage")]


def _fill(project: Project, n: int = 6) -> None:
    contest = project.contest()
    for i in range(n):
        knobs = {"optimizer": "muon"} if i % 2 else {}
        run = factories.run(contest, f"r{i}", bpb=2.7 - 0.01 * i, steps=800 - i, knobs=knobs, seed=i)
        factories.write(project.data / f"runs/mini/r{i}.json", run)
        upload = factories.upload(contest, f"u{i}", run, 2.72 - 0.0101 * i if i < 4 else None)
        factories.write(project.data / f"uploads/mini/u{i}.json", upload)
    subprocess.run(["dvc", "add", "-q", "data"], cwd=project.root, check=True)
    subprocess.run(["dvc", "push", "-q", "data"], cwd=project.root, check=True)


def test_the_loop(dvc_project: Project, tmp_path: Path) -> None:
    """Fill, repro, commit; repro again runs nothing; a new run changes predictions and the diff shows it."""
    project = dvc_project
    _fill(project)
    ran = _repro(project)
    assert set(ran) == {
        "host", "validate@mini", "fit@mini", "evaluate@mini", "predict@mini", "rehearse@mini",
        "predict-candidate@mini", "report",
    }  # fmt: skip
    candidate = records.read_run(project.rehearsed / "mini.json")
    assert (candidate.status, candidate.seed, candidate.start.observed) == ("finished", 3, "cold")
    prediction = json.loads((project.metrics / "mini/candidate.json").read_text())["muon"]
    assert prediction["low_bpb"] < prediction["predicted_bpb"] < prediction["high_bpb"]
    assert "waits" in (project.build / "report.md").read_text()
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "one")

    assert _repro(project) == ["host"]
    assert project.git("status", "--porcelain") == ""

    new = factories.run(project.contest(), "new", bpb=2.2, knobs={"optimizer": "muon"}, seed=99)
    file = factories.write(tmp_path / "new.json", new)
    subprocess.run(["ffsim", "add-run", str(file)], cwd=project.root, check=True, capture_output=True)
    ran = _repro(project)
    assert "rehearse@mini" not in ran
    assert {"validate@mini", "fit@mini", "predict@mini"} <= set(ran)
    changed = diff.diff(project, "HEAD", None)
    assert changed.data["mini"]["runs"] == (6, 7)
    moved = [row for row in changed.rows if row.from_recipe_change]
    assert {row.what for row in moved} == {"upload", "candidate"}

    shown = subprocess.run(
        ["dvc", "metrics", "diff", "--json"], cwd=project.root, capture_output=True, text=True, check=True
    )
    assert json.loads(shown.stdout)["metrics/mini/data.json"]["runs"]["diff"] == 1


def test_a_dataset_with_a_violation_stops_the_pipeline(dvc_project: Project) -> None:
    _fill(dvc_project, 2)
    bad = factories.run(dvc_project.contest(), "bad", bpb=2.5) | {"seed": -1}
    factories.write(dvc_project.data / "runs/mini/bad.json", bad)
    done = subprocess.run(
        ["ffsim", "validate", "--contest", "mini"], cwd=dvc_project.root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "bad: seed = -1: is too small" in done.stdout
