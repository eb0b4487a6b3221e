"""Two versions side by side."""

from __future__ import annotations

import pytest

from ffsim import diff, metrics
from ffsim.errors import ProjectError
from ffsim.project import Project


def _metrics(project: Project, predicted: float, official: float | None, runs: int) -> None:
    entry = {
        "predicted_bpb": predicted, "sd_bpb": 0.01, "from_recipe_bpb": predicted + 0.1, "official_bpb": official,
    }  # fmt: skip
    metrics.write(project, "mini", "predictions", {"first": entry})
    metrics.write(project, "mini", "candidate", {"muon": entry | {"official_bpb": None}})
    metrics.write(project, "mini", "data", {"runs": runs, "uploads": 1})


@pytest.fixture
def versions(dvc_project: Project) -> Project:
    _metrics(dvc_project, 2.60, None, 10)
    dvc_project.git("add", "-A")
    dvc_project.git("commit", "-q", "-m", "one")
    _metrics(dvc_project, 2.62, 2.63, 11)
    return dvc_project


def test_a_revision_against_the_workspace(versions: Project) -> None:
    result = diff.diff(versions, "HEAD", None)
    upload, candidate = result.rows
    assert (upload.name, upload.what, candidate.name, candidate.what) == ("first", "upload", "muon", "candidate")
    assert (upload.predicted_a, upload.predicted_b) == (2.60, 2.62)
    assert upload.change == pytest.approx(0.02)
    assert upload.change_sd == pytest.approx(2.0)
    assert upload.error_a == pytest.approx(0.03)
    assert upload.error_b == pytest.approx(0.01)
    assert candidate.official is None
    assert candidate.error_b is None
    assert result.data == {"mini": {"runs": (10, 11)}}


def test_a_version_without_metrics_shows_nothing_on_its_side(versions: Project) -> None:
    row = diff.diff(versions, "HEAD~1", "HEAD").rows[0]
    assert (row.predicted_a, row.predicted_b, row.change) == (None, 2.60, None)


def test_the_same_version_twice_has_no_change(versions: Project) -> None:
    assert diff.diff(versions, "HEAD", "HEAD").rows[0].change == 0.0


@pytest.mark.parametrize("revision", ["nowhere", "--help", "HEAD:data.dvc", ""])
def test_what_is_no_revision_is_refused(versions: Project, revision: str) -> None:
    with pytest.raises(ProjectError, match="is no revision"):
        diff.diff(versions, revision, None)
