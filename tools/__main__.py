"""`python -m tools …`: the commands of the set-up, which need nothing but Python, then the rest."""

import sys

SETUP = {"setup", "course", "test", "lab", "site", "clean"}


def main() -> int:
    """Run a command, in the environment that it needs."""
    if len(sys.argv) > 1 and sys.argv[1] in SETUP:
        from tools import bootstrap

        if not bootstrap.inside_environment() or sys.argv[1] in {"setup", "clean"}:
            return bootstrap.main(sys.argv[1:])
    from course_lab.cli import run_application
    from tools.cli import application

    return run_application(application())


if __name__ == "__main__":
    sys.exit(main())
