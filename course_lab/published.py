"""The papers' published figures, and the recipe behind each.

data/published.csv has one row a figure: paper, table, task, corpus, model, method, setting, metric,
split, value, sd; the recipe that the row stands for, or whose checkpoint it is measured on; in what
settings the run differs from that recipe; and a note, which says why where there is no recipe.
Tables S… are of parthiban2021's supplement, F… its figures.

Some recipes follow from what the papers say, not from the row alone:

* inan2017, footnote 4: the small models on Penn Treebank were trained a second time, which did not
  change the baseline.
* wang2020, Table 8 compares two priors; the better one is that of the recipe without a suffix.
* parthiban2021: what the authors of the other methods reported was reached by NT-ASGD; PLIF's was
  reached by ET-ASGD, and so was all else of the paper where it does not say otherwise. Only the
  mixture's rank in Table 1 is that of its run with NT-ASGD (Tables S4 and S10). The mixture's
  reproduced gain there, 1.28, is that of no pair in Table S10: it is 2.0 by either trigger.
"""

import re
from collections.abc import Mapping
from typing import Any

import pandas as pd

from course_lab.overrides import settings
from course_lab.package_data import package_data
from course_lib.errors import CourseError


def rows() -> pd.DataFrame:
    """Return every published figure, a row each.

    Raise CourseError where the course's data folder is not.
    """
    table = _read("published.csv")
    texts = table.columns.difference(["value", "sd"])
    return table.fillna(dict.fromkeys(texts, ""))


def contexts(table: str) -> pd.DataFrame:
    """Return the contexts in PTB's test split that a table prints: number, place, phrase, next.

    data/contexts.csv has them: where the word to be predicted stands, line ends counting as tokens,
    and which word follows. The places of inan2017's phrases are those where the split has them.

    table: `S2` of parthiban2021, which is printed without phrases here, or `4` of inan2017.
    """
    rows = _read("contexts.csv").fillna({"phrase": ""})
    columns = ["number", "place", "phrase", "next"]
    return rows.loc[rows.table == table, columns].reset_index(drop=True)


def records() -> pd.DataFrame:
    """Return what public speed records, logs and papers say of the word matrix, a row each.

    data/records.csv has for each statement: the claim of `claims_table.RECORDS` that it bears on,
    empty where it bears on all; source, place, date and address; side, `claim` or `counter`; what
    it says, in our words; and the effect that the source gives, in a unit, beside the number `of`
    that it changes. The effect is that of all that came with the trick, as `says` tells.
    """
    table = _read("records.csv")
    texts = table.columns.difference(["effect", "of"])
    return table.fillna(dict.fromkeys(texts, ""))


def _read(name: str) -> pd.DataFrame:
    path = package_data() / "data" / name
    try:
        return pd.read_csv(path, dtype={"table": str})
    except FileNotFoundError:
        raise CourseError(f"{path} is missing; run the course from its repository") from None


def change_of(row: Mapping) -> dict[str, Any]:
    """Return the settings, by dotted names, in which a row's run differs from its recipe."""
    return settings(row["change"].split())


def cited(source: str) -> set[tuple[str, str]]:
    """Return the (paper, table) pairs that a recipe's source names: "wang2020, Tables 1, 6: …"."""
    places = re.findall(r"(\w+\d{4}), Tables? ((?:[FS]?\d+(?:, (?=[FS]?\d))?)+)", source)
    return {(paper, table) for paper, tables in places for table in tables.split(", ")}
