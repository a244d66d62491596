"""The README's picture says what the ledger says."""

from course_lab import claims, evidence
from course_lab.notebook_source import ROOT
from tools import pictures


def test_the_picture_of_the_claims_is_that_of_todays_results():
    """If it is not, `python -m tools picture` draws it anew."""
    assert pictures.written(ROOT) == pictures.shown(claims.ledger(evidence.read()))
