"""Forward and backward passes by hand, for float32 on a CPU core: what the trainer's speed comes from.

A model of this size is bound by memory passes and by the overhead of operators, not by arithmetic. Each
function here is one node of the autograd graph for a whole sublayer, with few passes and in place where
nobody looks any more. `ffsim.train.model` has the same mathematics in plain operations, which a compiler or
another device gets; the tests hold one against the other, gradients included.

What is done differently, all of it the same up to rounding:

* RMS norm: with y = x r and r = 1 / rms(x) the gradient is r (g - y mean(g y)), so y and r are kept, not x.
* Rotation keeps lengths, so queries and keys are rotated before they are normed, both in place.
* Normed queries and keys bound the scores by sqrt(head_dim): the softmax needs no maximum, and it is divided
  by its sum after the product with the values, which is smaller than the weights. Weights above the diagonal
  are skipped by blocks of queries.
* Squared ReLU: the factor 2 of its derivative goes into the matrix products behind it.
* Embedding: the rows of the table are normed instead of those of the batch, which are more.
* Cross entropy: exponentials are divided by their sum after the products of the backward pass.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

NORM_EPSILON = 1e-6
LONGEST_ATTENTION = 512  # tokens: the weights of all layers are kept for the backward pass
LARGEST_HEAD = 1024  # exp(sqrt(1024)) is 8e13, far from the largest float32
QUERIES = 64  # of one block: large enough for a fast product, small enough to skip most of the upper triangle


def apply_to(x: Tensor) -> bool:
    """Say whether x is what this module is for: float32 on a CPU, and no compiler is looking."""
    return x.device.type == "cpu" and x.dtype == torch.float32 and not torch.compiler.is_compiling()


def embed(tokens: Tensor, w: Tensor) -> Tensor:
    """Return rows of normed w, (vocabulary, width); tokens of shape (n_rows, n_tokens)."""
    return _Embed.apply(tokens, w)  # type: ignore[no-any-return, no-untyped-call]


def attention(x: Tensor, w_in: Tensor, w_out: Tensor, rotation: Tensor | None, n_heads: int) -> Tensor:
    """Return x + causal attention of normed x, with normed queries and keys.

    Parameters
    ----------
    x
        Residual stream, shape (n_rows, n_tokens, width).
    w_in, w_out
        Shapes (3 * width, width), queries, keys and values; and (width, width).
    rotation
        Cosines and sines, shape (n_tokens, 1, head_dim / 2, 2); None for no rotary positions.
    n_heads
        Heads of queries, as many as of keys and of values.
    """
    return _Attention.apply(x, w_in, w_out, rotation, n_heads)  # type: ignore[no-any-return, no-untyped-call]


def can_attend(n_tokens: int, head_dim: int) -> bool:
    """Say whether `attention` is safe and saves time at this size."""
    return n_tokens <= LONGEST_ATTENTION and head_dim <= LARGEST_HEAD


def squared_relu_mlp(x: Tensor, w_in: Tensor, w_out: Tensor) -> Tensor:
    """Return x + relu(norm(x) w_in')^2 w_out'; x of shape (n_rows, n_tokens, width)."""
    return _SquaredReLUMLP.apply(x, w_in, w_out)  # type: ignore[no-any-return, no-untyped-call]


def head_loss(x: Tensor, w: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross entropy, in nats, of targets (n_rows, n_tokens) under logits norm(x) w'."""
    return _HeadLoss.apply(x, w, targets)  # type: ignore[no-any-return, no-untyped-call]


def rms_norm(x: Tensor) -> Tensor:
    """Divide x by the root of its mean square over the last axis."""
    return _RMSNorm.apply(x)  # type: ignore[no-any-return, no-untyped-call]


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Rotate neighbouring pairs of the last axis of x, shape (n_rows, n_tokens, n_heads, head_dim)."""
    return torch.view_as_real(_pairs(x) * torch.view_as_complex(rotation)).flatten(-2)


class _Embed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tokens: Tensor, w: Tensor) -> Tensor:
        y, r = _norm(w)
        ctx.save_for_backward(tokens, y, r)
        return y.index_select(0, tokens.reshape(-1)).view(*tokens.shape, -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        tokens, y, r = ctx.saved_tensors
        d_y = torch.zeros_like(y).index_add_(0, tokens.reshape(-1), gradients[0].reshape(-1, y.shape[1]))
        return None, _centred(d_y, y).mul_(r)


class _Attention(torch.autograd.Function):
    """Inside, heads come first, (heads, n_rows, n_tokens, head_dim): all passes are contiguous."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w_in: Tensor, w_out: Tensor, rotation: Tensor | None, n_heads: int) -> Tensor:
        n_rows, n_tokens, width = x.shape
        head_dim, n = width // n_heads, n_rows * n_tokens
        y, r = _norm(x.reshape(n, width))
        heads = torch.bmm(y.expand(3 * n_heads, n, width), w_in.view(3 * n_heads, head_dim, width).mT)
        qk = heads[: 2 * n_heads].view(2 * n_heads, n_rows, n_tokens, head_dim)
        if rotation is not None:
            rotation = torch.view_as_complex(rotation[:, 0])
            _pairs(qk).mul_(rotation)
        qk_r = _inverse_rms(qk)
        qk.mul_(qk_r)
        q, k, v = heads.view(3, n_heads * n_rows, n_tokens, head_dim)

        scale, nothing = head_dim**-0.5, q.new_empty(())
        inverse = q.new_empty(n_heads, n_rows, n_tokens, 1)
        values = q.new_empty(n_rows, n_tokens, n_heads, head_dim)
        sums, by_head, weights = inverse.view(-1, n_tokens, 1), values.permute(2, 0, 1, 3), []
        for first in range(0, n_tokens, QUERIES):
            here, seen = slice(first, first + QUERIES), slice(0, first + QUERIES)
            p = torch.baddbmm(nothing, q[:, here], k[:, seen].mT, beta=0, alpha=scale).exp_()
            p[:, :, first:].tril_()
            weights.append(p)
            torch.sum(p, -1, keepdim=True, out=sums[:, here])
            mixed = torch.bmm(p, v[:, seen]).view(n_heads, n_rows, -1, head_dim)
            torch.mul(mixed, inverse[:, :, here].reciprocal_(), out=by_head[:, :, here])
        ctx.save_for_backward(w_in, w_out, rotation, y, r, heads, qk_r, inverse, values, *weights)
        return torch.addmm(x.reshape(n, width), values.view(n, width), w_out.T).view(x.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        w_in, w_out, rotation, y, r, heads, qk_r, inverse, values, *weights = ctx.saved_tensors
        n_rows, n_tokens, n_heads, head_dim = values.shape
        n, width = y.shape
        g = gradients[0].reshape(n, width)
        d_w_out = torch.mm(g.T, values.view(n, width))
        d_values = torch.mm(g, w_out).view(values.shape)
        products = torch.mul(d_values, values).sum(-1, keepdim=True).permute(2, 0, 1, 3)
        products = torch.mul(products, inverse).reshape(-1, n_tokens, 1)
        d_mixed = torch.empty_like(heads[:n_heads]).view(n_heads, n_rows, n_tokens, head_dim)
        torch.mul(d_values.permute(2, 0, 1, 3), inverse, out=d_mixed)
        d_mixed = d_mixed.view(-1, n_tokens, head_dim)

        q, k, v = heads.view(3, -1, n_tokens, head_dim)
        d_heads = torch.empty_like(heads)
        d_q, d_k, d_v = d_heads.view(3, -1, n_tokens, head_dim)
        for first in reversed(range(0, n_tokens, QUERIES)):
            here, seen = slice(first, first + QUERIES), slice(0, first + QUERIES)
            p = weights.pop()
            d_p = torch.bmm(d_mixed[:, here], v[:, seen].mT).sub_(products[:, here]).mul_(p)
            d_q[:, here] = torch.bmm(d_p, k[:, seen])
            if first + QUERIES >= n_tokens:  # the last block sees all keys; a product into a slice would be slow
                torch.bmm(d_p.mT, q[:, here], out=d_k)
                torch.bmm(p.mT, d_mixed[:, here], out=d_v)
            else:
                d_k[:, seen].add_(torch.bmm(d_p.mT, q[:, here]))
                d_v[:, seen].add_(torch.bmm(p.mT, d_mixed[:, here]))

        shape = (-1, n_rows, n_tokens, head_dim)
        d_qk = _centred(d_heads[: 2 * n_heads].view(shape), heads[: 2 * n_heads].view(shape))
        d_qk.mul_(qk_r * head_dim**-0.5)
        if rotation is not None:
            _pairs(d_qk).mul_(rotation.conj().resolve_conj())
        d_rows = d_heads.transpose(0, 1).reshape(n, 3 * width)
        d_w_in = torch.mm(d_rows.T, y)
        d_x = torch.addcmul(g, _centred(torch.mm(d_rows, w_in), y), r)
        return d_x.view(n_rows, n_tokens, width), d_w_in, d_w_out, None, None


class _SquaredReLUMLP(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w_in: Tensor, w_out: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        y, r = _norm(rows)
        hidden = torch.mm(y, w_in.T).relu_()
        squared = torch.mul(hidden, hidden)
        ctx.save_for_backward(w_in, w_out, y, r, hidden, squared)
        return torch.addmm(rows, squared, w_out.T).view(x.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        w_in, w_out, y, r, hidden, squared = ctx.saved_tensors
        g = gradients[0].reshape(y.shape)
        d_w_out = torch.mm(g.T, squared)
        half = torch.mm(g, w_out).mul_(hidden)  # of the gradient before the activation
        d_w_in = torch.addmm(w_in, half.T, y, beta=0, alpha=2)
        d_y = torch.addmm(y, half, w_in, beta=0, alpha=2)
        return torch.addcmul(g, _centred(d_y, y), r).view(gradients[0].shape), d_w_in, d_w_out


class _HeadLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, targets: Tensor) -> Tensor:
        y, r = _norm(x.reshape(-1, x.shape[-1]))
        columns = targets.reshape(-1, 1)
        logits = torch.mm(y, w.T)
        of_target = logits.gather(1, columns)
        largest = logits.amax(1, keepdim=True)
        exponentials = logits.sub_(largest).exp_()
        sums = exponentials.sum(1, keepdim=True)
        loss = sums.log().add_(largest).sub_(of_target).mean()
        residuals = exponentials.scatter_add_(1, columns, -sums)  # the gradient, times sums and n
        ctx.shape = x.shape
        ctx.save_for_backward(w, y, r, residuals, sums)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        w, y, r, residuals, sums = ctx.saved_tensors
        scale = gradients[0] / sums.shape[0] / sums
        d_w = torch.mm(residuals.T, y * scale)
        d_y = torch.mm(residuals, w).mul_(scale)
        return _centred(d_y, y).mul_(r).view(ctx.shape), d_w, None


class _RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y, r = _norm(x)
        ctx.save_for_backward(y, r)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        y, r = ctx.saved_tensors
        return _centred(gradients[0].clone(), y).mul_(r)


def _inverse_rms(x: Tensor) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return norm.mul_(x.shape[-1] ** -0.5).add_(NORM_EPSILON).reciprocal_()


def _norm(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return x r and r = 1 / rms(x)."""
    r = _inverse_rms(x)
    return x * r, r


def _centred(g: Tensor, y: Tensor) -> Tensor:
    """Return g - y mean(g y), in place of g; times r it is the gradient of y = x r with respect to x."""
    return g.addcmul_(y, torch.mul(g, y).sum(-1, keepdim=True), value=-1.0 / y.shape[-1])


def _pairs(x: Tensor) -> Tensor:
    return torch.view_as_complex(x.view(*x.shape[:-1], -1, 2))
