"""Scoring a text under a model of bytes. It is never compiled: the organiser's evaluator is not the trainer's."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F

from ffsim.train.corpus import Bytes, scoring_windows


@torch.inference_mode()
def score(
    model: Callable[[torch.Tensor], torch.Tensor],
    text: Bytes,
    sequence: int,
    device: torch.device | None = None,
) -> dict[str, float]:
    """Score a text under a model of bytes.

    Parameters
    ----------
    model
        Maps int64 tokens, shape (n_rows, n_tokens), to logits, shape (n_rows, n_tokens, 256).
    text
        Shape (n_bytes,), uint8; every byte but the first is scored once.
    sequence
        Longest context in tokens.
    device
        Where the model is.

    Returns
    -------
    dict
        bpb = nats / ln 2 / bytes; nats, summed in float64; bytes and tokens that were scored.
    """
    nats = 0.0
    for inputs, targets in scoring_windows(text, sequence, device):
        losses = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="none")
        nats += float(losses.sum(dtype=torch.float64))
    n_bytes = len(text) - 1
    return {"bpb": nats / math.log(2) / n_bytes, "nats": nats, "bytes": n_bytes, "tokens": n_bytes}
