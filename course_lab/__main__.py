"""`course-lab …`, `python -m course_lab …`: train, score and examine models, run batches."""

import sys

from course_lab import extras


def main() -> int:
    """Run a command of the laboratory, where the packages that it needs are installed."""
    if names := extras.absent():
        print(f"error: {extras.refusal(names)}", file=sys.stderr)
        return 2
    from course_lab.cli import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
