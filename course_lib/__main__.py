"""`python -m course_lib …`: set-up commands first (they need nothing but Python), then the rest."""

import sys

SETUP = {"setup", "course", "test", "lab", "site", "clean"}


def main() -> int:
    if len(sys.argv) > 1 and sys.argv[1] in SETUP:
        from course_lib import bootstrap

        if not bootstrap.inside_environment() or sys.argv[1] in {"setup", "clean"}:
            return bootstrap.main(sys.argv[1:])
    from course_lib.cli import main as command_line

    return command_line()


if __name__ == "__main__":
    sys.exit(main())
