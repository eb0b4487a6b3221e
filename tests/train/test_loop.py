"""Runs repeat bit for bit, warm-up leaves no trace, scores are comparable between recipes."""

from __future__ import annotations

import json
import math
import time

import numpy as np
import pytest
import torch
from tiny_jobs import TINY, prose, write_text

from ffsim import contest
from ffsim.errors import RunError
from ffsim.train import loop
from ffsim.train.loop import Job, score, train
from ffsim.walk import walk


def run(job, **knob_changes):
    events = []
    job = {**job, "knobs": {**job["knobs"], **knob_changes}}
    result = train(Job.from_dict(job), events.append)
    return result, events


def with_warmup(job, n_steps):
    return {**job, "clock": {**job["clock"], "warmup_steps": n_steps}}


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_two_runs_of_one_job_are_bit_identical(job, optimizer):
    first, second = (run(job, optimizer=optimizer)[0] for _ in range(2))
    assert first.weights_sha256 == second.weights_sha256
    assert first.scores == second.scores


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_warmup_steps_leave_no_trace(job, optimizer):
    hashes = {run(with_warmup(job, n), optimizer=optimizer)[0].weights_sha256 for n in (0, 1, 5)}
    assert len(hashes) == 1


def test_seed_and_order_both_change_the_weights(job):
    hashes = {run({**job, **change})[0].weights_sha256 for change in ({}, {"seed": 2}, {"order": 2})}
    assert len(hashes) == 3


def test_the_loss_falls_in_thirty_steps(job):
    result, _ = run({**job, "steps": 30})
    losses = [loss_nats for _, _, loss_nats in result.curves["loss"]]
    assert losses[0] == pytest.approx(math.log(256))
    assert losses[-1] < 0.6 * losses[0]
    assert result.scores["public"]["bpb"] < 5.0


def test_an_untrained_model_scores_eight_bits_per_byte(job):
    model = loop.GPT(Job.from_dict(job).knobs, seed=1)
    text = np.frombuffer(prose(1001), dtype=np.uint8)
    assert score(model, text, 16)["bpb"] == pytest.approx(8.0, abs=1e-6)


@pytest.mark.parametrize("sequence", [1, 16, 100, 128, 5000])
def test_every_sequence_length_scores_the_same_bytes(sequence):
    frequencies = torch.arange(1.0, 257.0).log()
    text = np.frombuffer(prose(1001), dtype=np.uint8)
    scores = score(lambda tokens: frequencies.expand(*tokens.shape, 256), text, sequence)
    nats = -frequencies.double().log_softmax(0)[torch.tensor(text[1:], dtype=torch.long)].sum().item()
    assert scores == {
        "bytes": 1000,
        "tokens": 1000,
        "nats": pytest.approx(nats, rel=1e-6),
        "bpb": pytest.approx(nats / math.log(2) / 1000, rel=1e-6),
    }


def test_a_scored_text_may_be_shorter_than_a_sequence(job, tmp_path):
    job["score_texts"] = {"short": write_text(tmp_path / "short.txt", b"ab")}
    assert run(job)[0].scores["short"]["bytes"] == 1


def test_the_result_has_exactly_its_keys_and_is_strict_json(job):
    result, events = run({**job, "curve_text": "public", "curve_at": [0.5]})
    last = events[-1]
    assert json.loads(json.dumps(last, allow_nan=False)) == last == {"event": "result", **result.to_dict()}
    assert set(last) - {"event"} == {
        "steps", "tokens", "clock", "step_times", "scores", "curves", "compiles",
        "weights_sha256", "peak_memory_bytes", "parameters",
    }  # fmt: skip
    assert set(last["clock"]) == {
        "startup_s", "train_charged_s", "eval_s", "wall_s", "core_share", "load_1m",
        "last_step_s", "longest_step_s", "first_step_s", "startup_charged_s", "compile_startup_s",
        "compile_charged_s", "late_compiles", "save_s",
    }  # fmt: skip
    assert set(last["step_times"]["1"]) == {"count", "median_s", "mean_s", "p95_s"}
    assert set(last["scores"]["public"]) == {"bpb", "nats", "bytes", "tokens"}


def test_counts_and_times_add_up(job):
    result, _ = run(job)
    times = result.step_times["1"]
    assert result.steps == times["count"] == 6
    assert result.tokens == 6 * TINY["batch"] * TINY["sequence"]
    assert times["count"] * times["mean_s"] == pytest.approx(result.clock.train_charged_s, rel=1e-9)
    assert result.clock.startup_s + result.clock.eval_s <= result.clock.wall_s


def test_events_show_the_start_the_first_steps_and_the_last(job):
    _, events = run(job)
    assert events[0]["event"] == "start"
    steps = [event for event in events if event["event"] == "step"]
    assert [event["step"] for event in steps][:3] == [1, 2, 3]
    assert steps[-1]["step"] == 6
    assert (steps[-1]["fraction"], steps[-1]["left_s"]) == (1.0, 0.0)


def test_curve_scores_happen_on_the_way_at_their_fractions(job):
    result, events = run({**job, "curve_text": "public", "curve_at": [0.75, 0.3, 0.31]})
    scored = [event["step"] for event in events if event["event"] == "score"]
    assert scored == [2, 5, 6]  # 2/6 passes two of the fractions at once; the end is scored anyway
    assert [row[0] for row in result.curves["bpb"]] == scored
    assert result.curves["bpb"][-1][2] == result.scores["public"]["bpb"]


def test_scoring_on_the_way_does_not_change_the_run(job):
    plain, watched = run(job)[0], run({**job, "curve_text": "public", "curve_at": [0.5]})[0]
    assert plain.weights_sha256 == watched.weights_sha256


@pytest.mark.parametrize("time", ["cpu", "wall"])
def test_a_budget_ends_a_run(job, time):
    job = {**job, "steps": None, "budget_s": 0.05, "clock": {**job["clock"], "time": time}}
    result, _ = run(job)
    assert result.steps >= 1
    assert result.clock.train_charged_s - result.clock.last_step_s <= 0.05


def test_the_first_step_runs_even_in_a_budget_that_is_too_small(job):
    assert run({**job, "steps": None, "budget_s": 1e-9})[0].steps == 1


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize(
    "change",
    [{"rope": False, "qk_norm": False}, {"tied_head": True}, {"activation": "gelu"}, {"layers": 3, "width": 24}],
)
def test_every_kind_of_recipe_learns(job, optimizer, change):
    result, _ = run({**job, "steps": 20}, optimizer=optimizer, **change)
    assert result.scores["public"]["bpb"] < 7.0


def test_a_run_gives_the_threads_back(job):
    n_threads = torch.get_num_threads()
    torch.set_num_threads(2)
    run(job)
    assert torch.get_num_threads() == 2
    torch.set_num_threads(n_threads)


def test_a_loss_that_is_no_number_ends_the_run(job, monkeypatch):
    monkeypatch.setattr(loop.Step, "__call__", lambda *_: torch.tensor(float("nan")))
    with pytest.raises(RunError, match="nan at step 1"):
        run(with_warmup(job, 0))


def test_a_learning_rate_that_diverges_ends_the_run(job):
    with pytest.raises(RunError, match="at step"):
        run({**job, "steps": 50}, lr=1e30, clip=0.0, qk_norm=False)


def test_a_last_step_that_breaks_the_weights_is_no_result(job):
    with pytest.raises(RunError, match="score of public"):
        run({**with_warmup(job, 0), "steps": 1}, lr=1e38, clip=0.0, warmup=0.0, cooldown=0.0)


def test_a_wrong_text_ends_the_run_before_it_starts(job):
    job["score_texts"]["public"]["sha256"] = "0" * 64
    events = []
    with pytest.raises(RunError, match="sha256"):
        train(Job.from_dict(job), events.append)
    assert events == []


def test_a_training_text_shorter_than_a_sequence_is_refused(job, tmp_path):
    with pytest.raises(RunError, match="sequence"):
        run({**job, "train_text": write_text(tmp_path / "short.txt", prose(16))})


@pytest.mark.parametrize("device", ["abacus", "cuda:99", "meta:x"])
def test_a_device_that_does_not_exist_is_refused(job, device):
    with pytest.raises(RunError, match="cannot be used"):
        run({**job, "device": device})


def test_a_ramp_trains_on_more_tokens_as_it_goes(job):
    result, _ = run({**job, "steps": 10}, accumulate=4, ramp1_until=0.2, ramp2=2, ramp2_until=0.5)
    assert {phase: times["count"] for phase, times in result.step_times.items()} == {"1": 2, "2": 3, "4": 5}
    assert result.tokens == (2 * 1 + 3 * 2 + 5 * 4) * TINY["batch"] * TINY["sequence"]


def test_a_ramp_reads_the_same_text_as_full_batches(job):
    """Two steps of one micro-batch and one of two see the sequences that two steps of two see."""
    text = np.frombuffer(prose(4000), dtype=np.uint8)
    ramp, full = (loop.Batches(text, order=1, sequence=16, batch=4) for _ in range(2))
    rows = [ramp.next(size=size)[0] for size in (1, 1, 2)]
    assert torch.equal(torch.cat(rows), torch.cat([full.next(size=2)[0] for _ in range(2)]))


def test_the_learning_rate_of_a_smaller_batch_is_smaller_by_the_power(job):
    first = {}
    for power in (0.0, 0.5):
        result, _ = run({**job, "steps": 2}, accumulate=4, ramp1_until=1.0, ramp_lr=power, optimizer="muon", warmup=0.0)
        first[power] = result.curves["loss"][1][2]
    unscaled, _ = run({**job, "steps": 2}, accumulate=4, ramp1_until=1.0, ramp_lr=0.0, optimizer="muon", warmup=0.0)
    assert first[0.0] == unscaled.curves["loss"][1][2] != first[0.5]


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_warm_up_leaves_no_trace_of_phases_and_average(job, optimizer):
    changes = {
        "optimizer": optimizer,
        "accumulate": 2,
        "ramp1_until": 0.5,
        "ema": 0.5,
        "ema_every": 2,
        "ema_blend": 0.5,
    }
    hashes = {run(with_warmup(job, n), **changes)[0].weights_sha256 for n in (0, 1, 5)}
    assert len(hashes) == 1


def test_an_average_of_weight_nothing_changes_nothing(job):
    plain, _ = run(job)
    assert run(job, ema=0.9, ema_every=1, ema_blend=0.0)[0].weights_sha256 == plain.weights_sha256
    assert run(job, ema=0.9, ema_every=1000)[0].weights_sha256 == plain.weights_sha256
    assert run(job, ema=0.9, ema_every=1)[0].weights_sha256 != plain.weights_sha256


def test_on_a_virtual_clock_every_machine_makes_the_same_steps(job):
    times = {"1": 0.5, "2": 1.0}
    virtual = {**job, "steps": None, "budget_s": 12.0, "step_times_s": times}
    first, second = (run(virtual, accumulate=2, ramp1_until=0.25)[0] for _ in range(2))
    assert first.weights_sha256 == second.weights_sha256
    assert {phase: t["count"] for phase, t in first.step_times.items()} == {"1": 6, "2": 8}
    assert first.clock.train_charged_s < 12.0  # what it took here is measured all the same
    walked = walk(contest.load("laptop"), {**job["knobs"], "accumulate": 2, "ramp1_until": 0.25}, times, budget_s=12.0)
    assert (walked.steps, walked.tokens) == (first.steps, first.tokens)


def test_the_weights_are_saved_as_plain_arrays(job, tmp_path):
    result, _ = run({**job, "save_to": str(tmp_path / "weights.npz")})
    with np.load(tmp_path / "weights.npz", allow_pickle=False) as saved:
        assert sum(array.size for array in saved.values()) == result.parameters
        assert {array.dtype for array in saved.values()} == {np.dtype("float32")}


@pytest.mark.parametrize("charged", [True, False])
def test_the_save_is_charged_if_the_policy_says_so(job, tmp_path, charged, monkeypatch):
    def save(*_):
        until_s = time.process_time() + 0.05
        while time.process_time() < until_s:
            pass

    monkeypatch.setattr(loop.checkpoint, "save", save)
    clock = {**job["clock"], "charged": ["save"] if charged else []}
    result, events = run({**job, "clock": clock, "save_to": str(tmp_path / "weights.npz")})
    assert result.clock.save_s >= 0.05
    at_the_end_s = next(event["charged_s"] for event in reversed(events) if event["event"] == "score")
    assert (at_the_end_s - result.clock.train_charged_s >= 0.05) is charged


def test_a_virtual_clock_ends_where_only_steps_count(job):
    virtual = {**job, "clock": {**job["clock"], "counts": "steps"}, "steps": None, "budget_s": 3.0}
    result, _ = run({**virtual, "step_times_s": {"1": 0.5}})
    assert result.steps == 5


def test_a_recipe_that_compiles_and_compiled_nothing_is_no_result(job, monkeypatch):
    monkeypatch.setattr(loop.Ledger, "wrap", lambda self, name, function: function)
    with pytest.raises(RunError, match="nothing was compiled"):
        run(job, torch_compile=True)
