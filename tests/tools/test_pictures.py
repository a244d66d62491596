"""The README's picture says what the ledger says."""

import pandas as pd

from course_lab import claims, evidence
from course_lab.notebook_source import ROOT
from tools import pictures


def test_the_picture_of_the_claims_is_that_of_todays_results():
    """If it is not, `python -m tools picture` draws it anew."""
    assert pictures.written(ROOT) == pictures.shown(claims.ledger(evidence.read()))


def test_its_title_counts_the_verdicts():
    verdicts = ["agrees", "untested", "disagrees", "no difference larger than 2 %", "agrees"]
    said = pictures.title(pd.DataFrame({"verdict": verdicts}))
    assert said == "4 of 5 claims are tested: 2 agree, 1 disagree, 1 no difference, 0 undecided"
