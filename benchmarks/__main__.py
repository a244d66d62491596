"""`python -m benchmarks …`: time and memory of the library beside plain PyTorch."""

import sys

from benchmarks.cli import app
from course_lab.cli import run_application

if __name__ == "__main__":
    sys.exit(run_application(app))
