"""Batches are the same everywhere, windows score every byte once, wrong texts are refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_jobs import write_text

from ffsim.errors import RunError
from ffsim.train.corpus import Batches, load_text, scoring_windows
from ffsim.train.job import Text


def counting_text(n_bytes):
    return (np.arange(n_bytes) % 251).astype(np.uint8)


@given(st.integers(2, 3000), st.integers(1, 300))
def test_every_byte_but_the_first_is_a_target_exactly_once(n_bytes, sequence):
    text = counting_text(n_bytes)
    windows = list(scoring_windows(text, sequence))
    targets = torch.cat([y.flatten() for _, y in windows])
    inputs = torch.cat([x.flatten() for x, _ in windows])
    assert targets.tolist() == text[1:].tolist()
    assert inputs.tolist() == text[:-1].tolist()
    assert all(x.shape == y.shape and x.shape[1] <= sequence for x, y in windows)


@given(st.integers(20, 400), st.integers(1, 16), st.integers(1, 9), st.integers(0, 5))
def test_targets_are_the_bytes_after_the_inputs(n_bytes, sequence, batch, order):
    text = np.random.RandomState(order).randint(0, 256, n_bytes).astype(np.uint8)
    source = Batches(text, order=order, sequence=sequence, batch=batch)
    whole = text.tobytes()
    for _ in range(4):
        x, y = source.next()
        assert x.shape == y.shape == (batch, sequence)
        assert x.dtype == torch.int64
        assert torch.equal(x[:, 1:], y[:, :-1])
        for first, row in zip(x[:, :1], y, strict=True):
            assert bytes([*first.tolist(), *row.tolist()]) in whole


def test_an_epoch_sees_no_position_twice():
    text = np.arange(256, dtype=np.uint8)
    source = Batches(text, order=3, sequence=5, batch=1)
    n_windows = (256 - 1) // 5 - 1  # whatever the offset, an epoch has at least these
    seen = list(itertools.chain.from_iterable(source.next()[0].flatten().tolist() for _ in range(n_windows)))
    assert len(seen) == len(set(seen))


def test_epochs_differ_in_order_and_offset():
    text = np.arange(256, dtype=np.uint8)
    source = Batches(text, order=1, sequence=64, batch=3)
    firsts = {tuple(sorted(source.next()[0][:, 0].tolist())) for _ in range(8)}
    assert len(firsts) == 8


def test_batches_are_determined_by_the_order():
    text = counting_text(5000)
    a, b, c = (Batches(text, order=order, sequence=16, batch=4) for order in (1, 1, 2))
    drawn = [[source.next()[0] for _ in range(90)] for source in (a, b, c)]
    assert all(torch.equal(x, y) for x, y in zip(drawn[0], drawn[1], strict=True))
    assert not all(torch.equal(x, y) for x, y in zip(drawn[0], drawn[2], strict=True))


def test_batches_are_those_of_every_other_machine():
    source = Batches(np.arange(256, dtype=np.uint8), order=1, sequence=16, batch=4)
    assert source.next()[0][:, 0].tolist() == KNOWN_STARTS


KNOWN_STARTS = [143, 31, 223, 63]


def test_a_text_shorter_than_a_sequence_is_refused():
    with pytest.raises(RunError, match="17"):
        Batches(counting_text(16), order=1, sequence=16, batch=1)
    Batches(counting_text(17), order=1, sequence=16, batch=1).next()


def test_the_right_text_is_loaded(tmp_path):
    assert load_text(Text(**write_text(tmp_path / "t", b"abc"))).tolist() == list(b"abc")


@pytest.mark.parametrize(
    ("change", "word"),
    [({"sha256": "0" * 64}, "sha256"), ({"bytes": 4}, "3 bytes"), ({"path": "/nowhere/t"}, "cannot be read")],
)
def test_a_wrong_text_is_refused(tmp_path, change, word):
    with pytest.raises(RunError, match=word):
        load_text(Text(**{**write_text(tmp_path / "t", b"abc"), **change}))


@pytest.mark.parametrize("content", [b"", b"a"])
def test_a_text_with_nothing_to_predict_is_refused(tmp_path, content):
    with pytest.raises(RunError, match="at least 2"):
        load_text(Text(**write_text(tmp_path / "t", content)))
