"""A step lowers the loss, and compiling it takes one graph each for the loss and the update."""

from __future__ import annotations

import functools

import pytest
import torch
from functorch.compile import make_boxed_func
from tiny_jobs import knobs
from torch._dynamo.backends.common import aot_autograd

from ffsim.train.model import GPT
from ffsim.train.optimizers import Optimizer
from ffsim.train.step import Step, loss_of


def stepper(compile=lambda function: function, **changes):
    recipe = knobs(layers=2, **changes)
    model = GPT(recipe, seed=1)
    return model, Step(model, Optimizer(model, recipe), lambda name, function: compile(function))


def batch(seed=0):
    windows = torch.randint(97, 123, (4, 17), generator=torch.Generator().manual_seed(seed))
    return windows[:, :-1], windows[:, 1:]


def train(make_step, n_steps=20):
    return [make_step(*batch(), (number + 1) / n_steps) for number in range(n_steps)]


@pytest.fixture
def counting():
    """A compiler that only counts graphs, forward and backward."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    graphs = []

    def wrapper(function):
        def kept(kind):
            def count(graph, _):
                graphs.append(f"{function.__name__} {kind}")
                return make_boxed_func(graph.forward)

            return count

        backend = aot_autograd(fw_compiler=kept("forward"), bw_compiler=kept("backward"))
        return torch.compile(function, backend=backend, dynamic=False, fullgraph=True)

    yield wrapper, graphs
    torch._dynamo.reset()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_twenty_learning_rates_make_one_graph_each(counting, optimizer, dtype):
    wrapper, graphs = counting
    train(stepper(wrapper, optimizer=optimizer, dtype=dtype)[1])
    assert sorted(graphs) == ["loss_of backward", "loss_of forward", "update forward"]
    assert not torch._dynamo.utils.counters["graph_break"]


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_traced_step_is_the_plain_one(counting, optimizer):
    (traced, make_traced), (plain, make_plain) = (
        stepper(c, optimizer=optimizer) for c in (counting[0], lambda function: function)
    )
    for ours, theirs in zip(train(make_traced), train(make_plain), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)
    for ours, theirs in zip(traced.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-2)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_steps_lower_the_loss(optimizer, dtype):
    losses = train(stepper(optimizer=optimizer, dtype=dtype)[1], 30)
    assert losses[-1] < 0.7 * losses[0]


def test_the_loss_is_a_tensor_that_holds_no_graph():
    loss = train(stepper()[1], 1)[0]
    assert loss.shape == ()
    assert not loss.requires_grad


def test_bfloat16_is_near_float32_and_leaves_parameters_and_loss_in_float32():
    model, _ = stepper()
    rough, make_rough = stepper(dtype="bfloat16")
    with torch.no_grad():
        for parameter, twin in zip(model.parameters(), rough.parameters(), strict=True):
            twin.copy_(parameter.normal_(0.0, 0.3))
    loss, rough_loss = loss_of(model, *batch()), loss_of(rough, *batch())
    assert rough_loss.dtype == torch.float32
    assert not torch.equal(loss, rough_loss)
    torch.testing.assert_close(loss, rough_loss, rtol=2e-2, atol=0)
    make_rough(*batch(), 1.0)
    assert {parameter.dtype for parameter in rough.parameters()} == {torch.float32}


def test_compiling_is_asked_for_each_function_once():
    seen = []
    stepper(lambda function: seen.append(function.__name__) or functools.partial(function))
    assert seen == ["loss_of", "update"]
