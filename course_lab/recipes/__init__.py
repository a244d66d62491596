"""One recipe for every published row, and what each profile changes.

A recipe states how it differs from its base and which table of which paper it stands for: a file
a paper, `baselines` for what several of them start from, `ngrams`, `own`, `desk` and `short` for
the course's own.
Recipes of other people come from a file or an installed package (`elsewhere`).
"""

from course_lab.recipes import (  # noqa: F401  (each enters its recipes)
    desk,
    elsewhere,
    gao2019,
    inan2017,
    ngrams,
    own,
    parthiban2021,
    short,
    wang2019,
    wang2020,
)
from course_lab.recipes.profiles import PROFILES, profile
from course_lab.recipes.registry import Recipes, add, name_in, recipes

__all__ = ["PROFILES", "Recipes", "add", "name_in", "profile", "recipes"]

elsewhere.load_installed()
