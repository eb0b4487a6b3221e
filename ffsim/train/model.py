"""A small GPT, written for one CPU core: pre-norm blocks, no biases, bytes as tokens.

Sources: rotary positions (Su et al. 2021), RMS norm without parameters (Zhang & Sennrich 2019), norm of
queries and keys (Henry et al. 2020), squared ReLU (So et al. 2021), zero-initialised projections into the
residual stream (the modded-nanogpt speedruns, Jordan et al. 2024).

Choices that the knobs leave open, and the traps behind them:

* Every projection into the residual stream starts at zero, so an untrained block is the identity and depth
  does not change the start. An untied head starts at zero as well: an untrained model predicts uniformly,
  exactly 8 bits per byte. A tied head cannot, for then nothing would ever learn.
* The embedding is normed before the first block, so the initial scale of the embedding only says how fast
  AdamW can turn it.
* Small models are bound by memory passes, not by arithmetic. Queries, keys and values come from one matrix
  product, queries and keys are normed and rotated together, rotation is one complex product, and the
  backward passes of RMS norm and squared ReLU are written by hand (see `benchmarks/bench_trainer.py`).
* Initial weights come from a generator of their own, so `seed` alone decides them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ffsim.train.job import Knobs

VOCABULARY = 256
EMBEDDING_SD = 0.5
TIED_EMBEDDING_SD = 0.02
ROPE_BASE = 1_000.0  # not the 10,000 of Su et al. 2021: contexts of 100 to 1000 bytes
NORM_EPSILON = 1e-6


class GPT(nn.Module):
    """A decoder-only transformer over bytes.

    Parameters
    ----------
    knobs
        The recipe; layers, width, head_dim, sequence, mlp_multiple, activation, rope, qk_norm and tied_head
        are read here.
    seed
        Decides the initial weights, together with the shapes.
    """

    rotation: Tensor | None

    def __init__(self, knobs: Knobs, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        sd = TIED_EMBEDDING_SD if knobs.tied_head else EMBEDDING_SD
        self.embedding = _normal(VOCABULARY, knobs.width, sd, generator)
        self.blocks = nn.ModuleList(Block(knobs, generator) for _ in range(knobs.layers))
        self.head = None if knobs.tied_head else _zeros(VOCABULARY, knobs.width)
        rotation = rotary_table(knobs.sequence, knobs.head_dim) if knobs.rope else None
        self.register_buffer("rotation", rotation, persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits.

        Parameters
        ----------
        tokens
            int64, shape (n_rows, n_tokens), n_tokens at most `sequence`.

        Returns
        -------
        Tensor
            float32, shape (n_rows, n_tokens, 256); row t predicts the byte after token t.
        """
        rotation = self.rotation[: tokens.shape[1]] if self.rotation is not None else None
        x = rms_norm(F.embedding(tokens, self.embedding))
        for block in self.blocks:
            x = block(x, rotation)
        return F.linear(rms_norm(x), self.embedding if self.head is None else self.head)


class Block(nn.Module):
    """Attention, then an MLP; each reads a normed residual stream and adds to it."""

    def __init__(self, knobs: Knobs, generator: torch.Generator) -> None:
        super().__init__()
        width, hidden = knobs.width, knobs.width * knobs.mlp_multiple
        self.n_heads, self.head_dim, self.qk_norm = width // knobs.head_dim, knobs.head_dim, knobs.qk_norm
        self.activation = ACTIVATIONS[knobs.activation]
        self.attention_in = _normal(3 * width, width, width**-0.5, generator)  # queries, keys, values
        self.attention_out = _zeros(width, width)
        self.mlp_in = _normal(hidden, width, width**-0.5, generator)
        self.mlp_out = _zeros(width, hidden)

    def forward(self, x: Tensor, rotation: Tensor | None) -> Tensor:
        """Map the residual stream, shape (n_rows, n_tokens, width), to the next one."""
        x = x + F.linear(self._attend(rms_norm(x), rotation), self.attention_out)
        return x + F.linear(self.activation(F.linear(rms_norm(x), self.mlp_in)), self.mlp_out)

    def _attend(self, x: Tensor, rotation: Tensor | None) -> Tensor:
        n_rows, n_tokens, width = x.shape
        heads = F.linear(x, self.attention_in).view(n_rows, n_tokens, 3 * self.n_heads, self.head_dim)
        qk, v = heads.split_with_sizes([2 * self.n_heads, self.n_heads], dim=2)
        if self.qk_norm:
            qk = rms_norm(qk)
        if rotation is not None:
            qk = rotate(qk, rotation)
        q, k = qk.split_with_sizes([self.n_heads, self.n_heads], dim=2)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(n_rows, n_tokens, width)


def rotary_table(n_positions: int, head_dim: int) -> Tensor:
    """Return the rotations of every position as complex numbers, shape (n_positions, 1, head_dim / 2)."""
    frequencies = ROPE_BASE ** -(torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    angles = torch.outer(torch.arange(n_positions, dtype=torch.float64), frequencies)
    return torch.polar(torch.ones_like(angles), angles).to(torch.complex64)[:, None, :]


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Rotate neighbouring pairs of the last axis of x, shape (n_rows, n_tokens, n_heads, head_dim)."""
    pairs = torch.view_as_complex(x.view(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * rotation).flatten(-2)


def rms_norm(x: Tensor) -> Tensor:
    """Divide x by the root of its mean square over the last axis."""
    return _RMSNorm.apply(x)  # type: ignore[no-any-return, no-untyped-call]


class _RMSNorm(torch.autograd.Function):
    """`F.rms_norm` is composed of several passes on a CPU; this takes 60 % of their time.

    With y = x r and r = 1 / rms(x), the gradient is r (g - y mean(g y)).
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        r = norm.mul_(x.shape[-1] ** -0.5).add_(NORM_EPSILON).reciprocal_()
        y: Tensor = x * r
        ctx.save_for_backward(y, r)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        g, (y, r) = gradients[0], ctx.saved_tensors
        return torch.addcmul(g, y, (g * y).mean(-1, keepdim=True), value=-1).mul_(r)


class _SquaredReLU(torch.autograd.Function):
    """relu(x)^2 that keeps one tensor for its backward pass instead of two."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        r = x.relu()
        ctx.save_for_backward(r)
        return r * r

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        r: Tensor = ctx.saved_tensors[0]
        return (gradients[0] * r).mul_(2.0)


def _normal(rows: int, columns: int, sd: float, generator: torch.Generator) -> nn.Parameter:
    return nn.Parameter(torch.normal(0.0, sd, (rows, columns), generator=generator))


def _zeros(rows: int, columns: int) -> nn.Parameter:
    return nn.Parameter(torch.zeros(rows, columns))


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu2": _SquaredReLU.apply,
    "relu": F.relu,
    "gelu": F.gelu,
    "silu": F.silu,
}
