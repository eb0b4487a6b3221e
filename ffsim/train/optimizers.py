"""AdamW, and Muon for the matrices of the blocks, behind one small interface.

A training loop needs three things of an optimizer: a step at a share of the peak learning rate, a limit on
the gradient, and a way to forget everything after the uncharged warm-up steps. The traps:

* State that is allocated inside the charged clock. All of it exists from the start and is zeroed in place.
* A number that changes from step to step is a new constant, hence a new graph, to a compiler, which gives up
  after eight of them without a word. Learning rate, momentum, weight decay and the step count are therefore
  tensors without dimensions that are filled in place: one graph serves a whole schedule.

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
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor

from ffsim.train.job import Knobs
from ffsim.train.model import GPT

ADAM_EPSILON = 1e-10
CLIP_EPSILON = 1e-6  # as in torch.nn.utils.clip_grad_norm_
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

    Attributes
    ----------
    apply
        What `step` calls with the gradients: `update`, or a compiled version of it.
    """

    def __init__(self, model: GPT, knobs: Knobs) -> None:
        self._clip = knobs.clip
        named = dict(model.named_parameters())
        in_blocks = {name: tensor for name, tensor in named.items() if name.startswith("blocks.")}
        decayed = {} if model.head is None else {"head": model.head}
        self._parts: list[_Part] = []
        if knobs.optimizer == "muon":
            self._parts.append(Muon(in_blocks, knobs))
        else:
            decayed |= in_blocks
        self._parts.append(AdamW([model.embedding], list(decayed.values()), knobs))
        self._parameters = [parameter for part in self._parts for parameter in part.parameters]
        self.apply: Callable[[list[Tensor]], None] = self.update

    def step(self, lr_scale: float) -> None:
        """Apply the gradients at `lr_scale` times the peak learning rates."""
        gradients = [_gradient(parameter) for parameter in self._parameters]
        for part in self._parts:
            part.next(lr_scale)
        self.apply(gradients)
        for parameter in self._parameters:
            parameter.grad = None

    @torch.no_grad()
    def update(self, gradients: list[Tensor]) -> None:
        """Limit the gradients, which may be overwritten, and change the parameters.

        Parameters
        ----------
        gradients
            In the order of the parameters of the parts.
        """
        scale = None
        if self._clip > 0:
            norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
            scale = (self._clip / (norm + CLIP_EPSILON)).clamp(max=1.0)
        first = 0
        for part in self._parts:
            n_parameters = len(part.parameters)
            part.update(gradients[first : first + n_parameters], scale)
            first += n_parameters

    def zero_state(self) -> None:
        """Forget all steps, in place: the next one is bit for bit a first step."""
        for part in self._parts:
            part.zero_state()


class _Part(Protocol):
    parameters: list[Tensor]

    def next(self, lr_scale: float) -> None: ...

    def update(self, gradients: Sequence[Tensor], scale: Tensor | None) -> None: ...

    def zero_state(self) -> None: ...


class AdamW:
    """Adam with decoupled weight decay.

    PyTorch's fused update takes one pass over the state where plain operations take ten. A compiler fuses
    the plain operations and knows nothing of the fused update, so each gets its own; they agree up to
    rounding.

    Parameters
    ----------
    plain, decayed
        Parameters without and with weight decay.
    knobs
        lr, weight_decay, beta1 and beta2 are read here.
    """

    def __init__(self, plain: Sequence[Tensor], decayed: Sequence[Tensor], knobs: Knobs) -> None:
        self.parameters = [*plain, *decayed]
        self._n_plain, self._peak_lr, self._betas = len(plain), knobs.lr, (knobs.beta1, knobs.beta2)
        self._means = [torch.zeros_like(parameter) for parameter in self.parameters]
        self._squares = [torch.zeros_like(parameter) for parameter in self.parameters]
        device = self.parameters[0].device
        self.lr, self.weight_decay, self.steps = _scalars(device, knobs.lr, knobs.weight_decay, 0.0)

    def next(self, lr_scale: float) -> None:
        """Count a step and set its learning rate, `lr_scale` times the peak."""
        self.lr.fill_(self._peak_lr * lr_scale)
        self.steps.add_(1.0)

    def update(self, gradients: Sequence[Tensor], scale: Tensor | None) -> None:
        """Apply gradients times scale."""
        if torch.compiler.is_compiling() or self.lr.device.type not in {"cpu", "cuda"}:
            self._plain_update(gradients, scale)
        else:
            self._fused_update(gradients, scale)

    def zero_state(self) -> None:
        """Forget all steps, in place."""
        for tensor in (*self._means, *self._squares, self.steps):
            tensor.zero_()

    def _fused_update(self, gradients: Sequence[Tensor], scale: Tensor | None) -> None:
        beta1, beta2 = self._betas
        groups = ((slice(0, self._n_plain), 0.0), (slice(self._n_plain, None), self.weight_decay.item()))
        for group, weight_decay in groups:
            steps = [self.steps] * len(gradients[group])
            torch._fused_adamw_(
                self.parameters[group], list(gradients[group]), self._means[group], self._squares[group], [], steps,
                lr=self.lr, beta1=beta1, beta2=beta2, weight_decay=weight_decay, eps=ADAM_EPSILON,
                amsgrad=False, maximize=False, grad_scale=None if scale is None else scale.reciprocal(),
            )  # fmt: skip

    def _plain_update(self, gradients: Sequence[Tensor], scale: Tensor | None) -> None:
        beta1, beta2 = self._betas
        mean_bias, square_bias = 1.0 - beta1**self.steps, 1.0 - beta2**self.steps
        kept = 1.0 - self.lr * self.weight_decay
        each = zip(self.parameters, gradients, self._means, self._squares, strict=True)
        for number, (parameter, gradient, mean, square) in enumerate(each):
            g = gradient if scale is None else gradient * scale
            mean.lerp_(g, 1.0 - beta1)
            square.mul_(beta2).addcmul_(g, g, value=1.0 - beta2)
            if number >= self._n_plain:
                parameter.mul_(kept)
            root = (square / square_bias).sqrt() + ADAM_EPSILON
            parameter.sub_(mean / root * (self.lr / mean_bias))


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
        self.parameters = list(parameters.values())
        self._n_fused = [FUSED_MATRICES.get(name.rpartition(".")[2], 1) for name in parameters]
        self._peak_lr = knobs.muon_lr
        device = self.parameters[0].device
        self.lr, self.momentum, self.weight_decay = _scalars(device, knobs.muon_lr, knobs.momentum, knobs.weight_decay)
        # Jordan et al. 2024: the same size of change per output in tall matrices as in square ones.
        sizes: dict[torch.Size, list[float]] = defaultdict(list)
        for parameter, n_fused in zip(self.parameters, self._n_fused, strict=True):
            size = max(1.0, parameter.shape[0] / n_fused / parameter.shape[1]) ** 0.5
            for matrix in _wide_matrices(parameter, n_fused):
                sizes[matrix.shape].append(size)
        self._sizes = {shape: torch.tensor(of, device=device)[:, None, None] for shape, of in sizes.items()}
        self._velocity = {shape: torch.zeros(len(of), *shape, device=device) for shape, of in sizes.items()}

    def next(self, lr_scale: float) -> None:
        """Set the learning rate of the next step, `lr_scale` times the peak."""
        self.lr.fill_(self._peak_lr * lr_scale)

    @torch.no_grad()
    def update(self, gradients: Sequence[Tensor], scale: Tensor | None) -> None:
        """Apply gradients times scale."""
        torch._foreach_mul_(self.parameters, 1.0 - self.lr * self.weight_decay)
        matrices, pieces = self._by_shape(self.parameters), self._by_shape(gradients)
        for shape, velocity in self._velocity.items():
            gradient = torch.stack(pieces[shape])
            if scale is not None:
                gradient.mul_(scale)
            velocity.mul_(self.momentum).add_(gradient)
            updates = orthogonalise(gradient.add_(velocity * self.momentum)).mul_(self.lr * self._sizes[shape])
            torch._foreach_sub_(matrices[shape], updates.unbind())

    def zero_state(self) -> None:
        """Forget all steps, in place."""
        for velocity in self._velocity.values():
            velocity.zero_()

    def _by_shape(self, tensors: Sequence[Tensor]) -> dict[torch.Size, list[Tensor]]:
        by_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
        for tensor, n_fused in zip(tensors, self._n_fused, strict=True):
            for matrix in _wide_matrices(tensor, n_fused):
                by_shape[matrix.shape].append(matrix)
        return by_shape


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


def _gradient(parameter: Tensor) -> Tensor:
    if parameter.grad is None:
        raise RuntimeError("a step needs a backward pass before it")
    return parameter.grad


def _scalars(device: torch.device, *values: float) -> tuple[Tensor, ...]:
    return tuple(torch.tensor(value, device=device) for value in values)
