"""The figures of SmolLM2 that are kept beside this module, with where they come from.

`python -m course_lab tour` computes them anew.
"""

import json
from functools import cache
from importlib import resources

FILE = "smollm2.json"


@cache
def kept() -> dict:
    """Return the figures of lesson 37, with their provenance."""
    return json.loads(resources.files("course_lab.examine").joinpath(FILE).read_text("utf-8"))


def price_of_all_but_the_top() -> str:
    """Return what all-but-the-top did to a real model's perplexity, in words."""
    repairs = kept()["repairs"]
    before, after = (repairs[name]["perplexity"] for name in ("as it is", "all-but-the-top"))
    return f"in SmolLM2 it raised the perplexity from {before:.0f} to {after:.0f}"
