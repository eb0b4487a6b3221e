"""The guard: identity rules, duplicates, and malformed files."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import factories
import pytest
from factories import DELETE
from hypothesis import given
from hypothesis import strategies as st

from ffsim import guard, jobs, records
from ffsim.contest import Contest
from ffsim.errors import RecordError
from ffsim.guard import Source
from ffsim.identity import Index
from ffsim.project import Project

RUN = "base-s1"


def judged(project: Project, *documents: Any, index: Index | None = None, **options: Any) -> list[str]:
    sources = [
        Source(f"{i}.json", doc if isinstance(doc, bytes) else json.dumps(doc).encode())
        for i, doc in enumerate(documents)
    ]
    verdict = guard.judge(project, sources, index or Index(), **options)
    return [violation.line() for violation in verdict.violations]


def test_a_valid_run_passes(project: Project) -> None:
    assert judged(project, factories.run(project.contest())) == []


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"recipe__hash": "0" * 64}, "recipe_hash"),
        ({"artifact_sha256": "0" * 64}, "artifact"),
        ({"knobs__width": 20}, "knob"),
        ({"host__block": "cpu.other.avx2"}, "host_block"),
        ({"budget_s": 60.0, "clock__train_charged_s": 59.9}, "budget"),
        ({"kind": "screen"}, "budget"),
        ({"step_limit": 800}, "budget"),
        ({"budget_s": None}, "budget"),
        ({"steps": 700}, "steps_counted"),
        ({"clock__train_charged_s": 0.28}, "charged_time"),
        ({"trainer_version": "t999"}, "era"),
        ({"scores__hidden": {"bpb": 2.7, "nats": None, "bytes": None, "tokens": None}}, "hidden_text"),
        ({"curves__bpb": [[10**9, 0.1, 2.7]]}, "curve_steps"),
        ({"created_utc": "2099-01-01T00:00:00Z"}, "future"),
        ({"tokens": 5}, "tokens"),
        ({"scores": {}}, "scored"),
        ({"scores__public__bytes": 2600, "scores__public__nats": 2.7 * 0.6931471805599453 * 2600}, "text_bytes"),
        ({"scores__public__bpb": 0.5, "scores__public__nats": 0.5 * 0.6931471805599453 * 2999}, "impossible"),
    ],
)
def test_what_a_run_says_of_itself_is_computed_again(project: Project, changes: dict[str, Any], rule: str) -> None:
    found = judged(project, factories.changed(factories.run(project.contest()), changes))
    assert any(f"[{rule}]" in line for line in found), found


def test_ids_are_unique_without_case_and_contents_are_unique(project: Project) -> None:
    contest = project.contest()
    index = Index()
    index.add(factories.run(contest))
    assert "[unique_id]" in judged(project, factories.run(contest, "BASE-S1", bpb=2.8), index=index)[0]
    same = factories.run(contest, RUN) | {"run_id": "another", "notes": "mine", "contributor": "someone else"}
    assert "[duplicate]" in judged(project, same, index=index)[0]


@pytest.mark.parametrize(
    "spelling", [{"budget_s": 20}, {"knobs__clip": 1}, {"message": ""}, {"official_bpb": 2.5}, {"control_of": "x"}]
)
def test_another_spelling_of_a_run_is_a_duplicate(laptop: Contest, project: Project, spelling: dict[str, Any]) -> None:
    params = (project.root / "params.yaml").read_text().replace("- mini", "- mini\n- laptop")
    (project.root / "params.yaml").write_text(params)
    run = factories.run(laptop)
    copy = factories.changed(run, spelling | {"run_id": "copy"})
    assert "[duplicate]" in judged(project, run, copy)[0]


@pytest.mark.parametrize(
    "left_out", [{"step_times": DELETE}, {"scores__public": {"bpb": 2.7}}, {"curves": {"loss": [], "bpb": []}}]
)
def test_a_record_that_lacks_what_it_may_lack_passes_and_can_be_read(
    project: Project, left_out: dict[str, Any]
) -> None:
    run = factories.changed(factories.run(project.contest()), left_out)
    verdict = guard.judge(project, [Source("x", json.dumps(run).encode())], Index())
    assert verdict.violations == []
    assert records.run_from(verdict.runs[0], where="x").run_id == RUN


@given(st.data())
def test_whatever_passes_can_be_read_back(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """An accepted record that later commands cannot read would stop the whole project."""
    root = tmp_path_factory.getbasetemp() / "guard-project"
    if not root.exists():
        factories.write_project(root)
    project = Project(root)
    record = factories.run(project.contest())
    for _ in range(data.draw(st.integers(1, 2))):
        place = record
        while True:
            key = data.draw(st.sampled_from(sorted(place)))
            inner = place[key]
            if not isinstance(inner, dict) or not inner or data.draw(st.booleans()):
                break
            place = inner
        if data.draw(st.booleans()):
            del place[key]
        else:
            place[key] = data.draw(st.sampled_from([None, {}, [], 0, 1.5, "", "x", True, -1, 10**12]))
        if not place:
            break
    verdict = guard.judge(project, [Source("x", json.dumps(record).encode())], Index())
    assert verdict.violations or records.run_from(verdict.runs[0], where="x")


def test_two_attempts_that_measured_nothing_are_no_copies(project: Project) -> None:
    nothing = {"status": "cut_off", "scores": {}, "steps": None, "step_times": {}, "tokens": None}
    nothing |= {"curves": {"loss": [], "bpb": []}, "weights_sha256": None}
    one, two = (factories.changed(factories.run(project.contest(), name), nothing) for name in ("one", "two"))
    assert judged(project, one, two) == []


def test_two_copies_in_one_batch_are_caught(project: Project) -> None:
    run = factories.run(project.contest())
    assert "[duplicate]" in judged(project, run, run | {"run_id": "copy"})[0]
    assert "[unique_id]" in judged(project, run, run)[0]


def test_only_the_organiser_makes_official_runs(project: Project) -> None:
    run = factories.run(project.contest(), kind="official")
    assert judged(project, run) == []
    assert "[official]" in judged(project, run, refuse_official=True)[0]


MALFORMED = {
    "wrong unit": ({"scores__public__bpb": 2.7 * 0.6931471805599453}, "scores.public.bpb"),
    "missing seed": ({"seed": DELETE}, "seed"),
    "unknown knob": ({"knobs__widht": 96}, "did you mean knobs.width"),
    "knob out of range": ({"knobs__lr": 5.0}, "knobs.lr = 5.0"),
    "bpb not matching": ({"scores__public__nats": 9999.0}, "nats / ln 2 / bytes"),
    "path in run_id": ({"run_id": "../../../tmp/evil"}, "run_id"),
    "charged over budget": ({"clock__train_charged_s": 0.42}, "more than one step over"),
    "steps 0": ({"steps": 0}, "steps = 0"),
    "steps 10.7": ({"steps": 10.7}, "whole number"),
    "wrong contest": ({"contest": "marathon"}, "no contest of this project"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_record_is_refused(project: Project, name: str) -> None:
    changes, words = MALFORMED[name]
    found = judged(project, factories.changed(factories.run(project.contest()), changes))
    assert any(words in line for line in found), found


@pytest.mark.parametrize(
    "blob",
    [b'{"run_id": "x", "steps": NaN}', b'{"run_id": "x', b"[]", b"3", b"", b"\xff\xfe", b'{"a":1,"a":2}', b"null"],
)
def test_what_is_no_json_object_is_refused_in_one_line(project: Project, blob: bytes) -> None:
    (line,) = judged(project, blob)
    assert line.startswith("0.json: ")
    assert "[json]" in line


def test_another_kind_of_record_is_one_violation(project: Project) -> None:
    contest = project.contest()
    (line,) = judged(project, factories.upload(contest, "u", factories.run(contest), 2.5))
    assert "format = 'ffsim-upload/1': is no run record" in line


def test_a_run_that_still_runs_is_refused(project: Project) -> None:
    """Its record says cut_off until it ends; added now, the finished record would be a duplicate."""
    folder = jobs.start(project, RUN)
    run = factories.run(project.contest(), RUN, status="cut_off", scores={})
    assert "[running]" in judged(project, run)[0]
    jobs.end(folder)
    assert judged(project, run) == []


def test_good_and_bad_records_are_told_apart(project: Project) -> None:
    contest = project.contest()
    verdict = guard.judge(
        project,
        [
            Source("a.json", json.dumps(factories.run(contest, "good")).encode()),
            Source("b.json", json.dumps(factories.run(contest, "bad", seed=-1)).encode()),
            Source("c.json", b"{"),
        ],
        Index(),
    )
    assert [run["run_id"] for run in verdict.runs] == ["good"]
    assert {violation.record for violation in verdict.violations} == {"bad", "c.json"}


def test_a_huge_file_is_refused_before_it_is_parsed(project: Project) -> None:
    (line,) = judged(project, b"[" * (guard.MAX_BYTES + 1))
    assert "at most" in line


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["run_id", "contest", "knobs", "scores", "clock", "steps", "x"]), JSON))
def test_any_json_object_is_refused_without_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, document: dict[str, Any]
) -> None:
    root = tmp_path_factory.getbasetemp() / "guard-project"
    if not root.exists():
        factories.write_project(root)
    document |= {"format": "ffsim-run/1"}
    document.setdefault("contest", "mini")
    found = judged(Project(root), json.dumps(document).encode())
    assert found
    assert all("\n" not in line for line in found)


def test_sources_reads_files_folders_and_standard_input(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("1")
    (tmp_path / "b.json").write_text("2")
    (tmp_path / "c.txt").write_text("3")
    got = list(guard.sources([str(tmp_path), str(tmp_path / "c.txt"), "-"], io.BytesIO(b"4")))
    assert [source.blob for source in got] == [b"1", b"2", b"3", b"4"]


def test_a_missing_file_or_empty_folder_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="cannot be read"):
        list(guard.sources([str(tmp_path / "none.json")]))
    with pytest.raises(RecordError, match=r"no \*.json"):
        list(guard.sources([str(tmp_path)]))


def test_a_file_whose_name_is_no_text_is_judged(project: Project, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "r\udcff.json").write_bytes(b"{}")
    found = list(guard.sources([str(folder)]))
    assert [source.name for source in found] == ["r\ufffd.json"]
    assert guard.judge(project, found, Index()).violations
