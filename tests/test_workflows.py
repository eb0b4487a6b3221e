"""The workflows: they parse, a stranger's code never meets a token that may write, and comments are fenced."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

GITHUB = Path(__file__).parent.parent / ".github"


def _workflow(name: str) -> dict[Any, Any]:
    document: dict[Any, Any] = yaml.safe_load((GITHUB / "workflows" / name).read_text())
    return document


@pytest.fixture(scope="module")
def comment() -> ModuleType:
    spec = importlib.util.spec_from_file_location("comment", GITHUB / "comment.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", sorted((GITHUB / "workflows").glob("*.yml")), ids=lambda path: path.name)
def test_a_workflow_parses_and_asks_for_rights_by_name(path: Path) -> None:
    document = yaml.safe_load(path.read_text())
    assert document["jobs"]
    assert document[True]  # YAML 1.1 reads the key `on` as true
    assert isinstance(document["permissions"], dict)


@pytest.mark.parametrize("path", sorted((GITHUB / "workflows").glob("*.yml")), ids=lambda path: path.name)
def test_no_expression_is_pasted_into_a_script(path: Path) -> None:
    """A branch's name in a script would be run."""
    for job in yaml.safe_load(path.read_text())["jobs"].values():
        assert not [step["run"] for step in job["steps"] if "${{" in step.get("run", "")]


def test_no_workflow_runs_a_fork_with_rights() -> None:
    for path in (GITHUB / "workflows").glob("*.yml"):
        assert "pull_request_target" not in yaml.safe_load(path.read_text())[True]


def test_the_review_only_reads_and_checks_out_the_base() -> None:
    document = _workflow("contribution.yml")
    assert document["permissions"] == {"contents": "read"}
    (job,) = document["jobs"].values()
    checkouts = [step["with"] for step in job["steps"] if step.get("uses", "").startswith("actions/checkout")]
    assert [step["ref"] for step in checkouts] == ["${{ github.event.pull_request.base.sha }}"]
    assert checkouts[0]["persist-credentials"] is False
    assert not re.search(r"git (checkout|switch|merge|reset)", str(job))
    assert "permissions" not in job


def test_the_comment_runs_the_default_branch_only() -> None:
    document = _workflow("contribution-comment.yml")
    assert list(document[True]) == ["workflow_run"]
    (job,) = document["jobs"].values()
    checkouts = [step["with"] for step in job["steps"] if step.get("uses", "").startswith("actions/checkout")]
    assert [step.get("ref") for step in checkouts] == [None]


@pytest.mark.parametrize(
    "text", ["```\n@everyone", "````\n# big", "`" * 50, "<img src=x>", "\x1b[31m\x00", "a\r\n```\r\nb", ""]
)
def test_foreign_text_stays_in_its_block(comment: ModuleType, text: str) -> None:
    lines = comment.body_of(text).splitlines()
    fence = lines[3].removesuffix("text")
    assert set(fence) == {"`"}
    assert len(fence) >= 3
    assert [i for i, line in enumerate(lines[4:]) if line.strip().startswith(fence)] == [len(lines) - 5]
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize("text", ["", "0", "-1", "1 2", "1\n2", "../1", "1" * 10, "１", "1;id"])
def test_a_number_that_is_none_ends_the_program(comment: ModuleType, text: str) -> None:
    with pytest.raises(SystemExit, match="names no pull request"):
        comment.number_of(text)


def test_a_number_is_read(comment: ModuleType) -> None:
    assert comment.number_of("17\n") == 17


def test_a_long_text_is_cut_and_a_link_is_not_followed(comment: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "long").write_text("é" * 100_000)
    assert len(comment.read(tmp_path / "long")) == comment.MAX_CHARACTERS
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(SystemExit, match="is no file"):
        comment.read(tmp_path / "link")


def test_another_pull_request_is_not_written_to(comment: ModuleType) -> None:
    pull = {"head": {"sha": "a", "repo": {"full_name": "x/y"}}}
    assert comment.is_of(pull, "a", "x/y")
    assert not comment.is_of(pull, "b", "x/y")
    assert not comment.is_of(pull, "a", "x/z")
    assert not comment.is_of({"head": {"sha": "a", "repo": None}}, "a", "x/y")


def test_only_the_own_comment_is_updated(comment: ModuleType) -> None:
    def said(number: int, login: str, body: str) -> dict[str, Any]:
        return {"id": number, "user": {"login": login}, "body": body}

    mine = said(3, comment.AUTHOR, comment.body_of("x"))
    others = [said(1, "stranger", comment.body_of("x")), said(2, comment.AUTHOR, "hello")]
    assert comment.own([*others, mine]) == 3
    assert comment.own(others) is None
