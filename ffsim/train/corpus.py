"""Texts as bytes: training batches that every machine draws alike, and windows that score every byte.

Traps that it avoids:

* A text of the right name and the wrong content: `load_text` compares size and sha256 before anything runs.
* Batches that depend on the library version or the machine: the permutation is an argsort of the raw output
  of PCG64, a stream that NumPy never changes, whereas the streams of `Generator.permutation` and
  `torch.randperm` may.
* Scores that are not comparable because a longer sequence scores fewer bytes: `scoring_windows` covers
  every byte but the first exactly once for every sequence length, the ragged end included.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from ffsim.errors import RunError
from ffsim.train.job import Text

Bytes = npt.NDArray[np.uint8]

SCORING_TOKENS = 8192
"""Tokens scored at once: enough to fill one core, few enough that the logits stay below 10 MiB."""


def load_text(text: Text) -> Bytes:
    """Map a text into memory and check that it is the right one.

    Parameters
    ----------
    text
        Path, sha256 (hexadecimal) and size in bytes.

    Returns
    -------
    numpy.ndarray
        The bytes, shape (text.bytes,), read-only.

    Raises
    ------
    RunError
        The file cannot be read, its size or sha256 differs, or it has fewer than two bytes.
    """
    path = Path(text.path)
    try:
        with path.open("rb") as file:
            found_sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            found_bytes = file.tell()
    except OSError as error:
        raise RunError(f"text {path} cannot be read ({error.strerror}); fetch the contest's texts") from error
    if found_bytes != text.bytes:
        raise RunError(f"text {path} has {found_bytes} bytes, the job says {text.bytes}; fetch it again")
    if found_sha256 != text.sha256:
        raise RunError(f"text {path} has sha256 {found_sha256}, the job says {text.sha256}; fetch it again")
    if found_bytes < 2:
        raise RunError(f"text {path} has {found_bytes} bytes; at least 2 are needed to predict one")
    return np.memmap(path, dtype=np.uint8, mode="r")


class Batches:
    """An endless source of training batches, determined by the text and three numbers.

    An epoch cuts the text into windows of `sequence` bytes (each reaches one byte further for its last
    target), from a random offset and in a random order; the next epoch draws both anew. A batch may straddle
    two epochs, so that no window is dropped.

    Parameters
    ----------
    text
        Shape (n_bytes,), uint8.
    order
        Seed of the data order, 0 or more.
    sequence, batch
        Tokens of one sequence; sequences of one batch.

    Raises
    ------
    RunError
        The text is shorter than one window.
    """

    def __init__(self, text: Bytes, *, order: int, sequence: int, batch: int) -> None:
        if len(text) < sequence + 1:
            raise RunError(
                f"the training text has {len(text)} bytes, a sequence of {sequence} needs {sequence + 1}; "
                "shorten `sequence` or take a longer text"
            )
        self._text, self._order, self._sequence, self._batch = text, order, sequence, batch
        self._reach = np.arange(sequence + 1)
        self._epoch = 0
        self._starts = self._epoch_starts()

    def next(self, device: torch.device | None = None, size: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
        """Return inputs and targets, int64, shape (size x batch, sequence) each; targets are one byte later."""
        rows = size * self._batch
        while len(self._starts) < rows:
            self._epoch += 1
            self._starts = np.concatenate([self._starts, self._epoch_starts()])
        taken, self._starts = self._starts[:rows], self._starts[rows:]
        windows = torch.from_numpy(self._text[taken[:, None] + self._reach].astype(np.int64)).to(device)
        return windows[:, :-1], windows[:, 1:]

    def _epoch_starts(self) -> npt.NDArray[np.int64]:
        offsets = min(self._sequence, len(self._text) - self._sequence)
        bits = np.random.PCG64([self._order, self._epoch])
        offset = int(bits.random_raw()) % offsets
        n_windows = (len(self._text) - 1 - offset) // self._sequence
        permutation = np.argsort(bits.random_raw(n_windows), kind="stable")
        return offset + self._sequence * permutation


def scoring_windows(
    text: Bytes, sequence: int, device: torch.device | None = None
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Cut a text so that every byte but the first is a target exactly once.

    Parameters
    ----------
    text
        Shape (n_bytes,), uint8.
    sequence
        Longest context in tokens.
    device
        Where the tensors go; by default the CPU.

    Yields
    ------
    (inputs, targets)
        int64, shape (n_windows, sequence) each; the last pair may be (1, rest) with rest < sequence.
    """
    n_targets = len(text) - 1
    n_full = n_targets // sequence
    rows = max(1, SCORING_TOKENS // sequence)
    for first in range(0, n_full, rows):
        n_rows = min(rows, n_full - first)
        yield _windows(text, first * sequence, n_rows, sequence, device)
    if n_targets % sequence:
        yield _windows(text, n_full * sequence, 1, n_targets % sequence, device)


def _windows(
    text: Bytes, start: int, n_rows: int, sequence: int, device: torch.device | None
) -> tuple[torch.Tensor, torch.Tensor]:
    stretch = torch.from_numpy(text[start : start + n_rows * sequence + 1].astype(np.int64)).to(device)
    return stretch[:-1].view(n_rows, sequence), stretch[1:].view(n_rows, sequence)
