"""The command line: one typer application, one file a group of commands."""

import sys

import typer

from course_lib.errors import CourseError


def application() -> typer.Typer:
    """The application with every group of commands mounted."""
    from course_lab.cli import batch, data, examine, model, train

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
    for group in (train, model, examine):
        group.register(app)
    return app


def run_application(app: typer.Typer) -> int:
    """Run a command of `app`; a `CourseError` is printed as one message, exit code 2."""
    for stream in (sys.stdout, sys.stderr):  # whose encoding may lack a letter of a text
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        app(standalone_mode=True)
    except CourseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def main() -> int:
    """Run a command of the laboratory."""
    return run_application(application())
