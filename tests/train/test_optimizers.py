"""Muon orthogonalises, optimizers forget, limits hold."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_jobs import knobs

from ffsim.train.model import GPT
from ffsim.train.optimizers import ADAM_EPSILON, Muon, Optimizer, orthogonalise


def model_and_optimizer(**changes):
    recipe = knobs(**changes)
    model = GPT(recipe, seed=1)
    return model, Optimizer(model, recipe)


def fill_gradients(model, size=1.0, seed=3):
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = size * torch.randn(parameter.shape, generator=generator)


def weights(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


@given(st.integers(2, 40), st.integers(0, 60), st.integers(0, 10_000), st.floats(1e-6, 1e6))
@settings(max_examples=40, deadline=None)
def test_orthogonalised_singular_values_are_near_one(rows, extra_columns, seed, size):
    # A random matrix that is not square is well conditioned; a square one may have a singular value near 0.
    matrix = torch.randn(3, rows, 2 * rows + extra_columns, generator=torch.Generator().manual_seed(seed))
    singular = torch.linalg.svdvals(orthogonalise(size * matrix))
    assert singular.min() > 0.6
    assert singular.max() < 1.3


def test_orthogonalising_keeps_the_singular_vectors():
    matrix = torch.randn(1, 8, 24, generator=torch.Generator().manual_seed(1))
    u, _, vh = torch.linalg.svd(matrix, full_matrices=False)
    diagonal = u.mT @ orthogonalise(matrix) @ vh.mT
    torch.testing.assert_close(diagonal, torch.diag_embed(diagonal.diagonal(dim1=1, dim2=2)), rtol=0, atol=1e-4)


def test_orthogonalising_nothing_gives_nothing():
    assert torch.equal(orthogonalise(torch.zeros(2, 4, 4)), torch.zeros(2, 4, 4))


def test_queries_keys_and_values_are_orthogonalised_one_by_one():
    recipe = knobs(optimizer="muon", weight_decay=0.0, momentum=0.0)
    width = recipe.width
    fused = torch.zeros(3 * width, width)
    gradient = torch.randn(fused.shape, generator=torch.Generator().manual_seed(1))
    gradient[:width] *= 1e-3  # small queries must not be drowned by large values
    Muon({"blocks.0.attention_in": fused}, recipe).update([gradient], None)
    expected = -recipe.muon_lr * orthogonalise(gradient.view(3, width, width)).flatten(0, 1)
    torch.testing.assert_close(fused, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("rows", "columns", "size"), [(64, 16, 2.0), (16, 64, 1.0), (16, 16, 1.0)])
def test_muon_scales_tall_matrices(rows, columns, size):
    recipe = knobs(optimizer="muon", weight_decay=0.0)
    matrix = torch.zeros(rows, columns)
    Muon({"mlp": matrix}, recipe).update([torch.eye(rows, columns)], None)
    typical = matrix.diagonal().abs().mean() / recipe.muon_lr
    assert 0.6 * size < typical < 1.3 * size


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_after_zeroing_the_state_a_step_is_a_first_step(optimizer):
    model, optim = model_and_optimizer(optimizer=optimizer)
    start = weights(model)
    fill_gradients(model)
    optim.step(1.0)
    first = weights(model)
    for seed in range(3):
        fill_gradients(model, seed=seed)
        optim.step(0.5)
    model.load_state_dict(start)
    optim.zero_state()
    fill_gradients(model)
    optim.step(1.0)
    again = weights(model)
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_adamw_is_that_of_torch():
    model, optim = model_and_optimizer(clip=1.0, weight_decay=0.1)
    twin, recipe = GPT(knobs(), seed=1), knobs()
    decayed = [parameter for name, parameter in twin.named_parameters() if name != "embedding"]
    groups = [{"params": [twin.embedding], "weight_decay": 0.0}, {"params": decayed, "weight_decay": 0.1}]
    theirs = torch.optim.AdamW(groups, lr=recipe.lr, betas=(recipe.beta1, recipe.beta2), eps=ADAM_EPSILON)
    for seed in range(4):
        for each in (model, twin):
            fill_gradients(each, seed=seed)
        torch.nn.utils.clip_grad_norm_(twin.parameters(), 1.0)
        theirs.step()
        optim.step(1.0)
    for name, tensor in weights(twin).items():
        torch.testing.assert_close(weights(model)[name], tensor, rtol=1e-5, atol=1e-6)


def test_both_updates_of_adamw_agree(monkeypatch):
    (fused, fused_optim), (plain, plain_optim) = model_and_optimizer(), model_and_optimizer()
    monkeypatch.setattr(plain_optim._parts[0], "_fused_update", plain_optim._parts[0]._plain_update)
    for seed in range(4):
        for model, optim in ((fused, fused_optim), (plain, plain_optim)):
            fill_gradients(model, seed=seed)
            optim.step(0.3 + 0.1 * seed)
    for name, tensor in weights(plain).items():
        torch.testing.assert_close(weights(fused)[name], tensor, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_step_allocates_no_state(optimizer):
    _, optim = model_and_optimizer(optimizer=optimizer)
    held = [dict(vars(part)) for part in optim._parts]
    for parameter in optim._parameters:
        parameter.grad = torch.ones_like(parameter)
    optim.step(1.0)
    for part, before in zip(optim._parts, held, strict=True):
        assert all(vars(part)[name] is value for name, value in before.items())
        assert vars(part).keys() == before.keys()


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_step_without_a_backward_pass_is_refused(optimizer):
    _, optim = model_and_optimizer(optimizer=optimizer)
    with pytest.raises(RuntimeError, match="backward pass"):
        optim.step(1.0)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_every_parameter_moves_and_a_scale_of_zero_moves_none(optimizer):
    model, optim = model_and_optimizer(optimizer=optimizer)
    start = weights(model)
    fill_gradients(model)
    optim.step(0.0)
    assert all(torch.equal(start[name], tensor) for name, tensor in weights(model).items())
    fill_gradients(model)
    optim.step(1.0)
    assert not any(torch.equal(start[name], tensor) for name, tensor in weights(model).items())
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_weight_decay_shrinks_matrices_but_not_the_embedding(optimizer):
    model, optim = model_and_optimizer(optimizer=optimizer, weight_decay=0.5)
    start = weights(model)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optim.step(1.0)
    recipe = knobs()
    lr = recipe.muon_lr if optimizer == "muon" else recipe.lr
    expected = start["blocks.0.mlp_in"] * (1.0 - 0.5 * lr)
    torch.testing.assert_close(model.state_dict()["blocks.0.mlp_in"], expected)
    assert torch.equal(model.embedding, start["embedding"])


@pytest.mark.parametrize(("clip", "limited"), [(1.0, True), (0.0, False)])
def test_the_gradient_norm_is_limited_unless_clip_is_zero(clip, limited):
    model, optim = model_and_optimizer(clip=clip)
    fill_gradients(model, size=100.0)
    gradients = [parameter.grad for parameter in model.parameters()]
    optim.step(1.0)
    norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
    assert (norm <= 1.001) == limited
