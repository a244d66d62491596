"""The command line: one typer application, one file a group of commands."""

import os
import sys

import typer

from course_lab.cli.failures import explanation


def application() -> typer.Typer:
    """Return the application with every group of commands mounted."""
    from course_lab.cli import (
        batch,
        claims,
        data,
        examine,
        export,
        model,
        recipes,
        results,
        train,
    )

    app = typer.Typer(
        name="course_lab",
        help="The output embedding of language models: train, examine, compare.",
        epilog="`python -m tools` makes the environment, runs the lessons and the tests.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.add_typer(data.app, name="data")
    app.add_typer(batch.app, name="batch")
    for group in (train, recipes, results, model, examine, export, claims):
        group.register(app)
    return app


def run_application(app: typer.Typer) -> int:
    """Run a command of `app` and return its exit code.

    0: it is done. 1: what it checks is wrong, or nobody reads its output any more. 2: an error that
    the reader can mend, told in one message. 130: it was interrupted. Only a fault of the code
    itself, which `explanation` has no sentence for, ends in a traceback.
    """
    _tolerate_encodings()
    try:
        code = _exit_code(app)
        sys.stdout.flush()  # what is printed may meet a full disk, or a closed pipe, only now
    except BrokenPipeError:
        _drop_output()
        return 1
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        sentence = explanation(error)
        if sentence is None:
            raise
        if isinstance(error, OSError):
            _drop_output()
        print(f"error: {sentence}", file=sys.stderr)
        return 2
    return code


def _exit_code(app: typer.Typer) -> int:
    """Run a command; typer ends each by SystemExit, with its exit code."""
    try:
        app(standalone_mode=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _tolerate_encodings() -> None:
    """Print `?` for a letter that the terminal lacks; refuse bytes of input that are no text."""
    for stream, errors in ((sys.stdout, "replace"), (sys.stderr, "replace"), (sys.stdin, "strict")):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors=errors)


def _drop_output() -> None:
    """Send what is still to be printed nowhere, for Python would fail once more as it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def main() -> int:
    """Run a command of the laboratory."""
    return run_application(application())
