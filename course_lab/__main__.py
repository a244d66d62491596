"""`python -m course_lab …`: train, score and examine models, run batches, fetch corpora."""

import sys

from course_lab.cli import main

if __name__ == "__main__":
    sys.exit(main())
