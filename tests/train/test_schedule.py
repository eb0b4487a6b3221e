"""Properties of the learning-rate schedule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffsim.train.schedule import COOLDOWN_SHAPES, WARMUP_FLOOR, lr_multiplier

fractions = st.floats(0.0, 1.0)
shapes = st.sampled_from(sorted(COOLDOWN_SHAPES))


def at(fraction, warmup=0.05, cooldown=0.4, shape="linear"):
    return lr_multiplier(fraction, warmup=warmup, cooldown=cooldown, cooldown_shape=shape)


@given(st.floats(-1.0, 2.0), st.floats(0.0, 0.5), fractions, shapes)
def test_it_stays_between_zero_and_one(fraction, warmup, cooldown, shape):
    assert 0.0 <= at(fraction, warmup, cooldown, shape) <= 1.0


@given(st.floats(0.0, 0.5), fractions, shapes)
def test_the_first_step_is_never_spent_on_nothing(warmup, cooldown, shape):
    assert at(0.0, warmup, cooldown, shape) >= WARMUP_FLOOR


@given(st.floats(0.01, 1.0), st.floats(0.0, 0.5), shapes)
def test_a_cooldown_ends_at_zero(cooldown, warmup, shape):
    assert at(1.0, warmup, cooldown, shape) == 0.0


@given(fractions, fractions, st.floats(0.0, 0.5), st.floats(0.0, 0.5), shapes)
def test_it_rises_before_the_middle_and_falls_after_it(one, other, warmup, cooldown, shape):
    early, late = sorted((one, other))
    if late <= 0.5:
        assert at(early, warmup, cooldown, shape) <= at(late, warmup, cooldown, shape)
    if early >= 0.5:
        assert at(early, warmup, cooldown, shape) >= at(late, warmup, cooldown, shape)


@pytest.mark.parametrize("shape", sorted(COOLDOWN_SHAPES))
def test_it_is_constant_between_warmup_and_cooldown(shape):
    assert [at(fraction, shape=shape) for fraction in (0.05, 0.3, 0.6)] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(("shape", "half_way"), [("linear", 0.5), ("cosine", 0.5), ("one_minus_sqrt", 0.2928932)])
def test_known_values_half_way_through_the_cooldown(shape, half_way):
    assert at(0.8, shape=shape) == pytest.approx(half_way)


def test_without_warmup_and_cooldown_nothing_changes():
    assert [at(fraction, 0.0, 0.0) for fraction in (0.0, 0.5, 1.0)] == [1.0, 1.0, 1.0]
