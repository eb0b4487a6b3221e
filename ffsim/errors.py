"""The mistakes a user can make, one class per kind; each message names the remedy."""

from __future__ import annotations


def printable(text: str) -> str:
    """A text for a terminal: file names and keys are foreign, no line break or terminal code comes through."""
    return "".join(char if char.isprintable() else "?" for char in text)


class FfsimError(Exception):
    """Base of every error that is shown to a user as one line."""


class ContestError(FfsimError):
    """A contest file cannot be found or does not hold together."""


class RecipeError(FfsimError):
    """A recipe names an unknown knob or an impossible value."""


class RecordError(FfsimError):
    """A run or upload record cannot be read."""


class SchemaError(FfsimError):
    """A data contract in schemas/ cannot be compiled."""


class ProjectError(FfsimError):
    """A command needs a project, or the project is not in a fit state."""


class StoreError(FfsimError):
    """The dataset could not be changed; nothing was."""


class RunError(FfsimError):
    """A training run could not be started or did not finish."""


class NotStartedError(RunError):
    """A program could not be started: nothing ran, and there is nothing to record."""


class ModelError(FfsimError):
    """A model cannot be fitted, or a model file is missing or does not belong here."""


class InitError(FfsimError):
    """A project cannot be made in that folder."""


class LogError(FfsimError):
    """A training log cannot be read, or its dialect is not known."""
