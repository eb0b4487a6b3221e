"""Contracts: every violation at once, in clear lines; nothing coerced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import factories
import pytest
from factories import DELETE
from hypothesis import given
from hypothesis import strategies as st

from ffsim import contest as contests
from ffsim import contract, schema
from ffsim.contest import Contest
from ffsim.errors import SchemaError


def lines(laptop: Contest, record: dict[str, Any], name: str = "run") -> list[str]:
    report = schema.check(contract.load(name), laptop, [(str(record.get("run_id", "r")), record)])
    return [violation.line() for violation in report.violations]


def test_a_valid_run_has_no_violation_and_nothing_unverified(laptop: Contest) -> None:
    report = schema.check(contract.load("run"), laptop, [("r", factories.run(laptop))])
    assert report.violations == []
    assert report.unverified == {}


def test_a_valid_official_run_and_screens_pass(laptop: Contest) -> None:
    assert lines(laptop, factories.run(laptop, kind="official")) == []
    assert lines(laptop, factories.run(laptop, kind="screen", budget_s=5.0)) == []
    assert lines(laptop, factories.run(laptop, kind="screen", budget_s=20.0, step_limit=800) | {"budget_s": None}) == []


@pytest.mark.parametrize("bpb", [None, 2.61])
def test_a_valid_upload_passes(laptop: Contest, bpb: float | None) -> None:
    assert lines(laptop, factories.upload(laptop, "u", factories.run(laptop), bpb), "upload") == []


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"steps": 10.7}, "steps = 10.7", "whole number"),
        ({"steps": "800"}, "steps = '800'", "whole number"),
        ({"steps": True}, "steps = True", "whole number"),
        ({"steps": 2**70}, "steps = 1180591620717411303424", "64 bits"),
        ({"steps": 0}, "steps = 0", "at least one step"),
        ({"steps": None}, "steps = null", "is required"),
        ({"seed": DELETE}, "seed", "is missing"),
        ({"seed": -1}, "seed = -1", "too small"),
        ({"kind": "final"}, "kind = 'final'", "not one of the allowed values"),
        ({"run_id": "../../etc"}, "run_id = '../../etc'", "right form"),
        ({"run_id": "a\n"}, "run_id", "right form"),
        ({"consent": False}, "consent = False", "must be true"),
        ({"knobs__lr": 7.0}, "knobs.lr = 7.0", "0.0001 .. 0.1"),
        ({"knobs__activation": "tanh"}, "knobs.activation = 'tanh'", "one of relu2"),
        ({"knobs__rope": 1}, "knobs.rope = 1", "true or false"),
        ({"knobs__lr": [1]}, "knobs.lr = [1]", "plain value"),
        ({"knobs__lr": None}, "knobs.lr = null", "must not be null"),
        ({"knobs__lr": DELETE}, "knobs.lr", "is missing"),
        ({"knobs__learning_rate": 0.1}, "knobs.learning_rate = 0.1", "no field"),
        ({"scores__secret": {"bpb": 1.0}}, "scores.secret", "no field"),
        ({"clock__train_charged_s": 20.5}, "clock.train_charged_s = 20.5", "more than one step over"),
        ({"clock__last_step_s": 15.0}, "clock.last_step_s = 15.0", "longer than the longest"),
        ({"host__device_used": "cuda"}, "host.device_used = 'cuda'", "not the device"),
        ({"host__flags": {"A": 1}}, "host.flags", "short texts"),
        ({"curves__loss": [[2, 0.1, 3.0], [1, 0.2, 3.0]]}, "curves.loss", "steps must increase"),
        ({"curves__loss": [[1, 0.1]]}, "curves.loss", "list of [step"),
        ({"status": "crashed"}, "scores.public.bpb = 2.7", "has no score"),
        ({"created_utc": "yesterday"}, "created_utc = 'yesterday'", "no time in UTC"),
        ({"clock__eval_s": -1.0}, "clock.eval_s = -1.0", "too small"),
        ({"clock": 3}, "clock = 3", "no field"),
        ({"notes": "x" * 2001}, "notes", "too long"),
        ({"created_utc": "2026-19-39T29:59:59Z"}, "created_utc", "no time in UTC"),
        ({"created_utc": "20२६-11-30T18:30:00Z"}, "created_utc", "no time in UTC"),
        ({"clock.wall_s": 5.0}, "'clock.wall_s' = 5.0", "no field"),
        ({"recipe.hash": "x"}, "'recipe.hash'", "no field"),
        ({"step_times": {"1": {"count": 3}}}, "step_times.1.median_s", "is missing"),
        ({"step_times": {"1": {}}}, "step_times.1 = {}", "no field"),
        ({"scores__public": {"nats": 1.0, "bytes": 1, "tokens": 1}}, "scores.public.bpb", "is missing"),
        ({"scores": {"public": {}}}, "scores.public = {}", "no field"),
        ({"clock": {}}, "clock = {}", "no field"),
        ({"step_times__1__mean_s": 1e299}, "step_times.1.mean_s", "too large"),
        ({"step_times__1__p95_s": 600.0}, "step_times.1.p95_s", "longer than the longest step"),
        ({"start__observed": "warm"}, "start.observed = 'warm'", "not the start that was asked for"),
        (
            {"clock__train_charged_s": 0.01, "clock__longest_step_s": 0.01},
            "clock.train_charged_s",
            "far from the budget",
        ),
        ({"curves__loss": [[1, -0.1, 3.0]]}, "curves.loss", "must not be negative"),
    ],
)
def test_each_fault_is_named_with_field_value_and_fix(
    laptop: Contest, changes: dict[str, Any], field: str, words: str
) -> None:
    found = lines(laptop, factories.changed(factories.run(laptop), changes))
    assert any(field in line and words in line for line in found), found
    assert all("\n" not in line and line.count("[") >= 1 for line in found)


def test_nats_per_byte_given_as_bits_is_caught(laptop: Contest) -> None:
    run = factories.run(laptop)
    found = lines(laptop, factories.changed(run, {"scores__public__bpb": 2.7 * 0.693147}))
    assert len(found) == 1
    assert "is not nats / ln 2 / bytes" in found[0]


def test_all_faults_of_all_records_come_at_once(laptop: Contest) -> None:
    one = factories.run(laptop, "one", steps=800, seed=-1, knobs__lr=9.0)
    two = factories.run(laptop, "two", kind="rehearsal", consent=False)
    report = schema.check(contract.load("run"), laptop, [("one", one), ("two", two)])
    assert [violation.record for violation in report.violations] == ["one", "one", "two"]


def test_a_rule_without_its_operands_is_unverified_not_broken(laptop: Contest) -> None:
    run = factories.run(laptop, scores__public__nats=None, clock__last_step_s=None)
    report = schema.check(contract.load("run"), laptop, [("r", run)])
    assert report.violations == []
    assert set(report.unverified["r"]) == {"bpb_from_nats", "charged_within_budget", "last_step_is_a_step"}


def test_an_unfinished_run_without_a_score_passes(laptop: Contest) -> None:
    run = factories.run(laptop, status="crashed", scores={}, steps=3, message="out of memory")
    assert lines(laptop, run) == []


JUNK = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=4)
    | st.just([])
    | st.just({})
)


@given(st.data())
def test_no_damage_to_a_record_makes_the_check_raise(data: st.DataObject) -> None:
    laptop = contests.load("laptop")
    record = factories.run(laptop)
    for _ in range(data.draw(st.integers(1, 4))):
        place = record
        while True:
            key = data.draw(st.sampled_from(sorted(place)) | st.text(max_size=6))
            inner = place.get(key)
            if not isinstance(inner, dict) or not inner or data.draw(st.booleans()):
                place[key] = data.draw(JUNK)
                break
            place = inner
    report = schema.check(contract.load("run"), laptop, [("r", json.loads(json.dumps(record)))])
    assert all("\n" not in violation.line() for violation in report.violations)


def test_a_projects_contract_wins_and_a_broken_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("contract: run\nabout: x\ncolumns: {a: {dtype: word, about: y}}\n")
    with pytest.raises(SchemaError, match=r"run\.yaml"):
        contract.load("run", tmp_path)


def test_what_is_checked_before_a_run_is_what_the_contract_asks() -> None:
    from ffsim import records

    columns = contract.load("run").columns
    assert columns["run_id"].pattern == records.RUN_ID.pattern
    assert columns["contributor"].pattern == records.CONTRIBUTOR.pattern
    assert columns["notes"].max_length == records.NOTES_MAX


def test_the_contract_covers_every_field_of_a_record(laptop: Contest) -> None:
    """A field that the tool writes and the contract does not know would be refused at the door."""
    from ffsim import records, shape

    written = records.as_json(records.run_from(factories.run(laptop), where="x"))
    columns = contract.load("run").expand(laptop)
    assert set(shape.flatten(written, columns)) <= set(columns)
    upload = records.as_json(records.upload_from(factories.upload(laptop, "u", factories.run(laptop), 2.5), where="x"))
    columns = contract.load("upload").expand(laptop)
    assert set(shape.flatten(upload, columns)) == set(columns)
