"""The command line: `main`, and the table of commands. A command's module is imported when it is used."""

from __future__ import annotations

import importlib
import signal
import sys
import threading
from typing import Any

import click

from ffsim import __version__
from ffsim.errors import FfsimError, printable

# command -> (module below ffsim.cli, short help); the help is here so that --help imports nothing.
COMMANDS = {
    "init": ("init", "Make a project of one's own, from the installed package."),
    "rehearse": ("train", "Train a recipe cold, score it, write its record."),
    "walk": ("walk", "Replay a recipe's schedule on given step times: steps, phases, tokens."),
    "official": ("official", "Play the organiser, or record a score received from one."),
    "add-run": ("contribute", "Check run records and add them to the dataset."),
    "accept": ("curate", "Take runs out of quarantine."),
    "amend": ("curate", "Put a corrected record in the place of a run."),
    "remove": ("curate", "Take a run out of the dataset, with a reason."),
    "import": ("curate", "Add runs that a maintainer vouches for."),
    "audit": ("audit", "Attack the project's own dataset, in memory."),
    "trust": ("audit", "How far contributors agree, and what their runs weigh."),
    "merge": ("merge", "Merge a branch, its dataset entries included."),
    "review": ("merge", "Say what a branch would bring, and what the guard says of it."),
    "driver": ("driver", "Let a plain `git merge` merge the dataset."),
    "validate": ("contribute", "Check the whole dataset (a pipeline stage)."),
    "doctor": ("doctor", "Look at versions, devices, caches, store and git: what is missing."),
    "status": ("browse", "What is here, what is predicted, what waits."),
    "runs": ("browse", "List runs: filter, sort, choose columns."),
    "show": ("browse", "Everything about one run or upload."),
    "read-log": ("logs", "What a training log says, in whichever dialect."),
    "recipe": ("recipes", "Show, compare and make recipes."),
    "schema": ("schema", "The data contracts, as a page or as JSON Schema."),
    "diff": ("diff", "Predicted against official scores between two versions."),
    "host": ("pipeline", "Write this host's facts (a pipeline stage)."),
    "fit": ("pipeline", "Fit steps, quality and oracle (a pipeline stage)."),
    "evaluate": ("pipeline", "Held-out errors of the models (a pipeline stage)."),
    "predict": ("pipeline", "Predict every upload's official score (a pipeline stage)."),
    "predict-candidate": ("pipeline", "Predict the candidate's official score (a pipeline stage)."),
    "report": ("pipeline", "Write build/report.md (a pipeline stage)."),
}
# What other programs call.
HIDDEN = {"merge-driver": "driver"}


class _Lazy(click.Group):
    """A group that knows its commands' names and imports one only to run it."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS and name not in HIDDEN:
            return None
        home = HIDDEN[name] if name in HIDDEN else COMMANDS[name][0]
        module = importlib.import_module(f"ffsim.cli.{home}")
        command: click.Command = getattr(module, name.replace("-", "_") + "_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            if near:
                raise click.UsageError(f"{error.message} Did you mean {near[0]}?", ctx) from None
            raise

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_) for name, (_, help_) in COMMANDS.items()])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ffsim")
def cli() -> None:
    """Predict what a training run will score in a wall-clock contest, and how sure that is.

    Example: ffsim rehearse muon --seed 2
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; a user's mistake is one line and exit code 1 (2: usage)."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        _end_as_interrupt()
        for argument in given:
            argument.encode()
        cli.main(args=given, prog_name="ffsim", standalone_mode=False)
    except click.ClickException as error:
        said = error.message.splitlines()
        error.message = "\n".join(map(printable, said))  # type: ignore[misc]
        error.show()
        _as_json(given, error.format_message())
        sys.exit(error.exit_code)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except FfsimError as error:
        _fail(given, str(error), 1)
    except UnicodeEncodeError:
        _fail(given, "an argument is not UTF-8 text", 2)
    except (KeyboardInterrupt, click.Abort) as error:
        _fail(given, str(error) or str(error.__cause__ or "") or "interrupted", 130)
    except BrokenPipeError:
        # The reader of a pipe (head, less) has what it wanted.
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _fail(given, f"{where}{error.strerror or error}; check the path, its permissions and the space on the disk", 1)


def _end_as_interrupt() -> None:
    """SIGTERM and SIGHUP end a command as Ctrl-C does: what it had begun is undone or recorded."""

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) == signal.SIG_DFL:
                signal.signal(getattr(signal, name), interrupt)


def _as_json(arguments: list[str], message: str) -> None:
    if "--json" in arguments:
        import json

        click.echo(json.dumps({"error": message}))


def _fail(arguments: list[str], message: str, code: int) -> Any:
    shown = printable(message)
    _as_json(arguments, shown)
    click.echo(f"error: {shown}", err=True)
    sys.exit(code)
