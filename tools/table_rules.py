"""Two rules of the lesson contract on tables: what stands beside a perplexity, and what p is.

A table of perplexities has the n-grams of the same text as rows, from `tables.with_ngrams`: a model
that does not beat counting is no evidence. Where a lesson tests differences it says how many
comparisons its plan declares, so that lesson and `batch table` print the same p.
"""

import ast
import html
import re
from collections.abc import Iterable

from course_lab.notebook_source import code, plain

COLUMN = r"(?:(?:test|validation|valid) )?perplexity(?: low| high)?"  # the name of such a column
COUNTED = "Kneser-Ney 5"  # in a table that has the n-grams
TESTS = ("tested", "compare")  # functions of `comparison` whose p depends on the family

# Tables without n-grams: a text of the cell that shows one → the reason.
EXCEPTIONS = {
    'patient.repairs["centring"]["perplexity_before"]': "one model before and after a repair",
    "tour.side_by_side(figures)": "two models of other pieces and texts, each before and after",
    'figures["repairs"]': "one published model before and after a repair, on its own pieces",
    'knob.pivot_table("value", **shape)': "the paper's numbers for one mixture, its dropout turned",
}


def uncounted(cells, exceptions: Iterable[str] = EXCEPTIONS) -> list[str]:
    """Return the cells whose output is a table of perplexities without n-grams."""
    problems = []
    for number, cell in code(cells):
        if any(text in cell.source for text in exceptions):
            continue
        for output in cell.outputs:
            table = output.get("data", {}).get("text/html", "")
            heads = re.findall(r"<th\b[^>]*>(.*?)</th>", table, re.S)
            names = {html.unescape(re.sub(r"<[^>]+>", "", head)).strip() for head in heads}
            if COUNTED not in names and any(re.fullmatch(COLUMN, name) for name in names):
                problems.append(
                    f"cell {number}: a table of perplexities has no n-grams of the same text as "
                    "rows; `tables.with_ngrams` adds them"
                )
    return problems


def undeclared(cells) -> list[str]:
    """Return the calls that test differences and do not say how many the plan declares."""
    problems = []
    for number, cell in code(cells):
        try:
            tree = ast.parse(plain(cell.source))
        except SyntaxError:  # told by another rule
            continue
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            module, _, name = ast.unparse(call.func).rpartition(".")
            given = {keyword.arg for keyword in call.keywords}
            if module == "comparison" and name in TESTS and "family" not in given:
                problems.append(
                    f"cell {number}: `comparison.{name}` without `family=`: its p would be "
                    "corrected for what was picked; take `tables.family_of(plan)`, or a row of "
                    "`untested.compared`"
                )
    return problems
