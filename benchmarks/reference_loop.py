"""The base recipe as somebody would write it on a Sunday: the yardstick for the speed of the trainer.

Same shapes, same AdamW and same schedule as the laptop contest's default recipe, with nothing measured and
nothing optimised: no clock, no warm-up, no events. `bench_trainer.py` runs it against the real trainer.

    python benchmarks/reference_loop.py data/texts/shakespeare/train.txt 300
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LAYERS, WIDTH, HEADS, SEQUENCE, BATCH, LR = 2, 64, 2, 128, 8, 0.01


def norm(x: Tensor) -> Tensor:
    """RMS norm."""
    return F.rms_norm(x, (x.shape[-1],))


def rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)


class Block(nn.Module):
    """Attention and MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)
        nn.init.zeros_(self.o.weight)
        nn.init.zeros_(self.down.weight)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Map the residual stream to the next one."""
        h = norm(x)
        q, k, v = (f(h).view(*x.shape[:2], HEADS, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = rotary(norm(q), cos, sin), rotary(norm(k), cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(x.shape))
        return x + self.down(F.relu(self.up(norm(x))).square())


class Model(nn.Module):
    """A byte-level GPT."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(256, WIDTH), nn.Linear(WIDTH, 256, bias=False)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        nn.init.zeros_(self.head.weight)
        angles = torch.outer(torch.arange(SEQUENCE), 1000.0 ** -torch.linspace(0, 1, WIDTH // HEADS // 2))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits."""
        x = norm(self.embedding(tokens))
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return self.head(norm(x))


def stepper(text: bytes, n_steps: int) -> Callable[[int], float]:
    """Return a function that makes optimizer step number `step` of `n_steps` and returns its loss in nats."""
    torch.manual_seed(1)
    data, model = torch.frombuffer(bytearray(text), dtype=torch.uint8), Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, betas=(0.9, 0.95), weight_decay=0.1)

    def make_step(step: int) -> float:
        starts = torch.randint(len(data) - SEQUENCE, (BATCH,))
        windows = torch.stack([data[i : i + SEQUENCE + 1] for i in starts]).long()
        loss = F.cross_entropy(model(windows[:, :-1]).view(-1, 256), windows[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        fraction = step / n_steps
        optimizer.param_groups[0]["lr"] = LR * min(1.0, max(0.01, fraction / 0.05), (1.0 - fraction) / 0.4)
        optimizer.step()
        return loss.item()

    return make_step


if __name__ == "__main__":
    torch.set_num_threads(1)
    total = int(sys.argv[2])
    reference_step = stepper(Path(sys.argv[1]).read_bytes(), total)
    for number in range(total):
        loss_nats = reference_step(number)
        if number % 50 == 0 or number == total - 1:
            print(f"step {number + 1}  loss {loss_nats:.3f} nats")
