"""The passes by hand are the plain mathematics, gradients included."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from tiny_jobs import knobs

from ffsim.train import kernels
from ffsim.train.model import GPT, rotary_table, rotate


@pytest.fixture
def plain(monkeypatch):
    """A function that computes in plain operations."""

    def in_plain_operations(function):
        with monkeypatch.context() as patch:
            patch.setattr(kernels, "apply_to", lambda _: False)
            return function()

    return in_plain_operations


def trained_looking(**changes):
    model = GPT(knobs(layers=2, **changes), seed=1)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.3, generator=generator)
    return model


def loss_and_gradients(model, tokens, targets):
    loss = model.loss(tokens, targets)
    return loss, torch.autograd.grad(loss, list(model.parameters()))


def batch(n_rows, n_tokens):
    windows = torch.randint(0, 256, (n_rows, n_tokens + 1), generator=torch.Generator().manual_seed(3))
    return windows[:, :-1], windows[:, 1:]


@pytest.mark.parametrize("n_tokens", [1, 7, kernels.QUERIES, kernels.QUERIES + 1, 3 * kernels.QUERIES, 150])
@pytest.mark.parametrize("rope", [True, False])
def test_loss_and_gradients_are_those_of_plain_operations(plain, n_tokens, rope):
    model = trained_looking(rope=rope, sequence=n_tokens)
    tokens, targets = batch(3, n_tokens)
    loss, gradients = loss_and_gradients(model, tokens, targets)
    plain_loss, plain_gradients = plain(lambda: loss_and_gradients(model, tokens, targets))
    torch.testing.assert_close(loss, plain_loss, rtol=1e-6, atol=1e-6)
    for gradient, plain_gradient in zip(gradients, plain_gradients, strict=True):
        torch.testing.assert_close(gradient, plain_gradient, rtol=1e-4, atol=1e-6 * plain_gradient.abs().max().item())


@pytest.mark.parametrize(
    ("qk_norm", "tied_head", "activation"), list(itertools.product([True, False], [True, False], ["relu2", "gelu"]))
)
def test_every_kind_of_recipe_is_that_of_plain_operations(plain, qk_norm, tied_head, activation):
    model = trained_looking(qk_norm=qk_norm, tied_head=tied_head, activation=activation)
    tokens, targets = batch(2, 16)
    loss, gradients = loss_and_gradients(model, tokens, targets)
    plain_loss, plain_gradients = plain(lambda: loss_and_gradients(model, tokens, targets))
    torch.testing.assert_close(loss, plain_loss, rtol=1e-6, atol=1e-6)
    for gradient, plain_gradient in zip(gradients, plain_gradients, strict=True):
        torch.testing.assert_close(gradient, plain_gradient, rtol=1e-4, atol=1e-6 * plain_gradient.abs().max().item())
    torch.testing.assert_close(model(tokens), plain(lambda: model(tokens)), rtol=1e-5, atol=1e-5)


def test_long_sequences_attend_as_short_ones_do(monkeypatch):
    model, (tokens, _) = trained_looking(sequence=100), batch(2, 100)
    short = model(tokens)
    monkeypatch.setattr(kernels, "LONGEST_ATTENTION", 99)
    torch.testing.assert_close(model(tokens), short, rtol=1e-5, atol=1e-5)


def test_the_largest_possible_scores_are_no_overflow():
    x, rotation = torch.ones(1, 3, kernels.LARGEST_HEAD), None
    w_in, w_out = torch.ones(3 * kernels.LARGEST_HEAD, kernels.LARGEST_HEAD), torch.eye(kernels.LARGEST_HEAD)
    expected = torch.full_like(x, 1.0 + kernels.LARGEST_HEAD)  # every value is the sum of the normed x
    torch.testing.assert_close(kernels.attention(x, w_in, w_out, rotation, 1), expected, rtol=1e-5, atol=0)


def doubles(*shape, size=1.0):
    generator = torch.Generator().manual_seed(sum(shape))
    return (size * torch.randn(shape, generator=generator, dtype=torch.float64)).requires_grad_()


def test_gradients_of_the_embedding():
    tokens = torch.tensor([[4, 0, 4], [2, 4, 1]])
    assert torch.autograd.gradcheck(lambda w: kernels.embed(tokens, w), (doubles(6, 4),), atol=1e-5)


@pytest.mark.parametrize("rope", [True, False])
def test_gradients_of_attention(rope, monkeypatch):
    monkeypatch.setattr(kernels, "QUERIES", 2)
    rotation = rotary_table(5, 4).double() if rope else None
    arguments = (doubles(2, 5, 8), doubles(24, 8), doubles(8, 8))
    assert torch.autograd.gradcheck(lambda *a: kernels.attention(*a, rotation, 2), arguments, atol=1e-5)


def test_gradients_of_the_mlp():
    assert torch.autograd.gradcheck(
        kernels.squared_relu_mlp, (doubles(2, 3, 4), doubles(8, 4), doubles(4, 8)), atol=1e-5
    )


def test_gradients_of_the_loss():
    targets = torch.tensor([[0, 5, 1], [3, 3, 2]])
    arguments = (doubles(2, 3, 4), doubles(6, 4))
    assert torch.autograd.gradcheck(lambda *a: 3.0 * kernels.head_loss(*a, targets), arguments, atol=1e-5)


def test_the_loss_of_an_impossible_target_is_finite_and_right():
    x, w, targets = torch.ones(1, 2, 4), torch.zeros(3, 4), torch.tensor([[0, 2]])
    w[0] = 100.0  # logits 400, 0, 0: the probability of the last is 0 in float32
    torch.testing.assert_close(kernels.head_loss(x, w, targets), torch.tensor(200.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rms_norm_is_that_of_torch_and_so_is_its_gradient(dtype):
    x = torch.randn(5, 7, 16, dtype=dtype, requires_grad=True)
    torch.testing.assert_close(kernels.rms_norm(x), F.rms_norm(x, (16,)), rtol=1e-5, atol=1e-5)
    assert torch.autograd.gradcheck(kernels.rms_norm, (x[:2, :2].double(),), atol=1e-5)


def test_rotation_is_that_of_plain_operations(plain):
    x, table = torch.randn(2, 9, 3, 8), rotary_table(9, 8)
    torch.testing.assert_close(kernels.rotate(x, table), plain(lambda: rotate(x, table)))


def test_gradients_may_be_asked_for_twice():
    model, (tokens, targets) = trained_looking(), batch(2, 16)
    loss = model.loss(tokens, targets)
    first, second = (torch.autograd.grad(loss, list(model.parameters()), retain_graph=True) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
