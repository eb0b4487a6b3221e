"""A job that does not hold together is refused by name before anything runs."""

from __future__ import annotations

import copy
import dataclasses
import subprocess
import sys

import pytest
from tiny_jobs import DEFAULTS

from ffsim import contest
from ffsim.errors import ContestError, RunError
from ffsim.train.job import Job, Knobs


def test_the_trainer_knows_exactly_the_knobs_of_its_contests():
    lane = set(contest.load("laptop-compile").knobs.names)
    assert {field.name for field in dataclasses.fields(Knobs)} == lane
    assert lane - set(DEFAULTS) == {"torch_compile", "prewarm"}


def test_a_knob_that_came_later_may_be_missing_and_means_as_before(job):
    later = {f.name: f.default for f in dataclasses.fields(Knobs) if f.default is not dataclasses.MISSING}
    older = {name: value for name, value in job["knobs"].items() if name not in later}
    assert later
    assert Job.from_dict({**job, "knobs": older}).knobs == Job.from_dict(job).knobs
    assert {name: contest.load("laptop-compile").knobs[name].default for name in later} == later


def test_a_job_is_read_from_json(job):
    read = Job.from_dict({**job, "budget_s": 20, "curve_text": "public", "curve_at": [0.5]})
    assert read.knobs.lr == 0.01
    assert type(read.budget_s) is float
    assert read.curve_at == (0.5,)
    assert read.score_texts["public"].bytes == 501


@pytest.mark.parametrize(
    ("path", "value", "word"),
    [
        ("knobs.leraning_rate", 0.1, "leraning_rate"),
        ("knobs.layers", 2.0, "layers"),
        ("knobs.layers", 0, "layers"),
        ("knobs.rope", 1, "rope"),
        ("knobs.lr", "0.01", "lr"),
        ("knobs.lr", float("nan"), "lr"),
        ("knobs.lr", float("inf"), "lr"),
        ("knobs.activation", "tanh", "activation"),
        ("knobs.dtype", "float16", "dtype"),
        ("knobs.width", 20, "whole heads"),
        ("knobs.head_dim", 1, "whole heads"),
        ("knobs", [], "knobs"),
        ("budget", 20.0, "budget"),
        ("budget_s", -1.0, "budget_s"),
        ("steps", 0, "steps"),
        ("steps", None, "neither"),
        ("seed", -1, "seed"),
        ("seed", 2**63, "seed"),
        ("train_text", "a.txt", "train_text"),
        ("train_text.size", 1, "size"),
        ("score_texts.public.bytes", "1", "bytes"),
        ("curve_text", "hidden", "hidden"),
        ("curve_at", [1.0], "curve_at"),
        ("curve_at", ["x"], "curve_at"),
        ("curve_at", 0.5, "curve_at"),
    ],
)
def test_a_wrong_job_is_refused_by_name(job, path, value, word):
    wrong = copy.deepcopy(job)
    *parents, key = path.split(".")
    section = wrong
    for parent in parents:
        section = section[parent]
    section[key] = value
    with pytest.raises(RunError, match=word):
        Job.from_dict(wrong)


@pytest.mark.parametrize("key", ["knobs", "seed", "clock", "steps", "device", "curve_at"])
def test_an_incomplete_job_is_refused_by_name(job, key):
    del job[key]
    with pytest.raises(RunError, match=key):
        Job.from_dict(job)


def test_a_missing_knob_is_not_filled_in(job):
    del job["knobs"]["clip"]
    with pytest.raises(RunError, match="clip"):
        Job.from_dict(job)


def test_a_wrong_clock_policy_is_refused(job):
    with pytest.raises(ContestError, match="time"):
        Job.from_dict({**job, "clock": {**job["clock"], "time": "sundial"}})


def test_jobs_and_the_trainer_version_are_read_without_torch():
    code = "import sys, ffsim.train, ffsim.train.job; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
