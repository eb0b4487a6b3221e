"""The compile ledger: every graph of a whole run is counted, named and charged to whoever pays for it.

The backend counts graphs and sleeps instead of compiling: what a slow compiler costs, without one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from ffsim.errors import RunError
from ffsim.train.job import Job
from ffsim.train.loop import train
from ffsim.train.result import Result

SLEEP_S = 0.05
# Batch phases of 1 and 2 micro-batches, a cooldown from half of the run on, an average every 32 steps, a save.
SCHEDULE = {"accumulate": 2, "ramp1_until": 0.5, "cooldown": 0.5, "warmup": 0.1, "ema": 0.9, "ema_every": 32}
GRAPHS = 4  # the loss in two batch phases, the optimizer, the average


class Compiler:
    """A Dynamo backend that counts what it is given and takes its time."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, module: torch.fx.GraphModule, _inputs: list[Any]) -> Callable[..., Any]:
        self.graphs += 1
        time.sleep(SLEEP_S)
        return module.forward


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Any:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def run(job: dict[str, Any], clock: dict[str, Any], **knobs: Any) -> tuple[Result, Compiler, list[dict[str, Any]]]:
    compiler, events = Compiler(), []
    made = {**job, "clock": {**job["clock"], "time": "wall", "warmup_steps": 0, **clock}}
    made["knobs"] = {**job["knobs"], **SCHEDULE, "torch_compile": True, **knobs}
    made |= {"steps": 40, "curve_text": "public", "curve_at": [0.5]}
    return train(Job.from_dict(made), events.append, compiler=compiler), compiler, events


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_whole_schedule_runs_on_a_fixed_number_of_graphs(job, tmp_path: Path, optimizer: str) -> None:
    """Warm-up, batch phases, cooldown, average, evaluation and save; static shapes, forty learning rates."""
    result, compiler, _ = run({**job, "save_to": str(tmp_path / "w.npz")}, {}, optimizer=optimizer)
    assert result.steps == 40
    assert set(result.step_times) == {"1", "2"}
    assert compiler.graphs == len(result.compiles) == GRAPHS
    assert (tmp_path / "w.npz").is_file()
    assert torch._dynamo.utils.counters["graph_break"] == {}


def test_a_late_compile_is_charged_and_named(job) -> None:
    result, _, events = run(job, {})
    late = {(entry["graph"], entry["step"]) for entry in result.compiles if entry["charged"]}
    assert ("average", 32) in late
    assert ("loss", 20) in late
    assert result.clock.late_compiles == len(late) == GRAPHS  # with no free step all are late
    assert result.clock.compile_charged_s >= GRAPHS * SLEEP_S
    assert result.clock.compile_charged_s <= result.clock.train_charged_s
    assert [event["graph"] for event in events if event["event"] == "compile"] == [e["graph"] for e in result.compiles]


def test_planted_behind_the_free_steps_it_is_the_only_ones_that_are_late(job) -> None:
    result, _, _ = run(job, {"free_steps": 5}, prewarm=False)
    assert [(e["graph"], e["step"], e["phase"]) for e in result.compiles if e["charged"]] == [
        ("loss", 20, "2"),
        ("average", 32, "2"),
    ]
    assert result.clock.late_compiles == 2
    assert result.clock.compile_startup_s >= 2 * SLEEP_S


def test_moved_into_the_free_steps_no_compile_is_late(job) -> None:
    result, compiler, _ = run(job, {"free_steps": 5, "recompiles": "refused"})
    assert (result.clock.late_compiles, result.clock.compile_charged_s) == (0, 0)
    assert {entry["step"] for entry in result.compiles} == {0}
    assert {(entry["graph"], entry["phase"]) for entry in result.compiles} >= {("loss", "1"), ("loss", "2")}
    assert compiler.graphs == GRAPHS


def test_made_in_the_warm_up_no_compile_is_late_either(job) -> None:
    result, compiler, _ = run(job, {"warmup_steps": 1, "recompiles": "refused"})
    assert result.clock.late_compiles == 0
    assert {entry["step"] for entry in result.compiles} == {None}
    assert compiler.graphs == GRAPHS


@pytest.mark.parametrize(
    ("knobs", "words"), [({}, r"loss \(phase 2\).* step 20"), ({"ramp1_until": 0.0}, "average.* step 32")]
)
def test_after_the_free_steps_a_compile_fails_loudly_unless_it_is_allowed(job, knobs, words) -> None:
    with pytest.raises(RunError, match=words):
        run(job, {"free_steps": 5, "recompiles": "refused"}, prewarm=False, **knobs)


def test_a_policy_that_does_not_charge_compiles_stops_the_clock_for_them(job) -> None:
    free, _, _ = run(job, {"charged": []})
    charged, _, _ = run(job, {"charged": ["late_compiles"]})
    assert free.clock.late_compiles == 0
    assert free.clock.train_charged_s + GRAPHS * SLEEP_S < charged.clock.train_charged_s


def test_prewarming_leaves_no_trace(job) -> None:
    hashes = {run(job, {"free_steps": n}, prewarm=p)[0].weights_sha256 for n, p in ((0, True), (5, True), (5, False))}
    assert len(hashes) == 1
