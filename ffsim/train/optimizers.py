"""AdamW, and Muon for the matrices of the blocks, behind one small interface.

A training loop needs three things of an optimizer: a step at a share of the peak learning rate, a limit on
the gradient, and a way to forget everything after the uncharged warm-up steps. The last is the trap: a
new optimizer would allocate its state inside the charged clock, so the state is zeroed in place.

Decoupled weight decay (Loshchilov & Hutter 2019, "Decoupled weight decay regularization") goes on the
matrices of the blocks and on the head; an embedding row that a batch does not touch would only shrink.

References
----------
Loshchilov & Hutter 2019, "Decoupled weight decay regularization", ICLR.
Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks",
https://kellerjordan.github.io/posts/muon/
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from ffsim.train.job import Knobs
from ffsim.train.model import GPT

ADAM_EPSILON = 1e-10
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)  # Jordan et al. 2024: steep at 0, lands in about [0.7, 1.2]
NEWTON_SCHULZ_STEPS = 5
FUSED_MATRICES = {"attention_in": 3}  # queries, keys and values share a parameter, not a geometry


class Optimizer:
    """Clips the gradients of a model, steps its parts, and drops the gradients.

    Parameters
    ----------
    model
        Its parameters are changed in place.
    knobs
        optimizer, lr, muon_lr, weight_decay, beta1, beta2, momentum and clip are read here.
    """

    def __init__(self, model: GPT, knobs: Knobs) -> None:
        self._clip = knobs.clip
        self._parameters = list(model.parameters())
        blocks = dict(model.blocks.named_parameters())
        decayed = [] if model.head is None else [model.head]
        self._parts: list[_Part] = []
        if knobs.optimizer == "muon":
            self._parts.append(Muon(blocks, knobs))
        else:
            decayed += blocks.values()
        self._parts.append(AdamW([model.embedding], decayed, knobs))

    def step(self, lr_scale: float) -> None:
        """Apply the gradients at `lr_scale` times the peak learning rates."""
        if self._clip > 0:
            torch.nn.utils.clip_grad_norm_(self._parameters, self._clip)
        for part in self._parts:
            part.step(lr_scale)
        for parameter in self._parameters:
            parameter.grad = None

    def zero_state(self) -> None:
        """Forget all steps, in place: the next one is bit for bit a first step."""
        for part in self._parts:
            part.zero_state()


class _Part(Protocol):
    def step(self, lr_scale: float) -> None: ...

    def zero_state(self) -> None: ...


class AdamW:
    """`torch.optim.AdamW`, whose fused version is the fastest on a CPU too."""

    def __init__(self, plain: Sequence[Tensor], decayed: Sequence[Tensor], knobs: Knobs) -> None:
        groups: list[dict[str, Any]] = [{"params": plain, "weight_decay": 0.0}]
        if decayed:
            groups.append({"params": decayed, "weight_decay": knobs.weight_decay})
        self._lr = knobs.lr
        betas = (knobs.beta1, knobs.beta2)
        self._adamw = torch.optim.AdamW(groups, lr=knobs.lr, betas=betas, eps=ADAM_EPSILON, fused=True)

    def step(self, lr_scale: float) -> None:
        """Apply the gradients at `lr_scale` times the peak learning rate."""
        for group in self._adamw.param_groups:
            group["lr"] = self._lr * lr_scale
        self._adamw.step()

    def zero_state(self) -> None:
        """Forget all steps, in place."""
        for state in self._adamw.state.values():
            for tensor in state.values():
                tensor.zero_()


class Muon:
    """Nesterov momentum whose update is replaced by the nearest orthogonal matrix.

    Matrices of one shape (up to transposition) are stacked, so that all layers of a model take part in the
    same few batched matrix products.

    Parameters
    ----------
    parameters
        Two-dimensional parameters by name; a name that ends in a key of `FUSED_MATRICES` is cut into that
        many matrices along its rows.
    knobs
        muon_lr, momentum and weight_decay are read here.
    """

    def __init__(self, parameters: Mapping[str, Tensor], knobs: Knobs) -> None:
        self._lr, self._momentum, self._weight_decay = knobs.muon_lr, knobs.momentum, knobs.weight_decay
        self._stacks: dict[torch.Size, list[tuple[Tensor, int]]] = defaultdict(list)
        for name, parameter in parameters.items():
            n_fused = FUSED_MATRICES.get(name.rpartition(".")[2], 1)
            self._stacks[_wide_matrices(parameter, n_fused)[0].shape].append((parameter, n_fused))
        self._velocity = {shape: self._stack(shape, grads=False).zero_() for shape in self._stacks}

    @torch.no_grad()
    def step(self, lr_scale: float) -> None:
        """Apply the gradients at `lr_scale` times the peak learning rate."""
        lr = self._lr * lr_scale
        for shape, stack in self._stacks.items():
            gradient, velocity = self._stack(shape, grads=True), self._velocity[shape]
            velocity.mul_(self._momentum).add_(gradient)
            updates = iter(orthogonalise(gradient.add_(velocity, alpha=self._momentum)))
            for parameter, n_fused in stack:
                rows, columns = parameter.shape[0] / n_fused, parameter.shape[1]
                # Jordan et al. 2024: the same size of change per output in tall matrices as in square ones.
                size = max(1.0, rows / columns) ** 0.5
                parameter.mul_(1.0 - lr * self._weight_decay)
                for matrix in _wide_matrices(parameter, n_fused):
                    matrix.add_(next(updates), alpha=-lr * size)

    def zero_state(self) -> None:
        """Forget all steps, in place."""
        for velocity in self._velocity.values():
            velocity.zero_()

    def _stack(self, shape: torch.Size, *, grads: bool) -> Tensor:
        matrices: list[Tensor] = []
        for parameter, n_fused in self._stacks[shape]:
            source = parameter.grad if grads else parameter
            if source is None:
                raise RuntimeError("a step needs a backward pass before it")
            matrices += _wide_matrices(source, n_fused)
        return torch.stack(matrices)


def orthogonalise(matrices: Tensor) -> Tensor:
    """Push all singular values towards 1 and keep the singular vectors, by Newton-Schulz iteration.

    Parameters
    ----------
    matrices
        Shape (n_matrices, rows, columns), rows at most columns; float32, because bfloat16 is slow on a CPU.

    Returns
    -------
    Tensor
        Same shape; singular values between about 0.6 and 1.3 unless they were nearly 0.

    References
    ----------
    Jordan et al. 2024, section "Definition", coefficients of the quintic included.
    """
    a, b, c = NEWTON_SCHULZ
    x: Tensor = matrices / (torch.linalg.vector_norm(matrices, dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = torch.bmm(x, x.mT)
        polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.baddbmm(x, polynomial, x, beta=a)
    return x


def _wide_matrices(tensor: Tensor, n_fused: int) -> list[Tensor]:
    """Return views of the fused matrices, transposed where that makes them wider than tall."""
    return [m.T if m.shape[0] > m.shape[1] else m for m in tensor.detach().chunk(n_fused)]
