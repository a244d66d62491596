"""The rules on tables of lessons: n-grams beside perplexities, and p for a declared family."""

import nbformat
import pandas as pd
import pytest

from course_lab import plans, tables, untested
from course_lab.notebook_source import FOLDER, read, sources
from course_lib.data import Corpus
from tools.table_rules import EXCEPTIONS, uncounted, undeclared


def shown(frame, source="table"):
    """Return a cell that shows a table."""
    output = nbformat.v4.new_output("display_data", {"text/html": frame.to_html()})
    return [nbformat.v4.new_code_cell(source, outputs=[output])]


@pytest.mark.parametrize("column", ["perplexity", "test perplexity", "validation perplexity"])
def test_a_table_of_perplexities_has_n_grams(column):
    frame = pd.DataFrame({column: [91.2], "p": [0.1]}, index=["tied"])
    (problem,) = uncounted(shown(frame))
    assert problem.startswith("cell 1") and "with_ngrams" in problem
    text = plans.read_plan("lessons-06").runs[0].experiment().load_corpus()
    assert isinstance(text, Corpus)
    counted = tables.with_ngrams(frame.rename(columns={column: "test perplexity"}), text)
    assert uncounted(shown(counted.rename(columns={"test perplexity": column}))) == []
    (fragment, *_) = EXCEPTIONS
    assert uncounted(shown(frame, fragment)) == []
    assert uncounted(shown(frame.rename(columns={column: "training perplexity"}))) == []


def test_a_p_is_that_of_a_declared_family():
    cells = [nbformat.v4.new_code_cell("comparison.tested(d)\nother.tested(d)")]
    (problem,) = undeclared(cells)
    assert "comparison.tested" in problem and "family_of" in problem
    cells[0].source = "comparison.compare(scores, 'tied', family=tables.family_of(plan))"
    assert undeclared(cells) == []


@pytest.mark.parametrize("path", sources(FOLDER), ids=lambda path: path.stem)
def test_every_lesson_keeps_both_rules(path):
    assert undeclared(read(path).cells) == []
    assert uncounted(nbformat.read(path.with_suffix(".ipynb"), as_version=4).cells) == []


def test_every_exception_is_needed():
    notebooks = [nbformat.read(path.with_suffix(".ipynb"), 4).cells for path in sources(FOLDER)]
    for fragment in EXCEPTIONS:
        cells = [cell for cells in notebooks for cell in cells if fragment in cell.source]
        assert uncounted(cells, exceptions=()), fragment


def test_a_lesson_has_the_p_of_the_command():
    """A pair is a row of the plan's table, whose correction is for all models of the plan."""
    plan = plans.read_plan("lessons-08")
    rows = untested.compared(plan, {"a pair": ("spectrum", "tied init=0.053")})
    table = tables.table_of(plan, "tied init=0.053").models
    assert rows.loc["a pair", "p"] == table.loc["spectrum", "p"]
    assert tables.family_of(plan) == len(table) - 1
