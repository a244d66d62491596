"""The papers' published figures, and the recipe behind each.

data/published.csv has one row a figure: paper, table, task, corpus, model, method, setting, metric,
split, value, sd. Tables S… are of parthiban2021's supplement, F… its figures.
"""

import re
from collections.abc import Mapping

import pandas as pd

from course_lib.data import folders
from course_lib.errors import CourseError

# Of the two priors of wang2020's Table 8 the better one is that of the recipe without a suffix.
BETTER_PRIOR = {"wikitext-2": "exponential", "wikitext-103": "polynomial"}
BETTER_PRIOR |= {"iwslt14/de-en": "exponential", "wmt14/en-de": "polynomial"}
COLUMNS = ("augmented-loss", "augmented"), ("tied+augmented-loss", "tied-augmented")


def rows() -> pd.DataFrame:
    """Every published figure, a row each; CourseError where the course's data folder is not."""
    path = folders.home() / "data" / "published.csv"
    try:
        table = pd.read_csv(path, dtype={"table": str})
    except FileNotFoundError:
        raise CourseError(f"{path} is missing; run the course from its repository") from None
    texts = table.columns.difference(["value", "sd"])
    return table.fillna(dict.fromkeys(texts, ""))


def recipe_of(row: Mapping) -> str | None:
    """The recipe that a row stands for, or whose checkpoint it is measured on.

    None for the ranks of a synthetic matrix (parthiban2021, Table S15), where nothing is trained.
    CourseError for a paper that is not one of the five.
    """
    if row["task"] == "theory":
        return None
    if row["paper"] not in _SUFFIXES:
        raise CourseError(f"{row['paper']} is none of the papers; known: {', '.join(_SUFFIXES)}")
    method = dict(COLUMNS).get(row["method"], row["method"])
    return f"{row['corpus']}/{row['model']}/{method}{_SUFFIXES[row['paper']](row)}"


def compared_with(row: Mapping) -> str | None:
    """The recipe of the other model of a p-value, a gain or a count of wins; else None."""
    found = re.search("(?:against|over)[ -](softmax|plif|mos)", f"{row['setting']} {row['metric']}")
    return recipe_of({**row, "method": found[1]}) if found else None


def cited(source: str) -> set[tuple[str, str]]:
    """The (paper, table) pairs that a recipe's source names: "wang2020, Tables 1, 6: …"."""
    found = re.findall(r"(\w+\d{4}), Tables? ((?:[FS]?\d+(?:, (?=[FS]?\d))?)+)", source)
    return {(paper, table) for paper, tables in found for table in tables.split(", ")}


def _inan2017(row) -> str:
    # Footnote 4: on Penn Treebank the small models were trained a second time, which did not change
    # the baseline.
    again = (row["corpus"], row["model"]) == ("ptb", "vd-lstm-200") and row["method"] != "baseline"
    return "/second-session" if again else ""


def _gao2019(row) -> str:
    stages = {"finetuned": "/finetuned", "continuous cache": "/continuous-cache"}
    return stages.get(row["setting"], "")


def _wang2019(row) -> str:
    if row["table"] == "5" and (row["model"], row["method"]) == ("transformer-base", "softmax"):
        return "/dropout-0.4"  # as its adversarial row; wang2020 trained the other one
    stages = {"finetuned": "/finetuned", "dynamic evaluation": "/dynamic-evaluation"}
    stages["without dynamic evaluation"] = "/finetuned"  # Table 1 is about finetuned models
    return stages.get(row["setting"], "")


def _wang2020(row) -> str:
    prior = re.match("(exponential|polynomial) prior", row["setting"])
    if prior:
        return "" if prior[1] == BETTER_PRIOR[row["corpus"]] else f"/{prior[1]}-prior"
    return _gao2019(row)


def _parthiban2021(row) -> str:
    setting, mixture = row["setting"], row["method"] == "mos"
    if setting.startswith("equal parameters"):
        return "/equal-capacity"
    if setting.startswith("d=280"):
        return "/equal-width"
    swept = re.search(r"K=(\d+)|latent dropout ([\d.]+)", setting)
    if swept and swept[0] not in ("K=15", "latent dropout 0.29"):
        return f"/components-{swept[1]}" if swept[1] else f"/latent-dropout-{swept[2]}"
    # What the authors of the others reported was reached by NT-ASGD, PLIF's by ET-ASGD, as all else
    # of the paper: the ranks, word similarities, times and tests without a word about it, too. Only
    # the mixture's rank in Table 1 is that of its run with NT-ASGD (Tables S4, S10). The
    # mixture's reproduced gain there, 1.28, is that of no pair in Table S10: 2.0 by either trigger.
    quoted = setting == "reported by its authors" and row["method"] != "plif"
    ranked = mixture and (row["table"], setting, row["metric"]) == ("1", "reproduced", "rank")
    if "NT-ASGD" not in setting and not quoted and not ranked:
        return "/et-asgd"
    shared = mixture or (row["corpus"], row["method"]) == ("wikitext-2", "softmax")
    return "" if shared else "/nt-asgd"


_SUFFIXES = {
    "inan2017": _inan2017,
    "gao2019": _gao2019,
    "wang2019": _wang2019,
    "wang2020": _wang2020,
    "parthiban2021": _parthiban2021,
}
