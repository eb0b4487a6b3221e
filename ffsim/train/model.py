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
* Small models are bound by memory passes, not by arithmetic. This module is the mathematics in plain
  operations, which a compiler fuses; where nothing compiles it, float32 on a CPU runs the same from
  `ffsim.train.kernels` (see `benchmarks/bench_trainer.py`).
* In bfloat16 only the matrix products of the blocks are computed in it; parameters, norms, the residual
  stream, the head and the loss stay float32.
* Initial weights come from a generator of their own, so `seed` alone decides them.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ffsim.train import kernels
from ffsim.train.job import Knobs

VOCABULARY = 256
EMBEDDING_SD = 0.5
TIED_EMBEDDING_SD = 0.02
ROPE_BASE = 1_000.0  # not the 10,000 of Su et al. 2021: contexts of 100 to 1000 bytes


class GPT(nn.Module):
    """A decoder-only transformer over bytes.

    Parameters
    ----------
    knobs
        The recipe; layers, width, head_dim, sequence, mlp_multiple, activation, rope, qk_norm, tied_head
        and dtype are read here.
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
        return F.linear(rms_norm(self._hidden(tokens)), self._head)

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Return the mean cross entropy of `targets`, in nats per byte, without dimensions.

        Parameters
        ----------
        tokens, targets
            int64, shape (n_rows, n_tokens) each.
        """
        x = self._hidden(tokens)
        if kernels.apply_to(x):
            return kernels.head_loss(x, self._head, targets)
        return F.cross_entropy(F.linear(rms_norm(x), self._head).flatten(0, 1), targets.flatten())

    @property
    def _head(self) -> Tensor:
        return self.embedding if self.head is None else self.head

    def _hidden(self, tokens: Tensor) -> Tensor:
        rotation = self.rotation[: tokens.shape[1]] if self.rotation is not None else None
        if kernels.apply_to(self.embedding):
            x = kernels.embed(tokens, self.embedding)
        else:
            x = F.embedding(tokens, rms_norm(self.embedding))
        for block in self.blocks:
            x = block(x, rotation)
        return x


class Block(nn.Module):
    """Attention, then an MLP; each reads a normed residual stream and adds to it."""

    def __init__(self, knobs: Knobs, generator: torch.Generator) -> None:
        super().__init__()
        width, hidden = knobs.width, knobs.width * knobs.mlp_multiple
        self.n_heads, self.head_dim, self.qk_norm = width // knobs.head_dim, knobs.head_dim, knobs.qk_norm
        self.activation, self.dtype = knobs.activation, getattr(torch, knobs.dtype)
        self.attention_in = _normal(3 * width, width, width**-0.5, generator)  # queries, keys, values
        self.attention_out = _zeros(width, width)
        self.mlp_in = _normal(hidden, width, width**-0.5, generator)
        self.mlp_out = _zeros(width, hidden)

    def forward(self, x: Tensor, rotation: Tensor | None) -> Tensor:
        """Map the residual stream, shape (n_rows, n_tokens, width), to the next one."""
        by_hand = self.dtype == torch.float32 and kernels.apply_to(x)
        if by_hand and self.qk_norm and kernels.can_attend(x.shape[1], self.head_dim):
            x = kernels.attention(x, self.attention_in, self.attention_out, rotation, self.n_heads)
        else:
            x = x + self._product(self._attend(rms_norm(x), rotation), self.attention_out)
        if by_hand and self.activation == "relu2":
            return kernels.squared_relu_mlp(x, self.mlp_in, self.mlp_out)
        hidden = ACTIVATIONS[self.activation](self._product(rms_norm(x), self.mlp_in))
        return x + self._product(hidden, self.mlp_out)

    def _attend(self, x: Tensor, rotation: Tensor | None) -> Tensor:
        n_rows, n_tokens, width = x.shape
        heads = self._product(x, self.attention_in).view(n_rows, n_tokens, 3 * self.n_heads, self.head_dim)
        qk, v = heads.split_with_sizes([2 * self.n_heads, self.n_heads], dim=2)
        if self.qk_norm:
            qk = rms_norm(qk.float())
        if rotation is not None:
            qk = rotate(qk.float(), rotation)
        q, k = qk.to(self.dtype).split_with_sizes([self.n_heads, self.n_heads], dim=2)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(n_rows, n_tokens, width)

    def _product(self, x: Tensor, w: Tensor) -> Tensor:
        return F.linear(x.to(self.dtype), w.to(self.dtype))


def rotary_table(n_positions: int, head_dim: int) -> Tensor:
    """Return cosine and sine of the rotations of every position, shape (n_positions, 1, head_dim / 2, 2)."""
    frequencies = ROPE_BASE ** -(torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    angles = torch.outer(torch.arange(n_positions, dtype=torch.float64), frequencies)
    return torch.stack([angles.cos(), angles.sin()], dim=-1).float()[:, None]


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Rotate neighbouring pairs of the last axis of x, shape (n_rows, n_tokens, n_heads, head_dim)."""
    if kernels.apply_to(x):
        return kernels.rotate(x, rotation)
    (a, b), (cos, sin) = x.view(*x.shape[:-1], -1, 2).unbind(-1), rotation.unbind(-1)
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)


def rms_norm(x: Tensor) -> Tensor:
    """Divide x by the root of its mean square over the last axis."""
    if kernels.apply_to(x):
        return kernels.rms_norm(x)
    rms: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True) * x.shape[-1] ** -0.5
    return x * (rms + kernels.NORM_EPSILON).reciprocal()


def _normal(rows: int, columns: int, sd: float, generator: torch.Generator) -> nn.Parameter:
    return nn.Parameter(torch.normal(0.0, sd, (rows, columns), generator=generator))


def _zeros(rows: int, columns: int) -> nn.Parameter:
    return nn.Parameter(torch.zeros(rows, columns))


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu2": lambda x: F.relu(x).square(),
    "relu": F.relu,
    "gelu": F.gelu,
    "silu": F.silu,
}
