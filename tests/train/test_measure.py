"""Curves keep their ends, summaries add up, hashes see names and values."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from ffsim.train.measure import Log, peak_memory_bytes, summary, thinned, weights_sha256


@given(st.integers(0, 1000), st.integers(2, 120))
def test_a_thinned_curve_keeps_its_ends_and_its_order(n_rows, n_points):
    rows = [[float(i), 0.1 * i, 2.0] for i in range(n_rows)]
    kept = thinned(rows, n_points)
    assert len(kept) == min(n_rows, n_points)
    assert [row[0] for row in kept] == sorted({row[0] for row in kept})
    assert kept[:1] == rows[:1]
    assert kept[-1:] == rows[-1:]


@given(st.lists(st.floats(1e-4, 10.0), min_size=1, max_size=200))
def test_count_times_mean_is_the_sum(step_seconds):
    times = summary(step_seconds)
    assert times["count"] * times["mean_s"] == pytest.approx(math.fsum(step_seconds))
    assert min(step_seconds) <= times["median_s"] <= times["p95_s"] <= max(step_seconds)


def test_events_come_about_twice_a_second_and_never_miss_the_last_step():
    events = []
    log = Log(events.append, None)
    for step in range(1, 101):
        log.step(step, 0.1 * step, step / 100, 2.0, 0.0)
    log.last_step()
    log.last_step()
    steps = [event["step"] for event in events]
    assert steps[:3] == [1, 2, 3]
    assert steps[-1] == 100
    assert len(steps) == len(set(steps)) <= 3 + 20 + 1


def test_the_hash_of_weights_sees_values_and_names():
    class One(nn.Module):
        def __init__(self, name, value):
            super().__init__()
            self.register_parameter(name, nn.Parameter(torch.full((2, 2), value)))

    hashes = [weights_sha256(One(*of)) for of in (("a", 1.0), ("a", 1.0), ("b", 1.0), ("a", 2.0))]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3


def test_peak_memory_is_in_bytes():
    assert 10 * 2**20 < peak_memory_bytes() < 2**40
