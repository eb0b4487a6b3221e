"""The stages' commands on a small dataset, in process: what they print and write."""

from __future__ import annotations

import json
from typing import Any

import factories
import pytest
from test_cli import ffsim  # noqa: F401  (the fixture)

from ffsim import cli
from ffsim.project import Project


@pytest.fixture
def filled(dvc_project: Project) -> Project:
    """Eight runs, six scored uploads and a rehearsed candidate, written below data/ as a commit would hold them."""
    contest = dvc_project.contest()
    for i in range(8):
        knobs = {"optimizer": "muon"} if i % 2 else {}
        run = factories.run(contest, f"r{i}", bpb=2.7 - 0.01 * i, steps=800 - i, knobs=knobs, seed=i)
        factories.write(dvc_project.data / f"runs/mini/r{i}.json", run)
        if i < 6:
            upload = factories.upload(contest, f"u{i}", run, 2.72 - 0.0101 * i)
            factories.write(dvc_project.data / f"uploads/mini/u{i}.json", upload)
    candidate = factories.run(contest, "candidate", bpb=2.61, knobs={"optimizer": "muon"})
    factories.write(dvc_project.rehearsed / "mini.json", candidate)
    return dvc_project


def test_the_stages_print_and_write_what_they_find(filled: Project, ffsim: Any) -> None:  # noqa: F811
    assert "8 runs, 6 uploads, 0 problems" in ffsim("validate").out
    assert ffsim("validate", "--json").json["counts"]["uploads_scored"] == 6
    assert "offset +0.019" in ffsim("fit").out
    assert ffsim("fit", "--json").json["oracle"]["n"] == 6
    assert "leave one recipe out" in ffsim("evaluate").out
    assert ffsim("evaluate", "--json").json["oracle"]["leave_one_upload_out"]["n"] == 6
    assert "u5" in ffsim("predict").out
    assert set(ffsim("predict", "--json").json) == {f"u{i}" for i in range(6)}
    assert "predicted official 2.6" in ffsim("predict-candidate").out
    assert ffsim("predict-candidate", "--json").json["rehearsal_bpb"] == 2.61
    assert "report.md" in ffsim("report").out
    assert "| u5 |" in (filled.build / "report.md").read_text()
    assert "mini" in ffsim("host").out
    assert set(ffsim("host", "--json").json) == {"hosts", "trainer_version", "contests", "contracts", "code"}
    table = (filled.metrics / "mini/predictions.csv").read_text().splitlines()
    assert len(table) == 7
    assert table[0].startswith("upload,official_bpb,predicted_bpb")

    status = ffsim("status").out
    assert "candidate base: predicted official" in status
    assert "best upload: u5" in status
    assert "rehearsed 2.6" in ffsim("predict", "r5").out
    assert "steps on cpu.test-cpu.avx2" in ffsim("predict", "muon").out
    assert ffsim("predict", "muon", "--json").json["never_varied"] == []
    assert "no run 'gone'" in ffsim("predict", "gone").err

    filled.git("add", "-A")
    filled.git("commit", "-q", "-m", "metrics")
    diff = ffsim("diff", "HEAD~1", "HEAD")
    assert "u5" in diff.out
    assert ffsim("diff", "HEAD", "--json").json["rows"][0]["change"] == 0.0
    assert "is no revision" in ffsim("diff", "nowhere").err


def test_validate_names_every_kind_of_problem(filled: Project, ffsim: Any) -> None:  # noqa: F811
    contest = filled.contest()
    runs, uploads = filled.data / "runs/mini", filled.data / "uploads/mini"
    factories.write(runs / "bad.json", factories.run(contest, "bad", bpb=2.5, seed=-1))
    factories.write(uploads / "lost.json", factories.upload(contest, "lost", factories.run(contest, "gone"), 2.5))
    factories.write(uploads / "name.json", factories.upload(contest, "other", factories.run(contest, "r1"), 2.5))
    (uploads / "torn.json").write_text("{")
    (filled.data / "recipes/mini/bad.yaml").write_text("contest: mini\nknobs: {widht: 1}\n")
    outcome = ffsim("validate", "--json")
    assert outcome.code == 1
    problems = "\n".join(outcome.json["problems"])
    for words in (
        "bad: seed = -1",
        "must be called after the upload's name",
        "torn.json: not JSON",
        "did you mean width?",
    ):
        assert words in problems
    (uploads / "name.json").unlink()
    (uploads / "torn.json").unlink()
    assert "upload lost: its rehearsal gone is not in the dataset" in ffsim("validate").out


def test_a_file_that_holds_another_run_is_named(filled: Project, ffsim: Any) -> None:  # noqa: F811
    (filled.data / "runs/mini/r0.json").rename(filled.data / "runs/mini/renamed.json")
    factories.write(filled.data / "runs/mini/bad.json", factories.run(filled.contest(), "bad", bpb=2.5, seed=-1))
    outcome = ffsim("validate")
    assert outcome.code == 1
    assert "run r0: its file must be called r0.json" in outcome.out


def test_a_project_without_runs_says_why_it_predicts_nothing(dvc_project: Project, ffsim: Any) -> None:  # noqa: F811
    assert ffsim("validate").code == 0
    assert "no quality: 0 runs" in ffsim("fit").out
    assert ffsim("evaluate").code == 0
    assert ffsim("predict").code == 0
    factories.write(dvc_project.rehearsed / "mini.json", factories.run(dvc_project.contest(), "c"))
    assert "no prediction: 0 scored uploads" in ffsim("predict-candidate").out
    assert "0 scored uploads" in ffsim("status").out
    assert "at least 2" in ffsim("predict", "muon").err


def test_the_candidate_of_params_is_kept_only_when_it_finished(dvc_project: Project, ffsim: Any) -> None:  # noqa: F811
    good = ffsim("rehearse", "--candidate", "mini", "--json")
    assert good.code == 0, good.err
    kept = json.loads((dvc_project.rehearsed / "mini.json").read_text())
    assert (kept["run_id"], kept["seed"], kept["kind"]) == (good.json["run_id"], 3, "rehearsal")
    assert not list(dvc_project.outbox.glob("*.json"))
    (dvc_project.texts / "mini/train.txt").write_bytes(b"x" * 40_000)
    bad = ffsim("rehearse", "--candidate", "mini")
    assert bad.code == 1
    assert "crashed" in bad.out
    assert json.loads((dvc_project.rehearsed / "mini.json").read_text()) == kept
    assert len(list(dvc_project.outbox.glob("*.json"))) == 1
    assert "has no candidates.other" in ffsim("rehearse", "--candidate", "other").err


def test_a_contests_folders_are_made_by_its_first_recipe(dvc_project: Project, ffsim: Any) -> None:  # noqa: F811
    text = (dvc_project.contests / "mini.yaml").read_text().replace("contest: mini", "contest: sprint")
    (dvc_project.contests / "sprint.yaml").write_text(text)
    params = (dvc_project.root / "params.yaml").read_text().replace("- mini", "- mini\n- sprint")
    (dvc_project.root / "params.yaml").write_text(params)
    made = ffsim("recipe", "new", "first", "--contest", "sprint")
    assert "next: ffsim rehearse first --contest sprint" in made.out
    assert {path.name for path in (dvc_project.data / "uploads/sprint").iterdir()} == {"README.md"}
    assert ffsim("validate", "--contest", "sprint").code == 0
    assert [row["name"] for row in ffsim("recipe", "list", "--contest", "sprint", "--json").json] == ["first"]


def test_a_contest_file_must_say_its_own_name(dvc_project: Project, ffsim: Any) -> None:  # noqa: F811
    (dvc_project.contests / "odd.yaml").write_text((dvc_project.contests / "mini.yaml").read_text())
    assert "says `contest: mini`; it must say odd" in ffsim("recipe", "list", "--contest", "odd").err


def test_the_table_of_commands_names_existing_modules() -> None:
    assert all(cli.cli.get_command(None, name) is not None for name in cli.COMMANDS)  # type: ignore[arg-type]
