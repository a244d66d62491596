"""The README's pictures say what the ledger and the lessons say."""

import pandas as pd
import pytest

from course_lab import claims, evidence
from course_lab.notebook_source import ROOT
from course_lib.errors import CourseError
from tools import pictures


def test_the_picture_of_the_claims_is_that_of_todays_results():
    """If it is not, `python -m tools picture` draws it anew."""
    assert pictures.written(ROOT) == pictures.shown(claims.ledger(evidence.read()))


def test_its_title_counts_the_verdicts():
    verdicts = ["agrees", "untested", "disagrees", "no difference larger than 2 %", "agrees"]
    interim = ["", "", "2 of 5 pairs", "", "4 of 5 pairs"]
    said = pictures.title(pd.DataFrame({"verdict": verdicts, "interim": interim}))
    assert said == (
        "4 of 5 claims are tested: 2 agree, 1 disagree, 1 no difference, 0 undecided; "
        "2 verdicts are interim"
    )


@pytest.mark.parametrize("name", pictures.OF_LESSONS)
def test_pictures_of_a_lesson_are_those_that_it_shows(name):
    """If one is not, `python -m tools picture` copies it anew."""
    lesson, begins = pictures.OF_LESSONS[name]
    figure = pictures.figure_of(ROOT / f"notebooks/{lesson}.ipynb", begins)
    assert (ROOT / pictures.PATH).with_name(name).read_bytes() == figure


def test_a_figure_that_is_not_there_once_is_an_error():
    with pytest.raises(CourseError, match="has 0 figures whose text begins 'No such'"):
        pictures.figure_of(ROOT / "notebooks/02_degeneration.ipynb", "No such")
