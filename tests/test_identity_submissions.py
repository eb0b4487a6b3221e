"""Identity checks of what came later: submitted files, younger knobs, batch phases, free steps."""

from __future__ import annotations

from typing import Any

import factories
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ffsim import contest as contests
from ffsim import contract, identity, records, schema
from ffsim.contest import Contest
from ffsim.identity import Index


def rules(contest: Contest, record: dict[str, Any]) -> set[str]:
    """Every rule that a record breaks, contract and identity together."""
    report = schema.check(contract.load("run"), contest, [("r", record)])
    found = {violation.rule for violation in report.violations}
    return found or {violation.rule for violation in identity.check("r", record, contest, Index())}


def test_a_submission_is_a_valid_run(laptop: Contest) -> None:
    record = factories.submission(laptop)
    assert rules(laptop, record) == set()
    run = records.run_from(record, where="r")
    assert records.as_json(run) == record
    assert (run.recipe_name, run.recipe_hash) == ("train.py", record["artifact_sha256"])
    assert not run.comparable


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"artifact": None}, "submission"),
        ({"recipe": {"name": "base", "hash": "0" * 64}}, "submission"),
        ({"trainer_version": "t2"}, "submission"),
        ({"knobs": {"layers": 2}}, "missing"),
        ({"artifact": {"file": "../x.py", "bytes": 10}}, "artifact.file"),
        ({"artifact": {"file": "train.py", "bytes": 300_000}}, "artifact_size"),
        ({"artifact": {"file": "train.py", "bytes": 0}}, "artifact.bytes"),
        ({"artifact": {"file": "train.py"}}, "submission"),
        ({"artifact": {"file": "train.py", "bytes": 10, "code": "import os"}}, "unknown_field"),
        ({"exit_code": 10**9}, "exit_code"),
        ({"exit_code": 0.5}, "type"),
    ],
)
def test_a_submission_that_says_too_much_or_too_little_is_refused(
    laptop: Contest, changes: dict[str, Any], rule: str
) -> None:
    record = factories.submission(laptop) | changes
    report = schema.check(contract.load("run"), laptop, [("r", record)])
    found = report.violations or identity.check("r", record, laptop, Index())
    assert {violation.rule for violation in found} | {violation.field for violation in found} >= {rule}


def test_a_run_of_a_recipe_needs_seed_and_order(laptop: Contest) -> None:
    assert rules(laptop, factories.run(laptop, seed=None, order=None)) == {"null"}


def older(contest: Contest) -> dict[str, Any]:
    """A run of the first trainer, as it was written then: without the knobs that came later."""
    from ffsim import recipe

    first = contest.trainers.versions[0]
    record = factories.run(contest)
    record["knobs"] = {knob.name: record["knobs"][knob.name] for knob in contest.knobs if knob.since is None}
    record |= {"trainer_version": first, "artifact_sha256": recipe.artifact_of(contest.name, record["knobs"], first)}
    return record


def test_an_older_run_lacks_the_knobs_that_came_later(laptop: Contest) -> None:
    assert len(older(laptop)["knobs"]) < len(laptop.knobs)
    assert rules(laptop, older(laptop)) == set()


def test_a_run_of_the_latest_trainer_carries_every_knob(laptop: Contest) -> None:
    record = factories.run(laptop)
    del record["knobs"]["ema"]
    assert "missing" in rules(laptop, record)


def test_an_older_trainer_had_no_younger_knob(laptop: Contest) -> None:
    record = older(laptop)
    record["knobs"]["ema"] = 0.9
    assert "knob_since" in rules(laptop, record)
    record["knobs"]["ema"] = None
    assert "knob" in rules(laptop, record)


def ramped(contest: Contest, counts: dict[str, int], **changes: Any) -> dict[str, Any]:
    """A run with a batch ramp of 1, then 2 micro-batches."""
    steps = sum(counts.values())
    record = factories.run(contest, knobs={"accumulate": 2, "ramp1_until": 0.5}, steps=steps)
    step = record["step_times"]["1"]
    record["step_times"] = {phase: {**step, "count": count} for phase, count in counts.items()}
    record["tokens"] = sum(int(p) * n for p, n in counts.items()) * contest.step_tokens(record["knobs"])
    return record | changes


def test_tokens_follow_the_batch_phases(laptop: Contest) -> None:
    record = ramped(laptop, {"1": 300, "2": 500})
    assert rules(laptop, record) == set()
    assert "tokens" in rules(laptop, record | {"tokens": record["tokens"] + 1024})


def test_free_steps_are_steps_without_a_time() -> None:
    contest = contests.load("laptop-compile-free5")
    record = factories.run(contest, steps=800)
    timed = 795
    mean_s = record["clock"]["train_charged_s"] / timed
    record["step_times"]["1"] = {"count": timed, "median_s": mean_s, "mean_s": mean_s, "p95_s": mean_s}
    record["clock"]["longest_step_s"] = record["clock"]["last_step_s"] = mean_s
    assert rules(contest, record) == set()
    record["step_times"]["1"]["count"] = 796
    assert "steps_counted" in rules(contest, record)


@pytest.mark.parametrize(
    "compiles",
    [
        {},
        [{}],
        [{"graph": "a", "step": 1, "phase": "1", "seconds": "1", "source": "x", "charged": True}],
        [{"graph": "a", "step": -1, "phase": "1", "seconds": 1.0, "source": "x", "charged": True}],
        [{"graph": "a", "step": 1, "phase": "1", "seconds": float("inf"), "source": "x", "charged": True}],
        [{"graph": "a", "step": 1, "phase": "1", "seconds": 1.0, "source": "x", "charged": 1}],
        [{"graph": "a" * 100, "step": 1, "phase": "1", "seconds": 1.0, "source": "x", "charged": True}],
        [{"graph": "a", "step": 1, "phase": "1", "seconds": 1.0, "source": "x", "charged": True, "run": "rm"}],
        [{"graph": "a", "step": 1, "phase": "1", "seconds": 1.0, "source": "x", "charged": True}] * 3000,
    ],
)
def test_a_damaged_ledger_is_refused(laptop: Contest, compiles: Any) -> None:
    assert "type" in rules(laptop, factories.run(laptop) | {"compiles": compiles})


def test_compiles_cannot_be_charged_more_than_everything(laptop: Contest) -> None:
    record = factories.run(laptop)
    record["clock"] |= {"compile_charged_s": 1e6, "save_s": 0.0}
    assert "compiles_within_charged" in rules(laptop, record)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=50)
@given(st.data())
def test_no_values_in_any_fields_make_the_guard_raise(laptop: Contest, data: st.DataObject) -> None:
    """Of a run of a recipe or of a submission; two fields at a time, whole groups and single ones."""
    make = data.draw(st.sampled_from([factories.submission, factories.run]))
    record = make(laptop) | {"compiles": [], "step_times_given": {"1": 0.1}}
    for _ in range(2):
        name = data.draw(st.sampled_from(sorted(record)))
        if isinstance(record[name], dict) and record[name] and data.draw(st.booleans()):
            record[name] = record[name] | {data.draw(st.sampled_from(sorted(record[name]))): data.draw(json_values)}
        else:
            record[name] = data.draw(st.just({}) | st.none() | json_values)
    for rule in rules(laptop, record):
        assert isinstance(rule, str)
