"""The models: known answers, held-out honesty, files without pickles."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import factories
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student

from ffsim import evaluate, features, fit, forecast, metrics, models, predict, recipe, records
from ffsim.contest import Contest
from ffsim.errors import ModelError
from ffsim.linear import Linear
from ffsim.oracle import MeanOffset
from ffsim.project import Project
from ffsim.quality import QualityModel
from ffsim.steps import StepModel

# Offsets of seven uploads of the published Trainium campaign ("Rehearse, Don't Guess", Zenodo
# 10.5281/zenodo.24015046) have mean +0.00653 and SD 0.00042; these are made to have just that.
OFFSETS = [0.00653 + 0.00042 * z for z in (-1.2, -0.8, -0.4, 0.0, 0.4, 0.8, 1.2)]


def _runs(contest: Contest, n: int = 24, noise: float = 0.005, seed: int = 1) -> list[records.Run]:
    """Runs of a known truth: 2.7 - 0.2 ln(steps / 800), Muon 0.1 better and 10 % slower."""
    rng = random.Random(seed)
    made = []
    for i in range(n):
        muon, width = i % 2 == 0, [16, 24, 32][i % 3]
        step_s = contest.budget_s / 800 * (1.1 if muon else 1.0) * (width / 16) * math.exp(rng.gauss(0, 0.01))
        steps = int(contest.budget_s / step_s)
        bpb = 2.7 - 0.2 * math.log(steps / 800) - 0.1 * muon - 0.05 * math.log2(width / 16) + rng.gauss(0, noise)
        knobs = {"optimizer": "muon" if muon else "adamw", "width": width}
        run = factories.run(contest, f"r{i:02d}", bpb=bpb, steps=steps, knobs=knobs, seed=i)
        made.append(records.run_from(run, where="x"))
    return made


def _uploads(
    contest: Contest, runs: list[records.Run], offset: float = 0.03, sd: float = 0.002
) -> list[records.Upload]:
    rng = random.Random(2)
    return [
        records.upload_from(
            factories.upload(
                contest, f"u{i}", records.as_json(run), run.scores["public"].bpb + offset + rng.gauss(0, sd)
            ),
            where="x",
        )
        for i, run in enumerate(runs[:6])
    ]


def test_a_feature_is_zero_at_the_default_and_one_unit_off_it(laptop: Contest) -> None:
    at_default = features.of(laptop.knobs, laptop.knobs.defaults(), "value")
    assert set(at_default.values()) == {0.0}
    moved = laptop.knobs.defaults() | {"width": 128, "optimizer": "muon", "rope": False, "lr": 0.005, "beta1": 0.95}
    changed = {k: v for k, v in features.of(laptop.knobs, moved, "value").items() if v}
    assert changed == pytest.approx(
        {"width": 1.0, "optimizer=muon": 1.0, "rope": 1.0, "lr": -1.0, "lr^2": 1.0, "beta1": 1.0}
    )
    assert "lr" not in features.of(laptop.knobs, moved, "steps")


def test_the_linear_model_finds_a_known_truth_and_is_as_sure_as_it_should_be() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4200, 3))
    y = 1.0 + x @ [0.5, -0.2, 0.0] + rng.normal(scale=0.1, size=4200)
    rows = [dict(zip("abc", row, strict=True)) for row in x]
    model = Linear.fit(rows[:200], y[:200].tolist(), ["a", "b", "c"])
    assert model.coefficients == pytest.approx([0.5, -0.2, 0.0], abs=0.03)
    mean, sd = model.predict(rows[200:])
    z = (y[200:] - mean) / sd
    assert 0.9 < float(z.std()) < 1.1


def test_without_features_it_is_the_mean_and_the_standard_deviation() -> None:
    model = Linear.fit([{}, {}, {}], [1.0, 2.0, 3.0], [])
    mean, sd = model.predict([{}])
    assert float(mean[0]) == 2.0
    assert float(sd[0]) == pytest.approx(math.sqrt(1.0 * (1 + 1 / 3)))


def test_one_run_is_no_data() -> None:
    with pytest.raises(ModelError, match="at least 2"):
        Linear.fit([{"a": 1.0}], [1.0], ["a"])


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=30))
def test_the_offset_is_the_t_interval_of_the_textbook(offsets: list[float]) -> None:
    oracle = MeanOffset.fit(offsets)
    n, mean, sd = len(offsets), float(np.mean(offsets)), float(np.std(offsets, ddof=1))
    forecast = oracle.forecast(2.5)
    low, high = forecast.interval(0.8)
    half = float(student.ppf(0.9, n - 1)) * sd * math.sqrt(1 + 1 / n)
    assert forecast.bpb == pytest.approx(2.5 + mean, abs=1e-9)
    assert (low, high) == pytest.approx((2.5 + mean - half, 2.5 + mean + half), abs=1e-9)


def test_known_answer_of_the_published_campaign() -> None:
    oracle = MeanOffset.fit(OFFSETS)
    assert oracle.mean_bpb == pytest.approx(0.00653, abs=1e-9)
    assert oracle.sd_bpb == pytest.approx(float(np.std(OFFSETS, ddof=1)))
    assert oracle.forecast(0.9609).sd_bpb == pytest.approx(oracle.sd_bpb * math.sqrt(8 / 7))


def test_simulated_runs_give_back_their_truth(project: Project) -> None:
    contest = project.contest()
    runs = _runs(contest, 60)
    steps, quality = StepModel.fit(contest, runs), QualityModel.fit(contest, runs)
    knobs = contest.knobs.defaults() | {"optimizer": "muon", "width": 24}
    predicted, _ = steps.steps(contest, knobs, runs[0].host.block, contest.budget_s)
    assert predicted == pytest.approx(800 / 1.1 / 1.5, rel=0.02)
    mean, sd = quality.predict(contest, knobs, predicted)
    assert mean == pytest.approx(2.7 - 0.2 * math.log(predicted / 800) - 0.1 - 0.05 * math.log2(1.5), abs=0.01)
    assert 0.003 < sd < 0.01


def test_official_runs_never_enter_a_fit(project: Project) -> None:
    contest = project.contest()
    runs = _runs(contest)
    poison = records.run_from(factories.run(contest, "off", kind="official", bpb=9.0), where="x")
    a, b = QualityModel.fit(contest, [*runs, poison]).linear, QualityModel.fit(contest, runs).linear
    assert a.to_dict() == b.to_dict()
    assert StepModel.fit(contest, runs).linear.n_rows == len(runs)
    assert fit.fit(contest, [*runs, poison], []).steps.linear.n_rows == len(runs)  # type: ignore[union-attr]


def test_an_upload_is_predicted_without_its_own_score(project: Project) -> None:
    contest = project.contest()
    runs = _runs(contest)
    uploads = _uploads(contest, runs)
    before = predict.uploads(contest, runs, uploads, 0.8)["u0"]
    moved = records.upload_from(
        factories.changed(records.as_json(uploads[0]), {"official__bpb": uploads[0].official.bpb + 1.0}),  # type: ignore[operator]
        where="x",
    )
    after = predict.uploads(contest, runs, [moved, *uploads[1:]], 0.8)["u0"]
    assert after.predicted_bpb == before.predicted_bpb
    assert after.from_recipe_bpb == before.from_recipe_bpb
    assert after.error_bpb == pytest.approx((before.error_bpb or 0) + 1.0)


def test_predictions_say_why_there_is_none(project: Project) -> None:
    contest = project.contest()
    runs = _runs(contest)
    uploads = _uploads(contest, runs)[:1]
    assert "at least 2" in (predict.uploads(contest, runs, uploads, 0.8)["u0"].reason or "")
    lost = predict.uploads(contest, runs[1:], _uploads(contest, runs), 0.8)["u0"]
    assert "not among the runs that count" in (lost.reason or "")
    fitted = fit.fit(contest, runs, _uploads(contest, runs))
    crashed = records.run_from(factories.run(contest, "c", status="crashed", scores={}), where="x")
    result = predict.predict(contest, fitted, crashed, 0.8)
    assert (result.predicted_bpb, result.from_recipe_bpb is not None) == (None, True)


def test_a_waiting_upload_is_predicted_from_the_others(project: Project) -> None:
    contest = project.contest()
    runs = _runs(contest)
    uploads = _uploads(contest, runs)
    waiting = records.upload_from(factories.upload(contest, "w", records.as_json(runs[10]), None), where="x")
    result = predict.uploads(contest, runs, [*uploads, waiting], 0.8)["w"]
    assert result.official_bpb is None
    assert result.error_bpb is None
    assert result.predicted_bpb == pytest.approx(runs[10].scores["public"].bpb + 0.03, abs=0.003)
    assert (result.low_bpb or 0) < result.predicted_bpb < (result.high_bpb or 9)  # type: ignore[operator]


def test_evaluation_stands_beside_baselines_and_the_noise_floor(project: Project) -> None:
    contest = project.contest()
    runs = _runs(contest, 48)
    result = evaluate.evaluate(contest, runs, _uploads(contest, runs))
    quality = result["quality"]["leave_one_recipe_out"]
    assert quality["surrogate"]["n"] == quality["from_recipe"]["n"] == 48
    assert quality["from_recipe"]["mae"] != quality["surrogate"]["mae"]
    assert quality["surrogate"]["mae"] < quality["mean"]["mae"]
    assert 0.003 < result["noise"]["sd_bpb"] < 0.008
    assert result["oracle"]["leave_one_upload_out"]["mae"] < 0.005
    assert result["oracle"]["leave_one_upload_out"]["mae_zero_offset"] > 0.02


def test_an_empty_contest_is_evaluated_with_reasons(project: Project) -> None:
    result = evaluate.evaluate(project.contest(), [], [])
    assert result["quality"]["leave_one_run_out"]["surrogate"]["reason"] == "no runs"
    assert result["noise"]["reason"] == "no recipe was run twice"
    assert "leaving one out needs 3" in result["oracle"]["leave_one_upload_out"]["reason"]


def test_models_survive_their_file_and_a_damaged_one_is_refused(project: Project) -> None:
    contest = project.contest()
    runs = _runs(contest)
    fitted = fit.fit(contest, runs, _uploads(contest, runs))
    path = models.save(project, contest, fitted)
    loaded = models.load(project, contest)
    simulated = predict.simulate(contest, loaded, dict(runs[0].knobs), runs[0].host.block)
    assert simulated == predict.simulate(contest, fitted, dict(runs[0].knobs), runs[0].host.block)
    assert loaded.oracle == fitted.oracle

    document = json.loads(path.read_text())

    def refused(change: Any, words: str) -> None:
        broken = json.loads(json.dumps(document))
        change(broken)
        path.write_text(json.dumps(broken))
        with pytest.raises(ModelError, match=words):
            models.load(project, contest)

    refused(lambda d: d["parts"]["oracle"].update(mean_bpb=0.5), "changed after it was written")
    refused(lambda d: d["manifest"].update(contest="other"), "of other")
    refused(lambda d: d.pop("parts"), "damaged")
    path.write_text("{")
    with pytest.raises(ModelError, match="damaged"):
        models.load(project, contest)
    path.unlink()
    with pytest.raises(ModelError, match="dvc repro"):
        models.load(project, contest)


def test_the_data_hash_ignores_order_and_sees_every_change(project: Project) -> None:
    contest = project.contest()
    runs = _runs(contest, 4)
    assert models.hash_of_data(runs, []) == models.hash_of_data(runs[::-1], [])
    assert models.hash_of_data(runs, []) != models.hash_of_data(runs[1:], [])


def test_metrics_hold_no_nan_and_six_digits() -> None:
    assert metrics.rounded({"a": float("nan"), "b": [1 / 3, -0.0000001], "c": {"d": True, "e": 3, "f": None}}) == {
        "a": None,
        "b": [0.333333, 0.0],
        "c": {"d": True, "e": 3, "f": None},
    }


def test_a_recipe_without_a_run_is_simulated_and_unknown_knobs_are_named(project: Project) -> None:
    contest = project.contest()
    runs = _runs(contest)
    for run in runs:
        factories.write(project.folder("runs", "mini") / f"{run.run_id}.json", records.as_json(run))
    models.save(project, contest, fit.fit(contest, runs, _uploads(contest, runs)))
    wide = recipe.make(contest, "wide", {"optimizer": "muon", "width": 32, "rope": False})
    simulated = forecast.recipe(project, contest, wide, 0.8)
    assert simulated.steps == pytest.approx(800 / 1.1 / 2, rel=0.05)
    assert simulated.official_bpb == pytest.approx(simulated.rehearsal_bpb + 0.03, abs=0.003)
    assert (simulated.low_bpb or 0) < (simulated.official_bpb or 0) < (simulated.high_bpb or 0)
    assert simulated.never_varied == ("rope",)
    assert forecast.run(project, contest, "r00", 0.8).rehearsal_bpb == runs[0].scores["public"].bpb
    with pytest.raises(ModelError, match="at least 2"):
        models.save(project, contest, fit.fit(contest, [], []))
        forecast.recipe(project, contest, wide, 0.8)


def test_a_simulated_score_is_as_sure_as_its_parts() -> None:
    """Two errors added: the few degrees of freedom of a small offset must not widen a large normal error."""
    low, high = MeanOffset(0.0, 0.001, 2).forecast(2.5, 0.02).interval(0.8)
    assert (high - low) / 2 == pytest.approx(1.2816 * 0.02, rel=0.02)
    same = MeanOffset(0.0, 0.001, 5)
    assert same.forecast(2.5, 1e-9).interval(0.8) == pytest.approx(same.forecast(2.5).interval(0.8))


def test_nothing_of_an_upload_is_in_the_models_that_predict_it(project: Project) -> None:
    """Its rehearsal's steps and score, and its official score, changed at will: the simulated part stays."""
    contest = project.contest()
    runs = _runs(contest)
    uploads = _uploads(contest, runs)
    before = predict.uploads(contest, runs, uploads, 0.8)["u0"].from_recipe_bpb
    odd = records.run_from(
        factories.run(contest, "r00", bpb=3.5, steps=200, knobs=dict(runs[0].knobs), seed=0), where="x"
    )
    assert predict.uploads(contest, [odd, *runs[1:]], uploads, 0.8)["u0"].from_recipe_bpb == before


def test_a_faster_trainer_moves_steps_and_not_what_a_step_is_worth(laptop: Contest) -> None:
    """Runs of two trainer versions: the younger is a fifth faster; each is predicted at its own speed."""
    older, younger = laptop.trainers.versions[0], laptop.trainers.latest
    runs = factories.campaign(laptop, n=30)
    slow = [msgspec.structs.replace(run, trainer_version=older) for run in runs[:15]]
    fast = [
        msgspec.structs.replace(
            run, step_times={p: msgspec.structs.replace(t, mean_s=t.mean_s / 1.2) for p, t in run.step_times.items()}
        )
        for run in runs[15:]
    ]
    model = StepModel.fit(laptop, slow + fast)
    block, knobs = runs[0].host.block, laptop.knobs.defaults()
    seconds = {version: model.step_time(laptop, knobs, block, version)[0] for version in (older, younger)}
    assert seconds[older] / seconds[younger] == pytest.approx(1.2, rel=0.05)
    assert model.step_time(laptop, knobs, block)[0] == seconds[younger]
