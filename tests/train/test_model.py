"""The model predicts uniformly before training, never looks ahead, and counts its parameters."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from tiny_jobs import DEFAULTS, knobs

from ffsim.train.job import Knobs
from ffsim.train.model import ACTIVATIONS, GPT, rms_norm, rotary_table, rotate


def trained_looking(model, seed=0):
    """Weights without the zeros of the initialisation, so that every path carries a signal."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.3, generator=generator)
    return model


def test_the_default_recipe_has_131072_parameters():
    width, vocabulary, layers, multiple = 64, 256, 2, 4
    embedding = vocabulary * width  # 16384
    attention = 3 * width * width + width * width  # 12288 + 4096
    mlp = 2 * width * multiple * width  # 32768
    head = width * vocabulary  # 16384
    assert embedding + layers * (attention + mlp) + head == 131_072
    assert sum(parameter.numel() for parameter in GPT(Knobs(**DEFAULTS), seed=1).parameters()) == 131_072


def test_a_tied_head_has_no_parameters_of_its_own():
    assert sum(p.numel() for p in GPT(Knobs(**{**DEFAULTS, "tied_head": True}), seed=1).parameters()) == 114_688


def test_an_untrained_model_predicts_uniformly():
    logits = GPT(knobs(), seed=1)(torch.arange(16)[None])
    assert torch.equal(logits, torch.zeros(1, 16, 256))


@pytest.mark.parametrize(("rope", "qk_norm", "tied_head"), list(itertools.product([True, False], repeat=3)))
def test_a_later_byte_never_changes_an_earlier_prediction(rope, qk_norm, tied_head):
    model = trained_looking(GPT(knobs(layers=2, rope=rope, qk_norm=qk_norm, tied_head=tied_head), seed=1))
    tokens = torch.randint(0, 256, (2, 16), generator=torch.Generator().manual_seed(5))
    before = model(tokens)
    for position in range(1, 16):
        changed = tokens.clone()
        changed[:, position:] = (changed[:, position:] + 1) % 256
        after = model(changed)
        torch.testing.assert_close(after[:, :position], before[:, :position], rtol=0, atol=1e-5)
        assert not torch.allclose(after[:, position], before[:, position])


def test_without_rotary_positions_the_order_of_earlier_bytes_is_invisible_to_one_block():
    swapped = torch.tensor([[1, 2, 3, 4], [2, 1, 3, 4]])
    for rope in (False, True):
        rows = trained_looking(GPT(knobs(rope=rope), seed=1))(swapped)[:, -1]
        assert torch.allclose(*rows, atol=1e-4) is not rope


def test_a_shorter_context_gives_the_same_predictions():
    model = trained_looking(GPT(knobs(), seed=1))
    tokens = torch.arange(16)[None]
    torch.testing.assert_close(model(tokens)[:, :5], model(tokens[:, :5]), rtol=0, atol=1e-5)


def test_the_seed_alone_decides_the_initial_weights():
    torch.manual_seed(1)
    first = GPT(knobs(), seed=7).state_dict()
    torch.manual_seed(2)
    second, third = GPT(knobs(), seed=7).state_dict(), GPT(knobs(), seed=8).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["embedding"], third["embedding"])


def test_the_rotary_table_is_no_part_of_the_weights():
    assert "rotation" not in GPT(knobs(), seed=1).state_dict()


def test_rms_norm_is_that_of_torch_and_so_is_its_gradient():
    x = torch.randn(5, 7, 16, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(rms_norm(x), F.rms_norm(x, (16,)), rtol=1e-5, atol=1e-5)
    assert torch.autograd.gradcheck(rms_norm, (x[:2, :2],), atol=1e-5)


def test_rms_norm_of_zeros_is_zero():
    x = torch.zeros(2, 8, requires_grad=True)
    rms_norm(x).sum().backward()
    assert torch.isfinite(x.grad).all()


def test_squared_relu_is_that_of_torch_and_so_is_its_gradient():
    x = torch.randn(40, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(ACTIVATIONS["relu2"](x), F.relu(x).square())
    assert torch.autograd.gradcheck(ACTIVATIONS["relu2"], (x,))


def test_rotation_keeps_lengths_and_makes_products_depend_on_distance_only():
    q, k = torch.randn(2, 1, 1, 1, 8).expand(2, 1, 12, 1, 8)
    table = rotary_table(12, 8)
    rotated_q, rotated_k = rotate(q.contiguous(), table)[0, :, 0], rotate(k.contiguous(), table)[0, :, 0]
    torch.testing.assert_close(rotated_q.norm(dim=-1), q[0, :, 0].norm(dim=-1))
    products = rotated_q @ rotated_k.T
    for distance in range(-11, 12):
        diagonal = products.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=0, atol=1e-4)
