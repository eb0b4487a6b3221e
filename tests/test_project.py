"""Finding a project, and its params.yaml."""

from __future__ import annotations

from pathlib import Path

import pytest

from ffsim.errors import ContestError, ProjectError
from ffsim.project import Project


def test_a_project_is_found_from_below(project: Project) -> None:
    below = project.root / "data/runs/mini"
    assert Project.find(below).root == project.root.resolve()


def test_outside_of_one_the_remedy_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match="cd into one"):
        Project.find(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Expected `object`"),
        ("contests: []\n", r"\$\.contests"),
        ("contests: laptop\n", r"\$\.contests"),
        ("contests: [mini]\ncandidates: [a]\n", r"\$\.candidates"),
        ("contests: [mini]\ncandidates: {mini: {seed: 1}}\n", "recipe"),
        ("contests: [mini]\ncandidates: {mini: {recipe: base, seed: abc}}\n", "seed"),
        ("contests: [mini]\ncandidates: {mini: {recipe: base, seed: -4}}\n", "seed"),
        ("contests: [mini]\ncandidates: {other: {recipe: base}}\n", "add other to"),
        ("contests: [mini]\npredict: 5\n", "predict"),
        ("contests: [mini]\npredict: {interval: 80}\n", "interval"),
        ("contests: [mini]\nsurprise: 1\n", "surprise"),
    ],
)
def test_a_broken_params_file_is_one_line(project: Project, text: str, words: str) -> None:
    (project.root / "params.yaml").write_text(text)
    with pytest.raises(ProjectError, match=words) as caught:
        project.params()
    assert "\n" not in str(caught.value)


def test_a_device_of_another_contest_is_refused_by_the_host_stage(project: Project) -> None:
    from ffsim import pipeline

    text = (project.root / "params.yaml").read_text()
    (project.root / "params.yaml").write_text(text.replace("device: cpu", "device: tpu"))
    with pytest.raises(ContestError, match="runs on cpu"):
        pipeline.write_host(project)
    (project.root / "params.yaml").write_text(text.replace("device: cpu", "device: null"))
    assert pipeline.write_host(project)["hosts"]["mini"]["device_used"] == "cpu"


def test_a_missing_git_is_one_line(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ProjectError, match="git is not installed"):
        project.git("status")
