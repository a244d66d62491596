"""The command line: one typer application, one file a group of commands."""

import sys

import typer

from course_lib.errors import CourseError


def application() -> typer.Typer:
    """The application with every group of commands mounted."""
    from course_lib.cli import batch, benchmark, course, data, examine, model, train

    app = typer.Typer(
        name="course_lib",
        help="The output embedding of language models: data, training, lessons.",
        epilog="Besides: `setup` makes the environment, `clean [--all]` removes what was built.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.add_typer(data.app, name="data")
    app.add_typer(benchmark.app, name="benchmark")
    app.add_typer(batch.app, name="batch")
    for group in (train, model, examine, course):
        group.register(app)
    return app


def main() -> int:
    """Run a command; a `CourseError` is printed as one message, exit code 2."""
    for stream in (sys.stdout, sys.stderr):  # whose encoding may lack a letter of a text
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        application()(standalone_mode=True)
    except CourseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
